"""Keeps the sums of hours, tick by tick: what of the ledger's money fell into watched time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ds4watch.cost.anomaly import AnomalyWatch, Deviation
from ds4watch.cost.attribution import Charge, CostPart, Stage, by_stage
from ds4watch.cost.hours import (
    DAYS_KEPT,
    HOUR_SECONDS,
    MOST_DAYS,
    Compared,
    HourSum,
    Measure,
    Rates,
    alike_hours,
    can_be_compared,
    compared,
    expected_rates,
    hour_of,
)
from ds4watch.cost.waterfall import Waterfall, usual, waterfall
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.usage import RequestRecord

_KEY = "cost_hours"
_LATE_SECONDS = 60.0
"""What ended in an hour is booked by then."""
_JUDGED_SECONDS = 10.0
"""Rules ask every 15 s."""
_HOURS_AT_ONCE = 6
"""That are learned in one go: after a start there are hundreds."""


class CostBook:
    """The hours of three weeks, and busy money by profile and stage since the start."""

    def __init__(self, hours: Mapping[int, HourSum] | None = None) -> None:
        self._hours = dict(hours or {})
        self._rates: tuple[int, Rates] = (-1, {})
        self._until: UnixSeconds | None = None
        self._since: UnixSeconds = 0.0
        self._by_stage: dict[str, list[Nanos]] = {}
        self._watch = AnomalyWatch()
        self._judged: tuple[float, tuple[Deviation, ...]] = (-1.0, ())

    @classmethod
    def from_json(cls, carry: Mapping[str, Any]) -> CostBook:
        """Return the book that was kept by `as_json`; an empty one where there is none."""
        return cls({int(hour): HourSum(*sums) for hour, sums in carry.get(_KEY, {}).items()})

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        sums = {
            str(hour): [
                round(it.watched_seconds, 3),
                it.spent,
                it.used,
                it.tokens,
                it.prefill,
                round(it.worker_seconds, 3),
                it.requests,
                it.prompt_tokens,
                it.cached_tokens,
                it.retries,
            ]
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
        found = _Charged()
        for charge in charges:
            found.add(charge, prefill_ratios.get(charge.worker), self._by_stage)
        if watched and start is not None:
            for hour, seconds in _by_hour(start, now):
                self._add(hour, found.sum_of(hour, seconds))

    def note_request(self, record: RequestRecord) -> None:
        """Book a request, if it ended while we watched; what was not served has no tokens."""
        if self._until is None or record.ended_at < self._since:
            return
        usage = record.usage
        more = HourSum(retries=len(record.retries))
        if usage is not None:
            more = HourSum(
                tokens=usage.prompt + usage.completion,
                requests=1,
                prompt_tokens=usage.prompt,
                cached_tokens=usage.cached,
                retries=len(record.retries),
            )
        self._add(hour_of(record.ended_at), more)

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

    def anomalies(self, now: UnixSeconds) -> tuple[Deviation, ...]:
        """Return what the running hour's drivers are against what is expected of them.

        Nothing until all earlier hours have been learned, some in each call, nor where `compared`
        says nothing.
        """
        hour = hour_of(now)
        due = sorted(
            at
            for at in self._hours
            if self._watch.learned_at < at and at + HOUR_SECONDS + _LATE_SECONDS <= now
        )
        for at in due[:_HOURS_AT_ONCE]:
            self._watch.learn(at, self._hours[at])
        if len(due) > _HOURS_AT_ONCE:
            return ()
        if now - self._judged[0] >= _JUDGED_SECONDS or now < self._judged[0]:
            running = self._hours.get(hour, HourSum())
            comparable = can_be_compared(running, now - hour)
            self._judged = (now, tuple(self._watch.judge(hour, running)) if comparable else ())
        return self._judged[1]

    def why(self, hour_at: int) -> tuple[Waterfall, ...]:
        """Return why an hour costs more or less than usual, by measure; empty without history.

        Usual is the median of the same hour of earlier days, weekdays and weekends apart, else the
        hour before, for the time that was watched.
        """
        actual = self._hours.get(hour_at, HourSum())
        alike = [it for it in alike_hours(self._hours, hour_at) if it.is_whole][:MOST_DAYS]
        before = self._hours.get(hour_at - HOUR_SECONDS, HourSum())
        if not alike and before.is_whole:
            alike = [before]
        expected = usual(alike, actual)
        if expected is None:
            return ()
        return tuple(waterfall(expected, actual, measure) for measure in Measure)

    def _add(self, hour: int, more: HourSum) -> None:
        if hour not in self._hours:
            oldest = hour - DAYS_KEPT * 24 * HOUR_SECONDS
            self._hours = {at: it for at, it in self._hours.items() if at >= oldest}
        self._hours[hour] = self._hours.get(hour, HourSum()).plus(more)


class _Charged:
    """A tick's charges by hour."""

    def __init__(self) -> None:
        self._spent: Counter[int] = Counter()
        self._used: Counter[int] = Counter()
        self._prefill: Counter[int] = Counter()
        self._workers: dict[int, set[str]] = {}

    def add(
        self, charge: Charge, prefill_ratio: float | None, by_profile: dict[str, list[Nanos]]
    ) -> None:
        self._spent[charge.hour_at] += charge.nanos
        self._workers.setdefault(charge.hour_at, set()).add(charge.worker)
        if charge.part is not CostPart.BUSY:
            return
        self._used[charge.hour_at] += charge.nanos
        parts = by_stage(charge.nanos, prefill_ratio)
        self._prefill[charge.hour_at] += parts[0]
        sums = by_profile.setdefault(charge.profile, [0, 0, 0])
        for at, nanos in enumerate(parts):
            sums[at] += nanos

    def sum_of(self, hour: int, seconds: float) -> HourSum:
        return HourSum(
            seconds,
            self._spent[hour],
            self._used[hour],
            prefill=self._prefill[hour],
            worker_seconds=seconds * len(self._workers.get(hour, ())),
        )


def _by_hour(start: UnixSeconds, end: UnixSeconds) -> Iterator[tuple[int, float]]:
    while start < end:
        hour = hour_of(start)
        until = min(end, hour + HOUR_SECONDS)
        yield hour, until - start
        start = until
