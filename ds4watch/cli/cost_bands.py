"""What prompts of each length cost, as `ds4watch cost by context` shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table

from ds4watch.cli.common import print_json
from ds4watch.cli.console import console
from ds4watch.cli.display import money
from ds4watch.model.money import NANOS_PER_UNIT
from ds4watch.model.work import BANDS, UNKNOWN_BAND

_SUMS = (
    "requests",
    "prompt_tokens",
    "cached_tokens",
    "again_tokens",
    "completion_tokens",
    "held_ms",
    "prefill_ms",
    "decode_ms",
    "wasted_ms",
    "kv_token_ms",
    "nanos",
)
_MS_PER_HOUR = 3_600_000


def tell_bands(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Print money, tokens, time and KV cache by the length of prompts, shortest first."""
    bands = {band: dict(sums) for band, sums in _by_band(found["context"])}
    if as_json:
        print_json({**found, "by": "context", "bands": bands})
        return
    table = Table("prompt", "requests", "money", "a request", "time", "prefill", "KV", box=None)
    kept = sum(it["kv_token_ms"] for it in bands.values())
    for band, sums in bands.items():
        table.add_row(*_row(band, sums, found["currency"], kept))
    console().print(table)


def _by_band(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, Counter[str]]]:
    sums: dict[str, Counter[str]] = {}
    for row in rows:
        sums.setdefault(row["band"], Counter()).update({name: row[name] for name in _SUMS})
    return [(band, sums[band]) for band in BANDS if band in sums]


def _row(band: str, sums: Mapping[str, int], currency: str, kept: int) -> tuple[str, ...]:
    nanos, requests = sums["nanos"], sums["requests"]
    each = money(nanos / requests / NANOS_PER_UNIT, currency) if requests else ""
    staged = sums["prefill_ms"] + sums["decode_ms"]
    return (
        _named(band),
        str(requests),
        money(nanos / NANOS_PER_UNIT, currency),
        each,
        f"{sums['held_ms'] / 1000:.0f} s",
        f"{sums['prefill_ms'] / staged:.0%}" if staged else "",
        f"{sums['kv_token_ms'] / kept:.0%}" if kept else "",
    )


def _named(band: str) -> str:
    if band == UNKNOWN_BAND:
        return "not known"
    return f"over {BANDS[-3].upper()}" if band == "over" else f"up to {band.upper()}"
