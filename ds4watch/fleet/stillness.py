"""Requests that stand still in an engine that answers canaries. Pure.

A restart would end the requests of the others for the sake of one, so this is told, not acted on.
"""

from __future__ import annotations

from dataclasses import dataclass

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerLoad

_DOUBTFUL_LOOKS = 2
"""A page read before a canary's end shows its last tokens one look later."""


@dataclass(frozen=True, slots=True)
class Stillness:
    """Since when requests are in an engine and nothing but canaries moved it.

    doubtful: looks to come at which movement may be a canary's.
    """

    since: UnixSeconds | None = None
    doubtful: int = 0


def canary_sent(still: Stillness) -> Stillness:
    """Return the stillness of a worker that is asked, or has just answered, a canary."""
    return Stillness(still.since, _DOUBTFUL_LOOKS)


def looked(still: Stillness, load: WorkerLoad, now: UnixSeconds, *, moved: bool) -> Stillness:
    """Return the stillness after a look; running or waiting requests count alike."""
    left = max(0, still.doubtful - 1)
    if not _is_busy(load):
        return Stillness(None, left)
    if still.doubtful:
        return Stillness(still.since, left)
    if moved:
        return Stillness(None, left)
    return Stillness(now if still.since is None else min(still.since, now), left)


def still_seconds(still: Stillness, now: UnixSeconds) -> float:
    """Return how long it has been still; 0 if it moves, or is idle."""
    return 0.0 if still.since is None else max(0.0, now - still.since)


def _is_busy(load: WorkerLoad) -> bool:
    return any(count is not None and count > 0 for count in (load.running, load.waiting))
