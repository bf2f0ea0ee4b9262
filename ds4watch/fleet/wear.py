"""Whether a worker wears: memory that creeps up or saws, a prefix cache that hits less and less.

Pure: over readings that are taken a minute apart, oldest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from ds4watch.model.ports import UnixSeconds

WINDOWS = 6
_RISE_RATIO = 0.03
"""Of the device, from the first low-water mark to the last."""
_SLACK_RATIO = 0.002
_FEWEST = 30
_RECENT = 10
_FEWEST_EARLIER = 20
_WORTH_RATIO = 0.2
_DECAY_FACTOR = 0.5

Reading = tuple[UnixSeconds, float]


@dataclass(frozen=True, slots=True)
class Trend:
    """Low-water marks of equal spans of time: by how much they rose, and how fast by the hour."""

    rise: float
    slope_per_hour: float


def low_water(readings: Sequence[Reading]) -> Trend | None:
    """Return how the low-water mark moves; None with too few readings, or where it ever fell.

    slope: least squares over the marks.
    """
    if len(readings) < _FEWEST:
        return None
    begin, end = readings[0][0], readings[-1][0]
    width = (end - begin) / WINDOWS
    if width <= 0:
        return None
    spans: list[list[float]] = [[] for _ in range(WINDOWS)]
    for at, value in readings:
        spans[min(WINDOWS - 1, max(0, int((at - begin) / width)))].append(value)
    if not all(spans):
        return None
    marks = [min(span) for span in spans]
    if any(new < old - _SLACK_RATIO for old, new in pairwise(marks)):
        return None
    middle, mean = (WINDOWS - 1) / 2, fmean(marks)
    slope = sum((index - middle) * (mark - mean) for index, mark in enumerate(marks))
    slope /= sum((index - middle) ** 2 for index in range(WINDOWS))
    return Trend(marks[-1] - marks[0], slope * 3600 / width)


def creeps(readings: Sequence[Reading]) -> str:
    """Return in words that memory creeps up; empty if it does not."""
    trend = low_water(readings)
    if trend is None or trend.rise < _RISE_RATIO or trend.slope_per_hour <= 0:
        return ""
    minutes = (readings[-1][0] - readings[0][0]) / 60
    return (
        f"the least memory used rose by {trend.rise:.1%} of the device in {minutes:.0f} min, "
        f"{trend.slope_per_hour:.1%} an hour"
    )


def decays(readings: Sequence[Reading]) -> str:
    """Return in words that the prefix hit rate decays; empty if it does not.

    The last ten readings are all under half of the median before them, which was worth having.
    """
    if len(readings) < _RECENT + _FEWEST_EARLIER:
        return ""
    before = median(value for _, value in readings[:-_RECENT])
    now = [value for _, value in readings[-_RECENT:]]
    if before < _WORTH_RATIO or max(now) >= _DECAY_FACTOR * before:
        return ""
    return f"the prefix hit rate fell from {before:.0%} to {median(now):.0%}"
