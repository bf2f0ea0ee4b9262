"""What a calendar asks for: so many workers from one time of day to another. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo

from ds4watch.model.ports import UnixSeconds

ANY_PROFILE = "*"


@dataclass(frozen=True, slots=True)
class CalendarEntry:
    """`workers` of a profile from `begin` to `end` (local time) on these days; Monday is 0.

    An end that is not after the begin is on the next day.
    """

    name: str
    workers: int
    days: frozenset[int]
    begin: time
    end: time
    profile: str = ANY_PROFILE
    zone: tzinfo = UTC


def asked(
    entries: Iterable[CalendarEntry], profile: str, now: UnixSeconds, lead_seconds: float
) -> tuple[int, str]:
    """Return how many the calendar wants of a profile, `lead_seconds` ahead, and which entry."""
    due = [
        (entry.workers, entry.name)
        for entry in entries
        if entry.profile in (ANY_PROFILE, profile)
        and any(begin - lead_seconds <= now < end for begin, end in _spans(entry, now))
    ]
    return max(due, default=(0, ""))


def _spans(entry: CalendarEntry, now: UnixSeconds) -> Iterator[tuple[UnixSeconds, UnixSeconds]]:
    """Yield begin and end of the entry's spans around now."""
    today = datetime.fromtimestamp(now, entry.zone).date()
    for days in (-1, 0, 1):
        day = today + timedelta(days=days)
        if day.weekday() not in entry.days:
            continue
        until = day if entry.end > entry.begin else day + timedelta(days=1)
        begin = datetime.combine(day, entry.begin, entry.zone)
        end = datetime.combine(until, entry.end, entry.zone)
        yield begin.timestamp(), end.timestamp()
