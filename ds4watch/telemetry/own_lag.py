"""How late this process itself is: what it did not get to look at is no fault of others."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Self

LATE_SECONDS = 0.1
"""A timer that is later than that was kept from running."""
_LOOK_SECONDS = 0.25
_KEPT = 1000


class OwnLag:
    """Notes by how much its own timer is late: a loop that was blocked, or a starved machine."""

    def __init__(self) -> None:
        self._late: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        """Measure from now on, in the loop that runs."""
        loop = asyncio.get_running_loop()
        self._look(loop, loop.time())
        return self

    def __exit__(self, *_: object) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()

    def note(self, now: float, late_seconds: float) -> None:
        """Take in that something was due so long ago."""
        if late_seconds > LATE_SECONDS:
            self._late.append((now, late_seconds))

    def lost_seconds(self, since: float, until: float = math.inf) -> float:
        """Return for how long between the two (monotonic) this process did not get to run."""
        spans = ((max(since, at - late), min(until, at)) for at, late in self._late)
        return math.fsum(end - start for start, end in spans if end > start)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now = loop.time()
        self.note(now, now - due)
        self._timer = loop.call_at(now + _LOOK_SECONDS, self._look, loop, now + _LOOK_SECONDS)


class Alarm:
    """Acts when something is due; if it is late itself, so much later again, once.

    Some loops run timers before they read: what came in while we stood still is read first.
    """

    __slots__ = ("_act", "_due", "_is_put_off", "_loop", "_timer")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, due: float, act: Callable[[], object]
    ) -> None:
        self._loop, self._due, self._act = loop, due, act
        self._is_put_off = False
        self._timer = loop.call_at(due, self._ring)

    def cancel(self) -> None:
        """Let it be."""
        self._timer.cancel()

    def _ring(self) -> None:
        late = self._loop.time() - self._due
        if late <= LATE_SECONDS or self._is_put_off:
            self._act()
            return
        self._is_put_off = True
        self._timer = self._loop.call_later(late, self._ring)


@asynccontextmanager
async def patient(seconds: float) -> AsyncIterator[None]:
    """Bound a wait, like asyncio.timeout, by time in which we got to look. Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as bound:
        alarm = Alarm(loop, loop.time() + seconds, lambda: bound.reschedule(loop.time()))
        try:
            yield
        finally:
            alarm.cancel()
