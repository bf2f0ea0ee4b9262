"""When requests arrived, by profile and five minutes, over four weeks; kept day by day."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ds4watch.cost.forecast import BIN_SECONDS, BINS_PER_DAY, DAYS_KEPT, Floats, History
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.usage import RequestOutcome, RequestRecord

_KEY = "arrivals"
_SLOTS = DAYS_KEPT + 2
"""A day takes the row of the one so many days before: there are never more rows."""
_LEARNS = 0.005
"""So much of how long requests take is learned from each."""


class Arrivals:
    """Counts of one profile, and how long its requests take."""

    def __init__(self) -> None:
        self._days: dict[int, Floats] = {}
        self.service_seconds: float | None = None
        self._changed: set[int] = set()

    def restore(self, row: Mapping[str, Any]) -> None:
        """Take in a day as `rows` gave it."""
        counts = [math.nan if it is None else float(it) for it in row["counts"]]
        self._days[int(row["day"])] = np.array(counts, dtype=np.float64)
        if row.get("service_seconds") is not None:
            self.service_seconds = float(row["service_seconds"])

    def watch(self, now: UnixSeconds) -> None:
        """Note that somebody looks: what is not counted in this bin did not come."""
        self._add(now, 0.0)

    def add(self, at: UnixSeconds) -> None:
        """Count a request that arrived at an instant."""
        self._add(at, 1.0)

    def learn(self, service_seconds: float) -> None:
        """Take in how long a request took that waited for nobody."""
        known = self.service_seconds
        fresh = service_seconds if known is None else known
        self.service_seconds = fresh + _LEARNS * (service_seconds - fresh)

    def history(self, now: UnixSeconds) -> History | None:
        """Return the counts up to the last bin that is over; None without any."""
        today, bins_today = divmod(int(now // BIN_SECONDS), BINS_PER_DAY)
        days = [day for day in self._days if today - DAYS_KEPT <= day <= today]
        if not days:
            return None
        first = min(days)
        none = np.full(BINS_PER_DAY, np.nan)
        values = np.concatenate([self._days.get(day, none) for day in range(first, today + 1)])
        return History(first * BINS_PER_DAY, values[: (today - first) * BINS_PER_DAY + bins_today])

    def rows(self, profile: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the days that changed since the last call, with the names they are kept under."""
        for day in sorted(self._changed):
            counts = [None if math.isnan(it) else int(it) for it in self._days[day].tolist()]
            value = {
                "profile": profile,
                "day": day,
                "counts": counts,
                "service_seconds": self.service_seconds,
            }
            yield f"{_KEY}:{profile}:{day % _SLOTS}", value
        self._changed.clear()

    def _add(self, at: UnixSeconds, count: float) -> None:
        day, place = divmod(int(at // BIN_SECONDS), BINS_PER_DAY)
        if day not in self._days:
            self._days = {it: of for it, of in self._days.items() if it > day - _SLOTS}
            self._days[day] = np.full(BINS_PER_DAY, np.nan)
        counts = self._days[day]
        was = float(counts[place])
        if math.isnan(was) or count:
            counts[place] = (0.0 if math.isnan(was) else was) + count
            self._changed.add(day)


def restored(kept: Mapping[str, Any]) -> dict[str, Arrivals]:
    """Return the counts by profile from what was kept; what cannot be read is left out."""
    found: dict[str, Arrivals] = {}
    rows = [row for name, row in kept.items() if name.startswith(f"{_KEY}:")]
    for row in sorted((it for it in rows if _is_day(it)), key=lambda it: int(it["day"])):
        found.setdefault(str(row["profile"]), Arrivals()).restore(row)
    return found


def _is_day(row: object) -> bool:
    if not isinstance(row, dict) or not isinstance(row.get("day"), int):
        return False
    counts = row.get("counts")
    return isinstance(counts, list) and len(counts) == BINS_PER_DAY and "profile" in row


def arrived(
    records: Iterable[RequestRecord], profile_of: Callable[[RequestRecord], str | None]
) -> Iterator[tuple[str, UnixSeconds, float | None]]:
    """Yield profile, instant of arrival, and time taken if it was answered."""
    for record in records:
        profile = profile_of(record)
        if profile is not None:
            is_ok = record.outcome is RequestOutcome.OK
            took = record.duration_seconds if is_ok else None
            yield profile, record.ended_at - record.duration_seconds, took
