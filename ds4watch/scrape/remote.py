"""A Prometheus, Thanos, Mimir or VictoriaMetrics that evaluates expressions for us.

A module of its own: what it brings in takes a while to load, and most daemons never need it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from ds4watch.alerting.remote import Answer
from ds4watch.model.errors import EdgeReason, SourceError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.scrape.remote_line import Line
from ds4watch.scrape.remote_plan import RemoteOptions

_FIRST_WAIT_SECONDS: Final = 0.2
_GRACE_SECONDS: Final = 0.5
"""A line has its own limit; one that exceeds it is left alone until it comes back."""
T = TypeVar("T")


class RemotePrometheus:
    """Asks a server over a few lines. One that hangs holds up itself alone."""

    def __init__(self, options: RemoteOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._lines = [Line(options, number) for number in range(options.concurrency)]
        self._idle: asyncio.Queue[Line] = asyncio.Queue()
        for line in self._lines:
            self._idle.put_nowait(line)

    async def close(self) -> None:
        """End the lines."""
        for line in self._lines:
            line.close()

    async def ask(self, text: str, at: UnixSeconds, until: float) -> Answer:
        """Return an expression's value at an instant. Raises SourceError.

        until: on the monotonic clock; failures that may pass are tried again before.
        """
        return await self._insist(lambda line, seconds: line.query(text, at, seconds), until)

    async def version(self, until: float) -> str:
        """Return what the server says of its build. Raises SourceError."""
        path = "/api/v1/status/buildinfo"
        found = await self._insist(lambda line, seconds: line.get(path, seconds), until)
        data = found.get("data") if isinstance(found, dict) else None
        version = data.get("version") if isinstance(data, dict) else None
        return str(version)[:80] if version else "unknown"

    async def _insist(self, begin: Callable[[Line, float], Future[T]], until: float) -> T:
        tried = 0
        while True:
            try:
                return await self._once(begin, until)
            except SourceError as error:
                wait = max(_FIRST_WAIT_SECONDS * 2**tried, error.wait_seconds)
                is_last = tried >= self._options.retries
                if is_last or not error.retryable or self._clock.monotonic() + wait >= until:
                    raise
            tried += 1
            await asyncio.sleep(wait)

    async def _once(self, begin: Callable[[Line, float], Future[T]], until: float) -> T:
        line = await self._free_line(until)
        left = until - self._clock.monotonic()
        seconds = max(0.001, min(self._options.timeout_seconds, left))
        future = begin(line, seconds)
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: _tell(loop, lambda: self._idle.put_nowait(line)))
        try:
            async with asyncio.timeout(seconds + _GRACE_SECONDS):
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            raise _late(seconds) from error

    async def _free_line(self, until: float) -> Line:
        left = max(0.0, until - self._clock.monotonic())
        try:
            async with asyncio.timeout(left):
                return await self._idle.get()
        except TimeoutError as error:
            raise _late(left) from error


def _late(seconds: float) -> SourceError:
    message = f"no answer in time ({seconds:.3g} s)"
    return SourceError(message, reason=EdgeReason.TIMEOUT, retryable=True)


def _tell(loop: asyncio.AbstractEventLoop, act: Callable[[], Any]) -> None:
    """Do something in a loop, from a thread that may outlive it."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(act)
