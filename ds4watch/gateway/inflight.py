"""Requests under way."""

from __future__ import annotations

from collections.abc import Callable


class Inflight:
    """Counts of requests: what begins is ended, whichever way it goes."""

    __slots__ = ("_on_free", "by_worker", "longs_by_worker", "total")

    def __init__(self, on_free: Callable[[], None]) -> None:
        """`on_free` is called when a place has come free."""
        self._on_free = on_free
        self.total = 0
        self.by_worker: dict[str, int] = {}
        self.longs_by_worker: dict[str, int] = {}
        """Those of them whose prompt is long."""

    def begin_request(self) -> None:
        """Count one request that was let in."""
        self.total += 1

    def end_request(self) -> None:
        """Count it no more."""
        self.total -= 1
        self._on_free()

    def begin_attempt(self, worker: str, *, is_long: bool = False) -> None:
        """Count one attempt at a worker; a worker without any has no entry."""
        counts = self.by_worker
        counts[worker] = counts.get(worker, 0) + 1
        if is_long:
            self.longs_by_worker[worker] = self.longs_by_worker.get(worker, 0) + 1

    def end_attempt(self, worker: str, *, is_long: bool = False) -> None:
        """Count it no more."""
        _lower(self.by_worker, worker)
        if is_long:
            _lower(self.longs_by_worker, worker)
        self._on_free()


def _lower(counts: dict[str, int], worker: str) -> None:
    left = counts[worker] - 1
    if left:
        counts[worker] = left
    else:
        del counts[worker]
