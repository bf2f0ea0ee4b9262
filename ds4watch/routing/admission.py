"""Whether a request is let in at all."""

from __future__ import annotations

import math
from enum import StrEnum

from ds4watch.model.service_policy import Limits

DEFAULT_PRIORITY = 5
_HIGHEST_PRIORITY = 9


class ShedReason(StrEnum):
    """Why a request is turned away with 503."""

    INFLIGHT = "inflight"
    PRIORITY = "priority"


def admit(
    limits: Limits, *, inflight: int, max_inflight: int, processes: int, priority: int
) -> ShedReason | None:
    """Return why a request is shed, None if it may come in.

    `inflight` is this process's own count. Both limits hold over all gateway processes and
    are shared out evenly, at least one each.
    """
    if limits.shed_below_priority is not None and priority < limits.shed_below_priority:
        return ShedReason.PRIORITY
    total = max_inflight
    if limits.max_inflight is not None:
        total = min(total, limits.max_inflight)
    share = max(1, -(-total // max(1, processes)))
    return ShedReason.INFLIGHT if inflight >= share else None


def most_of(most: int | None, *, processes: int) -> float:
    """Return how many requests this process may have open where all together may have `most`.

    None is no limit. It is shared out evenly, rounded down and at least one each: the sum stays
    within `most` unless there are more processes than that.
    """
    return math.inf if most is None else max(1, most // max(1, processes))


def priority_of(header: str | None) -> int:
    """Return the `x-ds4-priority` asked for, 0 (lowest) to 9; the default for anything else."""
    if header is None:
        return DEFAULT_PRIORITY
    text = header.strip()
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        return DEFAULT_PRIORITY
    return min(int(text), _HIGHEST_PRIORITY)
