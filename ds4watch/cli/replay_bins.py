"""A replay cut into equal spans of time, for drawing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ds4watch.engine.replay_story import Episode
from ds4watch.model.action import ActionPlan
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray


def shares_in_bins(
    episodes: Sequence[Episode], start: UnixSeconds, end: UnixSeconds, bins: int
) -> FloatArray:
    """Return for each bin the share of its time in which any of the alerts fired."""
    edges = np.linspace(start, max(end, start + 1.0), bins + 1)
    shares = np.zeros(bins)
    for begin, stop in _united(episodes, end):
        shares += np.clip(np.minimum(stop, edges[1:]) - np.maximum(begin, edges[:-1]), 0, None)
        at = min(int(np.searchsorted(edges, begin, side="right")) - 1, bins - 1)
        shares[at] = max(shares[at], 1e-9)  # however short, it is seen
    found: FloatArray = np.minimum(shares / (edges[1] - edges[0]), 1.0)
    return found


def levels_in_bins(
    plans: Sequence[ActionPlan], start: UnixSeconds, end: UnixSeconds, bins: int
) -> list[int]:
    """Return the highest level that was in force in each bin; dry runs put none in force."""
    edges = np.linspace(start, max(end, start + 1.0), bins + 1)
    highest = np.zeros(bins, dtype=np.intp)
    times, levels = level_steps(plans, start)
    for begin, stop, level in zip(times, [*times[1:], end], levels, strict=True):
        inside = (edges[:-1] < stop) & (edges[1:] > begin)
        highest[inside] = np.maximum(highest[inside], level)
    return [int(it) for it in highest]


def level_steps(plans: Sequence[ActionPlan], start: UnixSeconds) -> tuple[list[float], list[int]]:
    """Return when a level came into force, and which; level 0 at the start."""
    done = [plan for plan in plans if not plan.dry_run]
    times = [start, *(plan.planned_at for plan in done)]
    return times, [0, *(int(plan.parameters["level"]) for plan in done)]


def _united(episodes: Sequence[Episode], end: UnixSeconds) -> list[tuple[float, float]]:
    """Return the spans in which at least one alert fired, in order."""
    spans: list[tuple[float, float]] = []
    for it in sorted(episodes, key=lambda it: it.fired_at):
        stop = end if it.resolved_at is None else it.resolved_at
        if spans and it.fired_at <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], stop)
        else:
            spans.append((it.fired_at, stop))
    return spans
