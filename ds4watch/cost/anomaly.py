"""Hours whose cost, or what it is made of, is unlike what the season and the day let expect.

Everything is in logarithms, so that twice and half are as far away. Of each driver:

- season: the median of the same hour of up to 7 earlier days, weekdays and weekends apart, each
  without the level of its day;
- level: how far the last hours were from their season, as a median: a busy day is no anomaly;
- off: what remains; its scale is the median absolute deviation of all that remained earlier.

An hour is off by a driver when that remains over a share and over a multiple of the scale. While it
is off it takes less to stay so, and several hours that are off a little add up (CUSUM). Hours that
are off teach nothing, for half a day; after that they are the new normal.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ds4watch.cost.drivers import Driver, Gauge, gauges
from ds4watch.cost.hours import HOUR_SECONDS, MOST_DAYS, HourSum, is_weekend
from ds4watch.model.money import Nanos

_MAD_TO_SIGMA: Final = 1.4826
_DAY_SECONDS: Final = 86_400
_NEAR: Final = range(-2, 3)
"""Hours of the day whose scale is an hour's."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """When an hour is off.

    least: as a logarithm, so about a share. scales: in standard deviations. stay: the part of both
    that is enough in the hour after one that was off. drift, drifted: of the CUSUM.
    """

    least: float = 0.14
    scales: float = 4.0
    traffic_scales: float = 3.5
    stay: float = 0.75
    drift: float = 2.0
    drifted: float = 4.0
    scale_floor: float = 0.01
    level_hours: int = 12
    memory_days: int = 14
    share_anywhere: float = 0.7
    least_days: int = 2
    least_hours: int = 24
    accept_hours: int = 8


@dataclass(frozen=True, slots=True)
class Deviation:
    """A driver of an hour against what was expected.

    score: over 1 in size is off; its sign says which way. impact: of the money at stake,
    by what it is more or (negative) less.
    """

    driver: Driver
    value: float
    expected: float
    score: float
    impact: Nanos

    @property
    def is_off(self) -> bool:
        """Whether it is unlike what was expected."""
        return abs(self.score) > 1


@dataclass(frozen=True, slots=True)
class _Expected:
    """Of a driver in an hour: the logarithm expected, the level in it, the scale."""

    season: float
    level: float
    scale: float


@dataclass(slots=True)
class _Past:
    """What is remembered of a driver."""

    seasonal: dict[tuple[bool, int], deque[float]] = field(default_factory=dict)
    levels: deque[float] = field(default_factory=deque)
    remains: dict[int, deque[float]] = field(default_factory=dict)
    up: float = 0.0
    down: float = 0.0
    off: int = 0
    known_for: int = -1
    level: float = 0.0
    scale: float | None = None


class AnomalyWatch:
    """Learns hour by hour, in their order, and judges the next one, or a part of it."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self._bounds = bounds or Bounds()
        self._past = {driver: _Past() for driver in Driver}
        self._off_for = 0
        self.learned_at = -1
        """Start of the last hour that was learned."""

    def judge(self, hour_at: int, hour: HourSum) -> Iterator[Deviation]:
        """Yield each driver of a whole or running hour that can be compared."""
        # Less of an hour is more of luck.
        part = max(1e-3, min(1.0, hour.watched_seconds / HOUR_SECONDS))
        for driver, gauge in gauges(hour).items():
            expected = self._expect(driver, hour_at, gauge)
            if expected is not None:
                yield self._deviation(driver, gauge, expected, part)

    def learn(self, hour_at: int, hour: HourSum) -> tuple[Deviation, ...]:
        """Judge an hour that is over, and learn from it; one not watched whole only passes."""
        self.learned_at = hour_at
        if not hour.is_whole:
            return ()
        judged = tuple(self.judge(hour_at, hour))
        off = {it.driver: it.score for it in judged if it.is_off}
        self._off_for = self._off_for + 1 if off else 0
        teaches = not off or self._off_for > self._bounds.accept_hours
        for driver, gauge in gauges(hour).items():
            past = self._past[driver]
            past.off = int(math.copysign(1, off[driver])) if driver in off else 0
            expected = self._expect(driver, hour_at, gauge)
            if expected is not None:
                self._add_up(past, gauge, expected)
            if teaches:
                self._take_in(past, hour_at, gauge)
        return judged

    def _expect(self, driver: Driver, hour_at: int, gauge: Gauge) -> _Expected | None:
        """Return what is expected; only seasons by load differ within an hour."""
        past = self._past[driver]
        season = past.seasonal.get(_place(hour_at, gauge), ())
        if len(season) < self._bounds.least_days:
            return None
        if past.known_for != hour_at:
            past.known_for = hour_at
            past.level = _median(past.levels)
            past.scale = self._scale(past, hour_at)
        if past.scale is None:
            return None
        return _Expected(statistics.median(season), past.level, past.scale)

    def _scale(self, past: _Past, hour_at: int) -> float | None:
        everything = [it for values in past.remains.values() for it in values]
        if len(everything) < self._bounds.least_hours:
            return None
        hour = hour_at % _DAY_SECONDS // HOUR_SECONDS
        near = [it for off in _NEAR for it in past.remains.get((hour + off) % 24, ())]
        here = _spread(near) if len(near) >= self._bounds.least_hours else 0.0
        anywhere = self._bounds.share_anywhere * _spread(everything)
        return max(self._bounds.scale_floor, here, anywhere)

    def _deviation(
        self, driver: Driver, gauge: Gauge, expected: _Expected, part: float
    ) -> Deviation:
        bounds, past = self._bounds, self._past[driver]
        remains = math.log(gauge.value) - expected.season - expected.level
        scale = math.hypot(expected.scale / math.sqrt(part), gauge.grain)
        scales = bounds.traffic_scales if driver is Driver.TRAFFIC else bounds.scales
        bound = max(bounds.least, scales * scale)
        sign = 1 if remains > 0 else -1
        if past.off == sign or self._has_drifted(past, remains / scale):
            bound *= bounds.stay
        off = math.copysign(1 - math.exp(-abs(remains)), remains)
        return Deviation(
            driver,
            gauge.value,
            gauge.value * math.exp(-remains),
            remains / bound,
            round(gauge.at_stake * off),
        )

    def _has_drifted(self, past: _Past, deviations: float) -> bool:
        before = past.up if deviations > 0 else past.down
        return before > 0 and before + abs(deviations) - self._bounds.drift > self._bounds.drifted

    def _add_up(self, past: _Past, gauge: Gauge, expected: _Expected) -> None:
        scale = math.hypot(expected.scale, gauge.grain)
        deviations = (math.log(gauge.value) - expected.season - expected.level) / scale
        past.up = max(0.0, past.up + deviations - self._bounds.drift)
        past.down = max(0.0, past.down - deviations - self._bounds.drift)

    def _take_in(self, past: _Past, hour_at: int, gauge: Gauge) -> None:
        bounds, logarithm = self._bounds, math.log(gauge.value)
        level = _median(past.levels)
        season = past.seasonal.setdefault(_place(hour_at, gauge), deque(maxlen=MOST_DAYS))
        if season:
            usual = statistics.median(season)
            hour = hour_at % _DAY_SECONDS // HOUR_SECONDS
            remains = past.remains.setdefault(hour, deque(maxlen=bounds.memory_days))
            remains.append(logarithm - usual - level)
            past.levels.append(logarithm - usual)
            if len(past.levels) > bounds.level_hours:
                past.levels.popleft()
        season.append(logarithm - level)


def _median(values: Iterable[float]) -> float:
    found = list(values)
    return statistics.median(found) if found else 0.0


def _spread(values: Iterable[float]) -> float:
    """Return a standard deviation that a few odd values do not move, nor tails hide."""
    sizes = sorted(abs(it) for it in values)
    middle, high = sizes[len(sizes) // 2], sizes[int(0.95 * (len(sizes) - 1))]
    return max(_MAD_TO_SIGMA * middle, high / 1.96)


def _place(hour_at: int, gauge: Gauge) -> tuple[bool, int]:
    """Return what a value is compared by: its load, or hour of a weekday or of a weekend."""
    if gauge.alike is not None:
        return False, gauge.alike
    return is_weekend(hour_at), hour_at % _DAY_SECONDS // HOUR_SECONDS
