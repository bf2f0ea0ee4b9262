"""A daemon's turn: it leads until its lease is lost, or stands by until one falls to it."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Protocol, Self

from ds4watch.engine.leadership import Leadership

log = logging.getLogger(__name__)

Loops = dict[str, Coroutine[Any, Any, None]]


class Running(Protocol):
    """The daemon, put together."""

    def watching(self) -> Loops:
        """Return what runs until the end, whoever leads."""
        ...

    def acting(self) -> Loops:
        """Return what runs while this daemon may act."""
        ...

    async def pause(self) -> None:
        """Stop acting, at once."""
        ...

    async def leave(self) -> None:
        """End the daemon alone."""
        ...


class Turn:
    """Leads, or stands by; without a lease (on SQLite a file lock is enough) it leads for good."""

    def __init__(self, leadership: Leadership | None) -> None:
        self._leadership = leadership
        self._over: asyncio.Task[None] | None = None
        self.leads = leadership is None
        self.is_well: Callable[[], bool] = lambda: True
        """Whether who leads does so; set by whoever puts the daemon together."""

    def may_act(self) -> bool:
        """Return whether we lead at this moment, by our own count."""
        return self.leads and (self._leadership is None or self._leadership.is_held)

    async def choose(self) -> None:
        """See whether the next turn is one of leading."""
        lease = self._leadership
        if lease is not None:
            self.leads = lease.is_held or await lease.take()
            log.info("this daemon %s", "leads" if self.leads else "is on standby: another leads")

    def _goes_well(self) -> bool:
        return self.is_well()

    async def __aenter__(self) -> Self:
        if self._leadership is not None:
            self.is_well = lambda: True  # until the daemon is put together
            lease = self._leadership
            over = lease.keep(self._goes_well) if self.leads else lease.wait()
            self._over = asyncio.create_task(over, name="lease")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._over is not None:
            await _end([self._over])
        if error is not None:
            await self.release()

    async def release(self) -> None:
        """Let another daemon lead at once."""
        if self._leadership is not None and self.leads:
            await self._leadership.release()

    async def run(
        self, daemon: Running, stop: asyncio.Future[signal.Signals]
    ) -> signal.Signals | None:
        """Run the loops until a signal comes, or the turn is over: None.

        A loop that breaks ends the daemon, with its fault.
        """
        watching = _begun(daemon.watching())
        acting = _begun(daemon.acting()) if self.leads else []
        over: list[asyncio.Future[Any]] = [stop]
        if self._over is not None:
            over.append(self._over)
        try:
            await asyncio.wait([*watching, *acting, *over], return_when=asyncio.FIRST_COMPLETED)
            if self._over is not None and self._over.done():
                self._over.result()
            if self._is_lost(stop, [*watching, *acting]):
                await _end(acting)
                await daemon.pause()
                acting = []
                await self._regain(watching, stop)
        finally:
            broken = await _end([*watching, *acting])
        if stop.done():
            return stop.result()
        if broken is not None:
            await daemon.leave()
            raise broken
        return None

    def _is_lost(
        self, stop: asyncio.Future[signal.Signals], loops: list[asyncio.Task[None]]
    ) -> bool:
        is_over = self._over is not None and self._over.done()
        return is_over and self.leads and not stop.done() and not any(it.done() for it in loops)

    async def _regain(
        self, watching: list[asyncio.Task[None]], stop: asyncio.Future[signal.Signals]
    ) -> None:
        """Watch on without acting until it is known who leads."""
        lease = self._leadership
        assert lease is not None
        log.warning("the lease may be another daemon's: nothing is done until that is known")
        known = asyncio.create_task(lease.regain(), name="lease")
        waited: list[asyncio.Future[Any]] = [*watching, known, stop]
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end([known])
        log.warning("the lease is %s", "still ours" if lease.is_held else "not ours")


def _begun(loops: Loops) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(loop, name=name) for name, loop in loops.items()]


async def _end(tasks: list[asyncio.Task[Any]]) -> Exception | None:
    """Cancel what still runs; return the fault of one that broke."""
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    return next((it for it in ended if isinstance(it, Exception)), None)
