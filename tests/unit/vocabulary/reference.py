"""The plain way to the ratios of a window, point by point: what the fast way is held against."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

from ds4watch.vocabulary.windows import WINDOW_SECONDS

Point: TypeAlias = tuple[float, tuple[float, ...]]
"""An instant, and the counters in the order of windows.COUNTERS; NaN is "not reported"."""

PROMPT, PREFILL, CACHED, GENERATED, PREFILL_SECONDS, DECODE_SECONDS = range(6)


def derived(points: Sequence[Point]) -> list[float]:
    """Return the ratios of the window that ends at the last of the points, NaN where absent."""
    kept = accepted(points)
    if not kept or kept[-1] is not points[-1]:
        return [math.nan] * 5
    recent = [point for point in kept if point[0] >= kept[-1][0] - WINDOW_SECONDS]
    span = recent[-1][0] - recent[0][0]
    if span <= 0:
        return [math.nan] * 5
    gained = [increase(recent, counter) for counter in range(6)]
    prompt, generated = gained[PROMPT], gained[GENERATED]
    traffic = sum(it for it in (prompt, generated) if not math.isnan(it)) > 0
    return [
        missed(gained[CACHED], prompt),
        share(gained[PREFILL], generated),
        share(gained[PREFILL_SECONDS], gained[DECODE_SECONDS]),
        prompt / span if traffic else math.nan,
        generated / span if traffic else math.nan,
    ]


def accepted(points: Sequence[Point]) -> list[Point]:
    """Leave out a scrape that is not newer; at a second one the clock was set back: begin anew."""
    kept: list[Point] = []
    refused_at = math.inf
    for point in points:
        if kept and point[0] <= kept[-1][0]:
            if point[0] <= refused_at:
                refused_at = point[0]
                continue
            kept = []
        kept.append(point)
        refused_at = math.inf
    return kept


def increase(points: Sequence[Point], counter: int) -> float:
    """Return what a counter gained; NaN if it was not reported throughout."""
    total = 0.0
    for (_, before), (_, after) in itertools.pairwise(points):
        restarted = any(after[it] < before[it] * 0.5 for it in (PROMPT, GENERATED))
        step = after[counter] - before[counter]
        if restarted:
            total += after[counter]
        elif math.isnan(step):
            return math.nan
        else:
            total += max(step, 0.0)
    return total


def missed(cached: float, prompt: float) -> float:
    """Return the share of prompt tokens not found; NaN if unknown."""
    if math.isnan(cached) or not prompt > 0:
        return math.nan
    return min(1.0, max(0.0, 1.0 - cached / prompt))


def share(part: float, rest: float) -> float:
    """Return part of the whole; NaN without any."""
    return part / (part + rest) if part + rest > 0 else math.nan
