"""The load ahead: a seasonal forecast with a stated interval. Pure.

What is expected of an instant is the median of the same time of day on earlier days of the same
kind (weekday, weekend), times how the last hour went beside what was expected of them. The
interval is the spread of those days, their neighbouring bins included: a rush that begins five
minutes sooner or later every day is inside it. A burst of one day moves neither the median nor,
much, the spread; bins that nobody watched are left out and are not zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ds4watch.model.ports import UnixSeconds

BIN_SECONDS = 300
BINS_PER_DAY = 86_400 // BIN_SECONDS
DAYS_KEPT = 28
_FEWEST_DAYS = 2
_RECENT_BINS = 12
_FEWEST_RECENT = 6
_LEVEL_TRUST = 0.9
"""So much of how the last hour differed is taken to go on, and less the farther ahead."""
_LEVEL_BINS = 8.0
"""Of the last hour the newest bins count most: by a factor of e for so many."""
_LEVEL_FADES_BINS = 72.0
_LEVEL_BOUNDS = (0.5, 2.0)
_BURST_RATIO = 2.0
_BURST_COUNT = 10.0
_NEIGHBOURS = np.array([-1, 0, 1])
_LAGS = BINS_PER_DAY * np.arange(1, DAYS_KEPT + 1)
_MONDAY = 3
"""The epoch began on a Thursday."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class History:
    """Counts by bin: `values[i]` of the bin that begins at `(first + i) * BIN_SECONDS`.

    NaN: nobody watched.
    """

    first: int
    values: Floats

    @property
    def end(self) -> int:
        """The first bin after it."""
        return self.first + len(self.values)


@dataclass(frozen=True, slots=True)
class Point:
    """What is expected of one bin, in arrivals a second; low and high: ends of the interval."""

    at: UnixSeconds
    expected: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """Points in order of time, each `BIN_SECONDS` long, with `coverage` inside the interval."""

    points: tuple[Point, ...]
    coverage: float

    def peak(self, start: UnixSeconds, end: UnixSeconds) -> Point | None:
        """Return the point with the highest interval that meets [start, end]; None without one."""
        met = [it for it in self.points if it.at <= end and it.at + BIN_SECONDS > start]
        return max(met, key=lambda it: (it.high, it.expected), default=None)


def forecast(history: History, bins: int, *, coverage: float = 0.8) -> Forecast | None:
    """Return what is expected of the next bins; None without two days of history for them.

    It uses nothing but `history`: at any instant of the past it says what it would have said then.
    """
    ahead = np.arange(history.end, history.end + bins)
    recent = np.arange(history.end - _RECENT_BINS, history.end)
    days = _days(history, np.concatenate((recent, ahead)))
    base = _median(days.reshape(len(days), -1))
    if math.isnan(base[_RECENT_BINS]):
        return None
    was = np.full(_RECENT_BINS, np.nan)
    known = history.values[-_RECENT_BINS:]
    was[_RECENT_BINS - len(known) :] = known
    lately = np.column_stack((was, days[:_RECENT_BINS, :, 1]))
    scales = _levels(lately, base[:_RECENT_BINS])
    fades = _LEVEL_TRUST * np.exp(-np.arange(bins) / _LEVEL_FADES_BINS)
    factors = 1 + (scales[None, :] - 1) * fades[:, None]
    # Each day in what it differed from what its own last hour foretold.
    alike = days[_RECENT_BINS:] / factors[:, 1:, None]
    factor = factors[:, 0]
    expected = _median(alike.reshape(bins, -1)) * factor
    below, above = _spread(alike, coverage)
    low = np.minimum(below * factor, expected)
    high = np.maximum(above * factor, expected)
    points = _points(ahead, expected, low, high)
    return Forecast(tuple(points), coverage)


def _points(ahead: Ints, expected: Floats, low: Floats, high: Floats) -> Iterator[Point]:
    """Yield points up to the first bin of which nothing is known."""
    rates = np.stack((expected, low, high)) / BIN_SECONDS
    for each, bin_number in enumerate(ahead.tolist()):
        if np.isnan(rates[:, each]).any():
            return
        one, least, most = rates[:, each].tolist()
        yield Point(float(bin_number * BIN_SECONDS), one, least, most)


def _days(history: History, bins: Ints) -> Floats:
    """Return by bin, earlier day and neighbour what was counted; NaN for days of another kind.

    Where fewer than two days of the kind are known, all days count.
    """
    at = bins[:, None, None] - _LAGS[None, :, None] + _NEIGHBOURS[None, None, :]
    place = at - history.first
    is_known = (place >= 0) & (place < len(history.values))
    found = np.full(at.shape, np.nan)
    found[is_known] = history.values[place[is_known]]
    is_kind = _is_weekend(at[:, :, 1]) == _is_weekend(bins)[:, None]
    of_kind = np.where(is_kind[:, :, None], found, np.nan)
    enough = (~np.isnan(of_kind[:, :, 1])).sum(axis=1) >= _FEWEST_DAYS
    return _without_bursts(np.where(enough[:, None, None], of_kind, found))


def _is_weekend(bins: Ints) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (bins // BINS_PER_DAY + _MONDAY) % 7 >= 5
    return found


def _without_bursts(days: Floats) -> Floats:
    """Return the counts with those cut off that are far over what most days had around then."""
    usual = np.stack([_median(days[:, :, each]) for each in range(days.shape[2])])
    most = _BURST_RATIO * np.fmax.reduce(usual, axis=0) + _BURST_COUNT
    cut: Floats = np.minimum(days, most[:, None, None])
    return cut


def _median(rows: Floats) -> Floats:
    """Return the median of each row over what is known; NaN where fewer than two values are."""
    return _quantile(rows, 0.5)


def _quantile(rows: Floats, share: float) -> Floats:
    """Return a quantile of each row, between its two nearest values; unknown values aside."""
    ordered = np.sort(rows, axis=1)  # what is not known comes last
    counts = (~np.isnan(rows)).sum(axis=1)
    place = share * np.maximum(counts - 1, 0)
    under = place.astype(np.int64)
    over = np.minimum(under + 1, np.maximum(counts - 1, 0))
    each = np.arange(len(rows))
    part = place - under
    found: Floats = ordered[each, under] * (1 - part) + ordered[each, over] * part
    enough: Floats = np.where(counts >= _FEWEST_DAYS, found, np.nan)
    return enough


def _spread(days: Floats, coverage: float) -> tuple[Floats, Floats]:
    rows = days.reshape(len(days), -1)
    return _quantile(rows, (1 - coverage) / 2), _quantile(rows, (1 + coverage) / 2)


def _levels(lately: Floats, base: Floats) -> Floats:
    """Return for each column how it went beside what was expected, within bounds; 1: not known."""
    weights = np.exp(-np.arange(_RECENT_BINS, 0, -1) / _LEVEL_BINS)[:, None]
    usual = base[:, None]
    is_known = ~np.isnan(lately) & ~np.isnan(usual)
    most = _BURST_RATIO * usual + _BURST_COUNT
    was = np.where(is_known, np.minimum(lately, most), 0.0) * weights
    due = np.where(is_known, usual, 0.0) * weights
    with np.errstate(divide="ignore", invalid="ignore"):
        found = was.sum(axis=0) / due.sum(axis=0)
    enough = (is_known.sum(axis=0) >= _FEWEST_RECENT) & (due.sum(axis=0) > 0)
    levels: Floats = np.where(enough, np.clip(found, *_LEVEL_BOUNDS), 1.0)
    return levels
