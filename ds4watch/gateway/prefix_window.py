"""Requests that begin alike are held back until the first of them is past its prefill."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from ds4watch.model.ports import Clock
from ds4watch.shaping.batching import PrefixGroups, Released, Windows, class_of, group_of


@dataclass(slots=True)
class WindowCounts:
    """What the windows did. waited_seconds: the sum over all that waited."""

    followed: int = 0
    timed_out: int = 0
    waited_seconds: float = 0.0


class Turn:
    """One request's place in its group. worker: where its prefix is, if anybody knows.

    group: the same number for all requests of a group, None for one that has none.
    """

    __slots__ = ("_sent", "_token", "group", "worker")

    def __init__(
        self,
        group: int | None = None,
        worker: str | None = None,
        sent: Callable[[str], None] | None = None,
        token: Callable[[], None] | None = None,
    ) -> None:
        self.group = group
        self.worker = worker
        self._sent = sent
        self._token = token

    def sent(self, worker: str) -> None:
        """Note at which worker it is tried."""
        if self._sent is not None:
            self._sent(worker)

    def first_token(self) -> None:
        """Note that its answer has begun: those that wait for its prefix go."""
        if self._token is not None:
            self._token()
            self._token = None


NO_TURN = Turn()
"""That of a request which nobody waits for."""


class PrefixWindow:
    """Holds requests back as the windows say.

    An answer that is not streamed shows no first token: its followers go at the window's end.
    """

    def __init__(self, windows: Windows, clock: Clock, *, prefix_chars: int) -> None:
        self._windows = windows
        self.counts = WindowCounts()
        self._clock = clock
        self._prefix_chars = prefix_chars
        self._groups = PrefixGroups()
        self._serial = itertools.count()
        self._held: dict[str, asyncio.Future[Released]] = {}

    def _group(self, body: Mapping[str, Any]) -> tuple[str, float] | None:
        """Return a request's group and window; None if it is not held back whatever comes."""
        kind = class_of(body)
        seconds = self._windows.seconds_of(kind)
        name = group_of(body, kind, prefix_chars=self._prefix_chars) if seconds else None
        return None if name is None else (name, seconds)

    def stats(self) -> dict[str, Any]:
        """Return what the daemon is told."""
        return {"prefix_windows": asdict(self.counts)}

    @asynccontextmanager
    async def turn(self, body: Mapping[str, Any]) -> AsyncIterator[Turn]:
        """Wait for the request's turn, and hold it while the block runs."""
        found = self._group(body)
        if found is None:
            yield NO_TURN
            return
        request = str(next(self._serial))  # clients may give two requests one id
        with self._membership(request):
            worker = await self._wait(request, *found)
            yield Turn(
                int(found[0][:15], 16),
                worker,
                lambda worker: self._groups.sent(request, worker),
                lambda: self._release(self._groups.first_token(request)),
            )

    @contextmanager
    def _membership(self, request: str) -> Iterator[None]:
        try:
            yield
        finally:
            self._held.pop(request, None)
            self._release(self._groups.gone(request))

    async def _wait(self, request: str, group: str, seconds: float) -> str | None:
        arrived_at = self._clock.monotonic()
        if self._groups.arrive(request, group, deadline=arrived_at + seconds) is None:
            return self._groups.worker_of(group)
        future = self._held[request] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                released = await future
        except TimeoutError:
            self.counts.timed_out += 1
            # The timer has gone off: the deadline is now, whatever another clock says.
            released = self._timed_out(request, arrived_at + seconds)
        self.counts.followed += not released.leads
        self.counts.waited_seconds += self._clock.monotonic() - arrived_at
        return released.worker or self._groups.worker_of(group)

    def _timed_out(self, request: str, deadline: float) -> Released:
        due = self._groups.due(request, deadline)
        self._release(due)
        mine = [released for released in due if released.request == request]
        return mine[0] if mine else Released(request, None, leads=False)

    def _release(self, released: Sequence[Released]) -> None:
        for one in released:
            future = self._held.pop(one.request, None)
            if future is not None and not future.done():
                future.set_result(one)
