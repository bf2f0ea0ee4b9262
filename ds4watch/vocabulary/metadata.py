"""Type and help of metric families, as the Prometheus HTTP API tells them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from ds4watch.vocabulary.engines import ENGINES
from ds4watch.vocabulary.known import FAMILIES
from ds4watch.vocabulary.names import EXPOSED, TARGET_SERIES


class Metadata(NamedTuple):
    """What is known of a family; `help` is empty where only its kind is."""

    type: str
    help: str


@lru_cache(maxsize=1)
def families() -> dict[str, Metadata]:
    """Return the families of ours and of engines, by name."""
    own = {it.name: Metadata(it.type.value, it.help) for it in (*EXPOSED.values(), *TARGET_SERIES)}
    return dict(sorted({**dict(_of_engines()), **own}.items()))


def _of_engines() -> Iterator[tuple[str, Metadata]]:
    for engine in ENGINES:
        plain, histograms = FAMILIES[engine.name]
        # Some versions leave `_total` out.
        counters = {name.removesuffix("_total") for name in plain if name.endswith("_total")}
        for prefix in engine.prefixes:
            for name in plain:
                is_counter = name.removesuffix("_total") in counters
                yield prefix + name, Metadata("counter" if is_counter else "gauge", "")
            for name in histograms:
                yield prefix + name, Metadata("histogram", "")
