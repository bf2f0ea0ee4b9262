"""A token bucket: a minute's worth at most, refilled evenly; time is passed in. Pure."""

from __future__ import annotations

_MINUTE_SECONDS = 60.0


class Bucket:
    """Holds up to `capacity` tokens and gains as many in a minute.

    Invariant: what has been taken by any instant, less what was given back, is at most the
    capacity and what has flowed in since, and the overhang of the one last taken: who asks for
    more than the bucket can ever hold gets it from a full one, and the bucket then owes it.
    """

    __slots__ = ("_at", "_per_second", "capacity", "level")

    def __init__(self, capacity: float, now: float, *, level: float | None = None) -> None:
        """Begin full, or with `level`."""
        self.capacity = capacity
        self.level = capacity if level is None else min(capacity, level)
        self._per_second = capacity / _MINUTE_SECONDS
        self._at = now

    def wait_for(self, amount: float, now: float) -> float:
        """Return after how many seconds `amount` can be taken; 0 is now."""
        self._refill(now)
        return max(0.0, (min(amount, self.capacity) - self.level) / self._per_second)

    def take(self, amount: float) -> None:
        """Take `amount`; ask `wait_for` first."""
        self.level -= amount

    def settle(self, charged: float, used: float) -> None:
        """Put right what was charged by an estimate; more used than charged is owed."""
        self.level = min(self.capacity, self.level + charged - used)

    def full_after(self, now: float) -> float:
        """Return after how many seconds it is full again."""
        self._refill(now)
        return max(0.0, (self.capacity - self.level) / self._per_second)

    def _refill(self, now: float) -> None:
        # A clock that steps back gives nothing and takes nothing.
        gained = max(0.0, now - self._at) * self._per_second
        self.level = min(self.capacity, self.level + gained)
        self._at = now
