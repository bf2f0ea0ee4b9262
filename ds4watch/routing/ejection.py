"""Workers that could not be reached, or said they are full, are left out for a growing time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

_MAX_DOUBLINGS = 10


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long one is left out: the first time, doubling with each further, and at most."""

    first_seconds: float
    longest_seconds: float


UNREACHABLE = Backoff(1.0, 30.0)
BUSY = Backoff(0.5, 4.0)
"""One that refuses at once looks idle, and would draw all requests and spend all retries."""


@dataclass(frozen=True, slots=True)
class Ejection:
    """A worker is left out until `until_at` (monotonic) after `failures` misses in a row."""

    until_at: float
    failures: int


@dataclass(frozen=True, slots=True)
class Ejections:
    """All that this gateway left out, and those on probation: out no more, not yet well."""

    by_worker: Mapping[str, Ejection] = field(default_factory=lambda: MappingProxyType({}))

    def at(self, now: float) -> dict[str, float]:
        """Return worker → instant until which it is left out."""
        return {
            worker: ejection.until_at
            for worker, ejection in self.by_worker.items()
            if ejection.until_at > now
        }


def local_eject(
    ejections: Ejections, worker: str, now: float, backoff: Backoff = UNREACHABLE
) -> Ejections:
    """Return the ejections with `worker` left out, by default for 1 s, 2 s, 4 s … 30 s.

    Requests that were under way when it was ejected fail together; they count as one miss.
    """
    last = ejections.by_worker.get(worker)
    if last is not None and last.until_at > now:
        return ejections
    failures = 1 + (last.failures if last else 0)
    doubled = backoff.first_seconds * 2 ** min(failures - 1, _MAX_DOUBLINGS)
    seconds = min(backoff.longest_seconds, doubled)
    return Ejections({**ejections.by_worker, worker: Ejection(now + seconds, failures)})


def local_restore(ejections: Ejections, worker: str) -> Ejections:
    """Return the ejections without `worker`: it has answered."""
    if worker not in ejections.by_worker:
        return ejections
    return Ejections({w: e for w, e in ejections.by_worker.items() if w != worker})


def forget_absent(ejections: Ejections, present: frozenset[str]) -> Ejections:
    """Return the ejections of `present` workers alone, so that the table stays bounded."""
    if present.issuperset(ejections.by_worker):
        return ejections
    return Ejections({w: e for w, e in ejections.by_worker.items() if w in present})
