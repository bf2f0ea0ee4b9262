"""Workers that could not be reached, or said they are full, are left out for a growing time.

Once such a pause is over one request is let through, and the next after another pause: what comes
of it decides whether there is more. So a fault that lasts costs one attempt a pause, however many
requests there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

_MAX_DOUBLINGS = 10


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long one is left out: the first time, doubling with each further, and at most.

    is_quick: a refusal comes at once, so that a probe of which nothing was heard within a pause
    was taken.
    """

    first_seconds: float
    longest_seconds: float
    is_quick: bool = False

    def seconds(self, failures: int) -> float:
        """Return the pause after so many failures in a row."""
        doubled = self.first_seconds * 2.0 ** min(failures - 1, _MAX_DOUBLINGS)
        return min(self.longest_seconds, doubled)


UNREACHABLE = Backoff(1.0, 30.0)
BUSY = Backoff(0.5, 4.0, is_quick=True)
"""One that refuses at once looks idle, and would draw all requests and spend all retries."""


@dataclass(frozen=True, slots=True)
class Ejection:
    """A worker is left out until `until_at` (monotonic) after `failures` misses in a row.

    is_probing: meanwhile a request that was let through is at it.
    """

    until_at: float
    failures: int
    is_probing: bool = False


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
    if last is not None and last.until_at > now and not last.is_probing:
        return ejections
    failures = 1 + (last.failures if last else 0)
    return _with(ejections, worker, Ejection(now + backoff.seconds(failures), failures))


def local_probe(
    ejections: Ejections, worker: str, now: float, backoff: Backoff = UNREACHABLE
) -> Ejections:
    """Return the ejections as a request goes to `worker`.

    If it is on probation, no second one does before another pause.
    """
    last = ejections.by_worker.get(worker)
    if last is None or last.until_at > now:
        return ejections
    failures = last.failures
    if backoff.is_quick and last.is_probing:  # the probe before was not refused
        failures -= 1
    if failures == 0:
        return local_restore(ejections, worker)
    probing = Ejection(now + backoff.seconds(failures), failures, is_probing=True)
    return _with(ejections, worker, probing)


def local_restore(ejections: Ejections, worker: str) -> Ejections:
    """Return the ejections without `worker`: it has answered."""
    if worker not in ejections.by_worker:
        return ejections
    return Ejections({w: e for w, e in ejections.by_worker.items() if w != worker})


def local_ease(ejections: Ejections, worker: str, now: float) -> Ejections:
    """Return the ejections with another request let through to `worker`, as one ended there.

    One that ended makes room for one; only those that were let through say that there is more.
    """
    last = ejections.by_worker.get(worker)
    if last is None:
        return ejections
    failures = last.failures - last.is_probing
    if failures == 0:
        return local_restore(ejections, worker)
    return _with(ejections, worker, Ejection(min(last.until_at, now), failures))


def forget_absent(ejections: Ejections, present: frozenset[str]) -> Ejections:
    """Return the ejections of `present` workers alone, so that the table stays bounded."""
    if present.issuperset(ejections.by_worker):
        return ejections
    return Ejections({w: e for w, e in ejections.by_worker.items() if w in present})


def _with(ejections: Ejections, worker: str, ejection: Ejection) -> Ejections:
    return Ejections({**ejections.by_worker, worker: ejection})
