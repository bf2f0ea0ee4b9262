"""How the service feels, for the audit: money an hour, latency, waiting requests, tokens."""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple, Protocol

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Labels

_DURATION = "ds4_gateway_request_duration_seconds"
_WINDOW_SECONDS = 60.0
_BEAT_SECONDS = 5.0
_MOST = 20


class Newest(Protocol):
    """Where the newest values of a series are."""

    def newest(self, name: str) -> list[tuple[Labels, float]]:
        """Return the labels and the value of each series of a name."""
        ...


class _Beat(NamedTuple):
    at: UnixSeconds
    seconds: float
    ended: float


class Pulse:
    """Takes a reading each tick; latency is the mean of the requests that ended in a minute."""

    def __init__(self, live: Newest) -> None:
        self._live = live
        self._beats: deque[_Beat] = deque(maxlen=_MOST)

    def note(self, now: UnixSeconds) -> None:
        """Take a reading, if it is time to."""
        if self._beats and 0 <= now - self._beats[-1].at < _BEAT_SECONDS:
            return
        total, ended = (self._sum(f"{_DURATION}_{it}") for it in ("sum", "count"))
        self._beats.append(_Beat(now, total, ended))
        while len(self._beats) > 1 and self._beats[0].at < now - _WINDOW_SECONDS:
            self._beats.popleft()

    def reading(self, per_hour_nanos: int) -> dict[str, Any]:
        """Return how it stands, JSON-ready; what is not known is None."""
        return {
            "nanos_per_hour": per_hour_nanos,
            "latency_seconds": self._latency(),
            "waiting": self._sum("ds4_queue_depth"),
            "tokens_per_second": self._sum("ds4_tokens_per_second"),
        }

    def of_worker(self, name: str, worker: str) -> float | None:
        """Return the sum of a worker's series of a name; None if it has none."""
        found = [
            value
            for labels, value in self._live.newest(name)
            if ("worker", worker) in labels and math.isfinite(value)
        ]
        return sum(found) if found else None

    def _latency(self) -> float | None:
        if not self._beats:
            return None
        first, last = self._beats[0], self._beats[-1]
        ended = last.ended - first.ended
        return (last.seconds - first.seconds) / ended if ended > 0 else None

    def _sum(self, name: str) -> float:
        return sum(value for _, value in self._live.newest(name) if math.isfinite(value))
