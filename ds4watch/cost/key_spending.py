"""What each API key spent: the money of a busy worker, shared out by tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ds4watch.model.key_budget import KeyUse
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds


def spent_by_key(
    uses: Iterable[KeyUse], busy: Mapping[tuple[UnixSeconds, str], Nanos]
) -> dict[str, dict[UnixSeconds, Nanos]]:
    """Return money by key and hour. Of an hour of a worker never more is given out than it cost."""
    weights: dict[tuple[UnixSeconds, str], Counter[str]] = {}
    for use in uses:
        weights.setdefault((use.hour_at, use.worker), Counter())[use.key] += use.usage.work
    spent: dict[str, Counter[UnixSeconds]] = {}
    for place, by_key in weights.items():
        total = by_key.total()
        for key, weight in by_key.items():
            if total:
                share = busy.get(place, 0) * weight // total
                spent.setdefault(key, Counter())[place[0]] += share
    return {key: dict(hours) for key, hours in spent.items()}
