"""A worker that has just become ready gets a small share of the requests, and then more."""

from __future__ import annotations

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerView

_STEPS = 20
"""The share grows in steps, so that orders of sessions hold for more than a moment."""


def ramp(worker: WorkerView, now: UnixSeconds, *, slow_start_seconds: float, first: float) -> float:
    """Return the share of a full one's requests that a worker is to get, from `first` to 1.

    A clock that was set back does not make a worker new: an age below 0 is none.
    """
    age = now - worker.since
    if not 0 <= age < slow_start_seconds:
        return 1.0
    done = int(age / slow_start_seconds * _STEPS) / _STEPS
    return first + (1.0 - first) * done
