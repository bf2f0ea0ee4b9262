"""The running hour's money beside what the same hour of earlier days came to. Hours are UTC's."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds

HOUR_SECONDS: Final = 3600
DAYS_KEPT: Final = 22
"""Three weekends, so that these have as many days to be compared with."""
MOST_DAYS: Final = 7
LEAST_WATCHED_SHARE: Final = 0.95
"""An hour of which less was watched says nothing: what was not seen may have been anything."""
LEAST_WATCHED_SECONDS: Final = 600.0
"""Before that, one request more or less makes an hour unusual."""
LEAST_TOKENS: Final = 1000
_DAY_SECONDS: Final = 86_400
_SATURDAY: Final = 5


class Measure(StrEnum):
    """What is compared. A fixed fleet's `spent` is constant; what it does is in the others."""

    SPENT = "spent"
    USED = "used"
    USED_PER_1K_TOKENS = "used_per_1k_tokens"


class Basis(StrEnum):
    """What with. `median`: of up to seven earlier days of its kind, else the hour before."""

    YESTERDAY = "yesterday"
    MEDIAN = "median"


@dataclass(frozen=True, slots=True)
class HourSum:
    """What was seen of an hour: money of the time that was watched, that time, and requests.

    prefill: the part of `used` that is prefill. worker_seconds: time of workers that was paid.
    tokens: of prompts, cached or not, and of answers.
    """

    watched_seconds: float = 0.0
    spent: Nanos = 0
    used: Nanos = 0
    tokens: int = 0
    prefill: Nanos = 0
    worker_seconds: float = 0.0
    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    retries: int = 0

    def plus(self, more: HourSum) -> HourSum:
        """Return both together."""
        return HourSum(
            self.watched_seconds + more.watched_seconds,
            self.spent + more.spent,
            self.used + more.used,
            self.tokens + more.tokens,
            self.prefill + more.prefill,
            self.worker_seconds + more.worker_seconds,
            self.requests + more.requests,
            self.prompt_tokens + more.prompt_tokens,
            self.cached_tokens + more.cached_tokens,
            self.retries + more.retries,
        )

    @property
    def is_whole(self) -> bool:
        """Whether enough of the hour was watched to compare others with it."""
        return self.watched_seconds >= LEAST_WATCHED_SHARE * HOUR_SECONDS

    def value(self, measure: Measure) -> float | None:
        """Return nanos, or nanos per 1,000 tokens; None where nothing was seen."""
        if measure is Measure.USED_PER_1K_TOKENS:
            return self.used * 1000 / self.tokens if self.tokens >= LEAST_TOKENS else None
        if self.watched_seconds <= 0:
            return None
        return float({Measure.SPENT: self.spent, Measure.USED: self.used}[measure])

    def rate(self, measure: Measure) -> float | None:
        """Return the value, of money a watched second."""
        value = self.value(measure)
        if value is None or measure is Measure.USED_PER_1K_TOKENS:
            return value
        return value / self.watched_seconds

    def at_rate(self, measure: Measure, rate: float) -> float:
        """Return what this hour would come to, so far, at another hour's rate."""
        return rate if measure is Measure.USED_PER_1K_TOKENS else rate * self.watched_seconds


Rates = Mapping[tuple[Measure, Basis], float]


@dataclass(frozen=True, slots=True)
class Compared:
    """The running hour against an expectation, in nanos, or nanos per 1,000 tokens.

    difference: in nanos for every measure: what the hour costs more (or, negative, less).
    """

    measure: Measure
    basis: Basis
    so_far: float
    expected: float
    difference: float


def hour_of(at: UnixSeconds) -> int:
    """Return the start of an instant's hour."""
    return int(at // HOUR_SECONDS * HOUR_SECONDS)


def expected_rates(hours: Mapping[int, HourSum], hour_at: int) -> Rates:
    """Return what earlier hours let expect of the hour at `hour_at`.

    Absent where there is no history, and where it is 0: nothing can be off by a share of that.
    """
    yesterday = [hours.get(hour_at - _DAY_SECONDS, HourSum())]
    bases = {Basis.YESTERDAY: yesterday, Basis.MEDIAN: list(alike_hours(hours, hour_at))}
    before = hours.get(hour_at - HOUR_SECONDS, HourSum())
    found = {}
    for basis, sums in bases.items():
        for measure in Measure:
            rates = _rates(sums, measure)
            if not rates and basis is Basis.MEDIAN:
                rates = _rates([before], measure)
            rate = statistics.median(rates) if rates else 0.0
            if rate > 0:
                found[measure, basis] = rate
    return found


def can_be_compared(running: HourSum, elapsed_seconds: float) -> bool:
    """Return whether ten minutes of the running hour, and most of it, were watched."""
    least = max(LEAST_WATCHED_SECONDS, LEAST_WATCHED_SHARE * elapsed_seconds)
    return running.watched_seconds >= least


def compared(running: HourSum, elapsed_seconds: float, rates: Rates) -> Iterator[Compared]:
    """Yield the running hour against each expectation, pro rata, where it can be compared."""
    if not can_be_compared(running, elapsed_seconds):
        return
    for (measure, basis), rate in rates.items():
        come_to = running.value(measure)
        if come_to is None:
            continue
        expected = running.at_rate(measure, rate)
        per_token = measure is Measure.USED_PER_1K_TOKENS
        weight = running.tokens / 1000 if per_token else 1.0
        yield Compared(measure, basis, come_to, expected, (come_to - expected) * weight)


def _rates(sums: list[HourSum], measure: Measure) -> list[float]:
    rates = (it.rate(measure) for it in sums if it.is_whole)
    return [rate for rate in rates if rate is not None][:MOST_DAYS]


def alike_hours(hours: Mapping[int, HourSum], hour_at: int) -> Iterator[HourSum]:
    """Yield the same hour of earlier days, newest first; weekdays and weekends apart."""
    for days in range(1, DAYS_KEPT + 1):
        earlier = hour_at - days * _DAY_SECONDS
        if earlier in hours and is_weekend(earlier) == is_weekend(hour_at):
            yield hours[earlier]


def is_weekend(at: int) -> bool:
    """Return whether an instant is on a Saturday or Sunday."""
    return datetime.fromtimestamp(at, UTC).weekday() >= _SATURDAY
