"""The requests of one connection, answered in one task: a task for each would cost more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ds4watch.gateway.http.message import Request


class Turns:
    """Whose turn it is, and the task that answers; it begins with the first request."""

    __slots__ = ("_loop", "_task", "_waiter", "request")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.request: Request | None = None
        """What is being answered; who has answered it sets None here, or what comes next."""

    def begin(self, request: Request, answer: Callable[[Request], Awaitable[None]]) -> None:
        """Have a request answered, once it is the only one; `answer` is the same each time."""
        self.request = request
        if self._task is None:
            self._task = self._loop.create_task(self._serve(answer))
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def cut_off(self) -> asyncio.Task[None] | None:
        """Cancel what is being answered, and return what to wait for."""
        if self.request is not None and self._task is not None:
            self._task.cancel()
            return self._task
        return None

    def end(self) -> None:
        """Cancel what is being answered, and wait for nothing more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _serve(self, answer: Callable[[Request], Awaitable[None]]) -> None:
        while True:
            while self.request is not None:
                await answer(self.request)
            self._waiter = self._loop.create_future()
            await self._waiter
