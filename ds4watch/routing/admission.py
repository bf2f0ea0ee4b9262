"""Whether a request is let in at all."""

from __future__ import annotations

import math
from enum import StrEnum

from ds4watch.model.key_limits import HIGHEST_PRIORITY
from ds4watch.model.service_policy import Limits

DEFAULT_PRIORITY = 5


class ShedReason(StrEnum):
    """Why a request is turned away with 503."""

    INFLIGHT = "inflight"
    PRIORITY = "priority"
    LONG = "long"
    NO_DEGRADE = "no_degrade"
    """It would have been changed, and its client wants no change."""
    CONNECTIONS = "connections"
    """More clients are connected than may be."""


def most_inflight(limits: Limits, *, max_inflight: int, processes: int) -> int:
    """Return how many requests may be under way in this process.

    Both limits hold over all gateway processes and are shared out evenly, at least one each.
    """
    total = max_inflight
    if limits.max_inflight is not None:
        total = min(total, limits.max_inflight)
    return share_of(total, processes)


def share_of(total: int, processes: int) -> int:
    """Return this process's even share, rounded up and at least one."""
    return max(1, -(-total // max(1, processes)))


def most_of(most: int | None, *, processes: int) -> float:
    """Return how many requests this process may have open where all together may have `most`.

    None is no limit. It is shared out evenly, rounded down and at least one each: the sum stays
    within `most` unless there are more processes than that.
    """
    return math.inf if most is None else max(1, most // max(1, processes))


def priority_of(header: str | None, default: int = DEFAULT_PRIORITY) -> int:
    """Return the `x-ds4-priority` asked for, 0 (lowest) to 9; the default for anything else."""
    if header is None:
        return default
    text = header.strip()
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        return default
    return min(int(text), HIGHEST_PRIORITY)
