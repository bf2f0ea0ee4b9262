"""The queue of long prompts: as many at once as their workers may have, the rest waits its turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from ds4watch.gateway.replies import RefusedError, unavailable
from ds4watch.model.usage import RequestOutcome


class LongQueue:
    """First come, first served, by model."""

    def __init__(
        self, room_of: Callable[[str], float], *, wait_seconds: float, most_waiting: int
    ) -> None:
        """`room_of` gives what this process may have open of a model."""
        self._room_of = room_of
        self._wait_seconds = wait_seconds
        self._most_waiting = most_waiting
        self._open: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def open(self) -> int:
        """Long prompts that are at workers or about to be."""
        return sum(self._open.values())

    @property
    def waiting(self) -> int:
        """Long prompts that wait."""
        return sum(len(queue) for queue in self._waiting.values())

    @asynccontextmanager
    async def turn(self, model: str) -> AsyncIterator[None]:
        """Hold one of a model's places; raises RefusedError if none becomes free in time."""
        if self._waiting.get(model) or self._open.get(model, 0) >= self._room_of(model):
            await self._wait(model)
        else:
            self._open[model] = self._open.get(model, 0) + 1
        try:
            yield
        finally:
            self._give_back(model)

    def wake(self) -> None:
        """Let in who waits for room that a new board has brought."""
        for model in list(self._waiting):
            self._let_in(model)

    async def _wait(self, model: str) -> None:
        if self.waiting >= self._most_waiting:
            raise _refused(f"{self.waiting} long prompts wait already")
        mine = asyncio.get_running_loop().create_future()
        queue = self._waiting.setdefault(model, deque())
        queue.append(mine)
        try:
            async with asyncio.timeout(self._wait_seconds):
                await mine
        except BaseException as error:
            self._leave(model, queue, mine)
            if isinstance(error, TimeoutError):
                raise _refused(f"no room for a long prompt in {self._wait_seconds:g} s") from error
            raise

    def _leave(
        self, model: str, queue: deque[asyncio.Future[None]], mine: asyncio.Future[None]
    ) -> None:
        if mine.done() and not mine.cancelled():
            self._give_back(model)  # its turn had come in the same moment
            return
        with suppress(ValueError):
            queue.remove(mine)
        if not queue:
            self._waiting.pop(model, None)

    def _give_back(self, model: str) -> None:
        left = self._open[model] - 1
        if left:
            self._open[model] = left
        else:
            del self._open[model]
        self._let_in(model)

    def _let_in(self, model: str) -> None:
        queue = self._waiting.get(model)
        while queue and self._open.get(model, 0) < self._room_of(model):
            first = queue.popleft()
            if not first.done():
                self._open[model] = self._open.get(model, 0) + 1
                first.set_result(None)
        if queue is not None and not queue:
            self._waiting.pop(model, None)


def _refused(why: str) -> RefusedError:
    reply = unavailable(f"Too much load now ({why}); try again", code="overloaded")
    return RefusedError(reply, outcome=RequestOutcome.SHED)
