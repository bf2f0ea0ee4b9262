"""How often it is said again what is waited for."""

from __future__ import annotations

from collections.abc import Sequence

_FIRST_SECONDS = 5.0
_LONGEST_SECONDS = 600.0


class Patience:
    """Says the same ever more seldom: after 5 s, 10 s, 20 s …, at last each 10 minutes."""

    def __init__(self, now: float) -> None:
        """Begin to wait."""
        self._told_at = now
        self._seconds = _FIRST_SECONDS
        self._named: frozenset[str] = frozenset()

    def ends(self, waiting: Sequence[str], now: float) -> bool:
        """Return whether to say these lines now; other ones than last time are said sooner."""
        named = frozenset(line.partition(" (")[0] for line in waiting)
        if named != self._named:
            self._named, self._seconds = named, _FIRST_SECONDS
        if not waiting or now - self._told_at < self._seconds:
            return False
        self._told_at = now
        self._seconds = min(_LONGEST_SECONDS, self._seconds * 2)
        return True
