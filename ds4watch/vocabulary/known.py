"""Which metric names can be there, and what unit a name tells."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from ds4watch.vocabulary.engines import ENGINES, MISS_RATIO
from ds4watch.vocabulary.families import (
    CLIENT_FAMILIES,
    OPEN_PREFIXES,
    SGLANG_GAUGES_AND_COUNTERS,
    SGLANG_HISTOGRAMS,
    VLLM_GAUGES_AND_COUNTERS,
    VLLM_HISTOGRAMS,
)
from ds4watch.vocabulary.names import EXPOSED, TARGET_SERIES
from ds4watch.vocabulary.routers import ROUTER_MEANINGS
from ds4watch.vocabulary.signal import SignalType
from ds4watch.vocabulary.table import Meaning

_PARTS: Final = ("_bucket", "_sum", "_count")
FAMILIES: Final = {
    "vllm": (VLLM_GAUGES_AND_COUNTERS, VLLM_HISTOGRAMS),
    "sglang": (SGLANG_GAUGES_AND_COUNTERS, SGLANG_HISTOGRAMS),
}
_OF_ALERTS: Final = ("ALERTS", "ALERTS_FOR_STATE")
_SHARES: Final = ("_ratio", "_perc", "_hit_rate", "_acceptance_rate", ":token_usage")
_PERCENTS: Final = ("_percent", "_percentage", "_pct", "_UTIL")
_SHARES_OF_TRAFFIC: Final = (MISS_RATIO, "ds4_prefill_token_ratio", "ds4_prefill_time_ratio")
_RATES: Final = ("_hit_rate", "_hit_ratio", "_miss_ratio", "_error_ratio", "_acceptance_rate")


class KnownMetrics:
    """What the tables say of a series by its name."""

    def is_known(self, name: str) -> bool:
        """Return whether ds4watch writes the series, or a page that it can read may have it."""
        return name in known_names() or name.startswith(OPEN_PREFIXES)

    def nearest(self, name: str) -> str | None:
        """Return the known name that is most like `name`, if one is."""
        return next(iter(difflib.get_close_matches(name, known_names(), n=1, cutoff=0.8)), None)

    def is_share(self, name: str) -> bool:
        """Return whether its values lie from 0 to 1; `_perc` is vLLM's word for that."""
        return name.endswith(_SHARES)

    def is_percent(self, name: str) -> bool:
        """Return whether its values lie from 0 to 100."""
        return name.endswith(_PERCENTS)

    def is_share_of_traffic(self, name: str) -> bool:
        """Return whether it is a share of requests or tokens, which few of them make wild."""
        return name in _SHARES_OF_TRAFFIC or name.endswith(_RATES)


@lru_cache(maxsize=1)
def known_names() -> frozenset[str]:
    """Return every series name of the tables."""
    return frozenset(_names())


def _names() -> Iterator[str]:
    for signal in EXPOSED.values():
        if signal.type is SignalType.HISTOGRAM:
            yield from _histogram(signal.name)
        else:
            yield signal.name
    yield from (signal.name for signal in TARGET_SERIES)
    yield from _OF_ALERTS
    yield from CLIENT_FAMILIES
    yield from (name + part for name in CLIENT_FAMILIES if "_size_" in name for part in _PARTS)
    yield from (name + part for name in CLIENT_FAMILIES if "duration" in name for part in _PARTS)
    yield from _picked(ROUTER_MEANINGS)
    for engine in ENGINES:
        plain, histograms = FAMILIES[engine.name]
        own = {*plain, *_picked(engine.meanings)}
        own.update(part for name in histograms for part in _histogram(name))
        yield from (prefix + name for prefix in engine.prefixes for name in own)


def _histogram(name: str) -> Iterator[str]:
    yield from (name + part for part in _PARTS)


def _picked(meanings: tuple[Meaning, ...]) -> Iterator[str]:
    for meaning in meanings:
        for source in meaning.sources:
            yield from (pick.name for pick in (*source.add, *source.subtract))
