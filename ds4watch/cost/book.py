"""Keeps the sums of hours, tick by tick: what of the ledger's money fell into watched time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from ds4watch.cost.attribution import Charge, CostPart
from ds4watch.cost.hours import (
    DAYS_KEPT,
    HOUR_SECONDS,
    Compared,
    HourSum,
    Measure,
    Rates,
    compared,
    expected_rates,
    hour_of,
)
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds

_KEY = "cost_hours"


class Stage(StrEnum):
    """What a worker's busy time goes into; `unknown` while no request of a minute was timed."""

    PREFILL = "prefill"
    DECODE = "decode"
    UNKNOWN = "unknown"


def by_stage(nanos: Nanos, prefill_ratio: float | None) -> tuple[Nanos, Nanos, Nanos]:
    """Return busy money by stage time, in the order of Stage. It sums to exactly `nanos`."""
    if prefill_ratio is None:
        return 0, 0, nanos
    prefill = min(nanos, round(nanos * prefill_ratio))
    return prefill, nanos - prefill, 0


class CostBook:
    """The hours of two weeks, and busy money by profile and stage since the start."""

    def __init__(self, hours: Mapping[int, HourSum] | None = None) -> None:
        self._hours = dict(hours or {})
        self._rates: tuple[int, Rates] = (-1, {})
        self._until: UnixSeconds | None = None
        self._since: UnixSeconds = 0.0
        self._by_stage: dict[str, list[Nanos]] = {}

    @classmethod
    def from_json(cls, carry: Mapping[str, Any]) -> CostBook:
        """Return the book that was kept by `as_json`; an empty one where there is none."""
        return cls({int(hour): HourSum(*sums) for hour, sums in carry.get(_KEY, {}).items()})

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        sums = {
            str(hour): [round(it.watched_seconds, 3), it.spent, it.used, it.tokens]
            for hour, it in self._hours.items()
        }
        return {_KEY: sums}

    def note(
        self,
        charges: Iterable[Charge],
        prefill_ratios: Mapping[str, float],
        now: UnixSeconds,
        *,
        longest_seconds: float,
    ) -> None:
        """Book what a tick was charged for the time since the last one.

        What was charged for a longer time counts for no hour: nobody watched.
        """
        start, self._until = self._until, now
        watched = start is not None and 0 <= now - start <= longest_seconds
        if not watched:
            self._since = now
        spent: Counter[int] = Counter()
        used: Counter[int] = Counter()
        for charge in charges:
            spent[charge.hour_at] += charge.nanos
            if charge.part is CostPart.BUSY:
                used[charge.hour_at] += charge.nanos
                parts = by_stage(charge.nanos, prefill_ratios.get(charge.worker))
                sums = self._by_stage.setdefault(charge.profile, [0, 0, 0])
                for at, nanos in enumerate(parts):
                    sums[at] += nanos
        if watched and start is not None:
            for hour, seconds in _by_hour(start, now):
                self._add(hour, HourSum(seconds, spent[hour], used[hour]))

    def note_tokens(self, ended_at: UnixSeconds, tokens: int) -> None:
        """Book a request's tokens, if it ended while we watched."""
        if self._until is not None and ended_at >= self._since:
            self._add(hour_of(ended_at), HourSum(tokens=tokens))

    def by_stage(self) -> Iterator[tuple[str, Stage, Nanos]]:
        """Yield busy money since the start by profile and stage; stages never seen are left out."""
        for profile, sums in sorted(self._by_stage.items()):
            timed = sums[0] + sums[1] > 0
            for stage, nanos in zip(Stage, sums, strict=True):
                if nanos or (timed and stage in (Stage.PREFILL, Stage.DECODE)):
                    yield profile, stage, nanos

    def so_far(self, now: UnixSeconds) -> Iterator[tuple[Measure, float]]:
        """Yield what the running hour came to until now; nothing before it is watched."""
        running = self._hours.get(hour_of(now), HourSum())
        for measure in Measure:
            value = running.value(measure)
            if value is not None:
                yield measure, value

    def compared(self, now: UnixSeconds) -> Iterator[Compared]:
        """Yield the running hour against what is expected of it."""
        hour = hour_of(now)
        if self._rates[0] != hour:
            self._rates = (hour, expected_rates(self._hours, hour))
        return compared(self._hours.get(hour, HourSum()), now - hour, self._rates[1])

    def _add(self, hour: int, more: HourSum) -> None:
        if hour not in self._hours:
            oldest = hour - DAYS_KEPT * 24 * HOUR_SECONDS
            self._hours = {at: it for at, it in self._hours.items() if at >= oldest}
        self._hours[hour] = self._hours.get(hour, HourSum()).plus(more)


def _by_hour(start: UnixSeconds, end: UnixSeconds) -> Iterator[tuple[int, float]]:
    while start < end:
        hour = hour_of(start)
        until = min(end, hour + HOUR_SECONDS)
        yield hour, until - start
        start = until
