"""Whether this daemon may act, where several share a database: take the lease, keep it, lose it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from ds4watch.model.errors import EdgeError

log = logging.getLogger(__name__)

STEPS = 5
"""A lease is renewed, and looked at by who waits for it, so many times in its length."""
MARGIN_RATIO = 0.2
"""Of the lease: so long before it can be another's nothing is done under it any more."""

Sleep = Callable[[float], Awaitable[None]]


class LeaseBook(Protocol):
    """Where the lease stands. Every method raises EdgeError if it cannot be asked."""

    async def take(self) -> int | None:
        """Take the lease if nobody holds it; return its number, else None."""
        ...

    async def renew(self, number: int) -> bool:
        """Let our lease begin anew; False if another daemon has taken it since."""
        ...

    async def release(self, number: int) -> bool:
        """Let our lease end now; False if it was not ours any more."""
        ...


class Leadership:
    """Our side of the lease.

    How long it is ours is counted from before each renewal was sent, on a clock that cannot be
    set, and ends before the server's count does: when the server cannot be asked we stop in time.
    """

    def __init__(
        self,
        book: LeaseBook,
        *,
        seconds: float,
        elapsed: Callable[[], float],
        sleep: Sleep = asyncio.sleep,
        took: Callable[[int | None], None] = lambda _number: None,
    ) -> None:
        """Tell `took` each number under which we may write from then on; None: under none."""
        self._book = book
        self._seconds = seconds
        self._elapsed = elapsed
        self._sleep = sleep
        self._took = took
        self._until = 0.0
        self._failing = False
        self.number: int | None = None
        """Of the lease that is ours, or was ours last and may be again."""
        self.was_regained = False
        """We lost count of the lease that is ours, and nobody had it meanwhile."""

    @property
    def is_held(self) -> bool:
        """Whether we may act, by our own count."""
        return self.number is not None and self._elapsed() < self._until

    async def take(self) -> bool:
        """Take the lease if nobody holds it; return whether it is ours."""
        began = self._elapsed()
        number = await self._ask(self._book.take())
        if number is None:
            return False
        self.was_regained = False
        self._begin(number, began)
        return True

    async def wait(self) -> None:
        """Return once the lease is ours."""
        while not await self.take():
            await self._sleep(self._seconds / STEPS)

    async def keep(self, is_well: Callable[[], bool] = lambda: True) -> None:
        """Renew the lease; return when we may not act under it any more.

        Who is not well lets it go: a leader that only renews keeps all others from acting.
        """
        while self.is_held:
            if not is_well():
                log.error("ticks stand still: the lease is let go, this daemon begins anew")
                await self.release()
                return
            await self._sleep(min(self._seconds / STEPS, self._until - self._elapsed()))
            with contextlib.suppress(TimeoutError):
                # An answer that comes too late is none: by then we have to have stopped.
                async with asyncio.timeout(max(0.0, self._until - self._elapsed())):
                    await self.renew()

    async def regain(self) -> bool:
        """Wait for the server's word on a lease that we lost count of; True: it is still ours.

        Then nobody else has acted meanwhile.
        """
        while not self.is_held:
            if self.number is None:
                return False
            await self.renew()
            if self.number is not None and not self.is_held:
                await self._sleep(self._seconds / STEPS)
        return True

    async def renew(self) -> None:
        """Ask for the lease to begin anew; forget it if it is another daemon's by now."""
        assert self.number is not None
        began = self._elapsed()
        renewed = await self._ask(self._book.renew(self.number))
        if renewed:
            self.was_regained |= not self.is_held
            self._begin(self.number, began)
        elif renewed is not None:
            self.forget()

    async def release(self) -> None:
        """Let the lease go, so that another daemon need not wait for its end."""
        number = self.number
        self.forget()
        if number is not None:
            await self._ask(self._book.release(number))

    def forget(self) -> None:
        """Hold no lease any more."""
        self.number = None
        self._took(None)

    def _begin(self, number: int, began: float) -> None:
        self.number = number
        self._until = began + self._seconds * (1 - MARGIN_RATIO)
        self._took(number)

    async def _ask(self, asked: Awaitable[int | bool | None]) -> int | bool | None:
        """Return the answer; None, and one line, if there is none."""
        try:
            answer = await asked
        except EdgeError as error:
            if not self._failing:
                log.warning("the lease cannot be asked for: %s", error)
            self._failing = True
            return None
        if self._failing:
            log.info("the lease can be asked for again")
        self._failing = False
        return answer
