"""When ticks are due."""

from __future__ import annotations

import math


class Pace:
    """A grid of instants `interval_seconds` apart; what is missed is skipped."""

    def __init__(self, interval_seconds: float, now: float) -> None:
        """Let the first tick be due now."""
        self._interval_seconds = interval_seconds
        self._began_at = now
        self.due_at = now

    def begin(self, now: float, *, early: bool) -> None:
        """Note that a tick begins; an early one does not put off the one that is due.

        Whoever waited says which it is: a timer may end a moment before its time.
        """
        self._began_at = now
        if not early:
            self.due_at += self._interval_seconds

    def end(self, now: float) -> bool:
        """Note that it ended; return whether it took longer than the interval."""
        behind = max(0.0, now - self.due_at)
        self.due_at += self._interval_seconds * math.ceil(behind / self._interval_seconds)
        return now - self._began_at > self._interval_seconds
