"""Requests that stand still in an engine that answers canaries. Pure.

A restart would end the requests of the others for the sake of one, so this is told, not acted on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerLoad

_IN_FLIGHT = -1
_LOOKS_AFTER = 2
"""A page read before a canary's end shows its last tokens one look later."""
_MOVES = 4
"""At so many looks a canary of four tokens may be what moved; more is somebody else."""


@dataclass(frozen=True, slots=True)
class Stillness:
    """Since when requests are in an engine and nothing but canaries moved it.

    moves, looks: movements that a canary may explain, and at how many looks to come.
    """

    since: UnixSeconds | None = None
    moves: int = _MOVES
    looks: int = 0


def canary_sent(still: Stillness) -> Stillness:
    """Return the stillness of a worker that is asked a canary."""
    return replace(still, looks=_IN_FLIGHT)


def canary_ended(still: Stillness, *, answered: bool) -> Stillness:
    """Return the stillness after a canary; one that was given up explains no more than before."""
    return replace(still, looks=_LOOKS_AFTER, moves=_MOVES if answered else still.moves)


def looked(still: Stillness, load: WorkerLoad, now: UnixSeconds, *, moved: bool) -> Stillness:
    """Return the stillness after a look; running or waiting requests count alike."""
    excused = moved and still.looks != 0 and still.moves > 0
    after = replace(
        still,
        moves=still.moves - excused,
        looks=still.looks - 1 if still.looks > 0 else still.looks,
    )
    if not _is_busy(load) or (moved and not excused):
        return replace(after, since=None)
    if excused or still.looks == _IN_FLIGHT:
        return after  # a busy engine may be busy with the canary alone
    return replace(after, since=now if still.since is None else min(still.since, now))


def still_seconds(still: Stillness, now: UnixSeconds) -> float:
    """Return how long it has been still; 0 if it moves, or is idle."""
    return 0.0 if still.since is None else max(0.0, now - still.since)


def _is_busy(load: WorkerLoad) -> bool:
    return any(count is not None and count > 0 for count in (load.running, load.waiting))
