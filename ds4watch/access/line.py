"""A bounded line of those who wait: the most urgent first, then who came first. Pure."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from ds4watch.model.key_limits import HIGHEST_PRIORITY

T = TypeVar("T")


class Line(Generic[T]):
    """Waiting entries by priority (0 lowest, 9).

    Order: `next` gives the highest priority that waits, and of it the one that came first. Who
    comes to a full line takes the place of the last to come of the lowest priority under its
    own, or is turned away. Nothing here keeps a low priority from waiting for ever: whoever
    uses the line bounds the wait.
    """

    __slots__ = ("_by_priority", "_most", "size")

    def __init__(self, most: int) -> None:
        """Let at most `most` entries wait."""
        self._most = most
        self._by_priority: tuple[deque[T], ...] = tuple(
            deque() for _ in range(HIGHEST_PRIORITY + 1)
        )
        self.size = 0

    def join(self, entry: T, priority: int) -> T | None:
        """Put an entry in; return who has to leave for it, which may be itself."""
        displaced: T | None = None
        if self.size >= self._most:
            lower = next((it for it in self._by_priority[:priority] if it), None)
            if lower is None:
                return entry
            displaced = lower.pop()
            self.size -= 1
        self._by_priority[priority].append(entry)
        self.size += 1
        return displaced

    def rejoin(self, entry: T, priority: int) -> None:
        """Put an entry that `next` gave back in its place: before all of its priority."""
        self._by_priority[priority].appendleft(entry)
        self.size += 1

    def next(self) -> T | None:
        """Take out the entry whose turn it is."""
        for entries in reversed(self._by_priority):
            if entries:
                self.size -= 1
                return entries.popleft()
        return None

    def leave(self, entry: T, priority: int) -> bool:
        """Take out an entry that waits no longer; return whether it was there."""
        entries = self._by_priority[priority]
        if entry not in entries:
            return False
        entries.remove(entry)
        self.size -= 1
        return True
