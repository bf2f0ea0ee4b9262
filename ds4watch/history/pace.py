"""Keeps upkeep from taking more than its share of the processor and the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ds4watch.history.database import Database
from ds4watch.model.ports import Clock

T = TypeVar("T")
Pause = Callable[[float], Awaitable[None]]

_SHARE = 1 / 2


class Pace:
    """Reads and writes of upkeep, with a pause after each: as long as it took.

    A pause ends no sooner than the disk has caught up with what was written.
    """

    def __init__(self, database: Database, clock: Clock, pause: Pause = asyncio.sleep) -> None:
        self._database = database
        self._clock = clock
        self._pause = pause

    async def read(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work(connection, *arguments)` in the reader's thread."""
        return await self._paced(self._database.read, work, *arguments)

    async def write(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work(connection, *arguments)` as one transaction in the writer's thread."""
        return await self._paced(self._database.write, work, *arguments)

    async def in_writer(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work` in the writer's thread."""
        return await self._paced(self._database.in_writer, work, *arguments)

    async def _paced(
        self, run: Callable[..., Awaitable[T]], work: Callable[..., T], *arguments: Any
    ) -> T:
        began = self._clock.monotonic()
        result = await run(work, *arguments)
        took_seconds = self._clock.monotonic() - began
        await self._database.caught_up()
        await self._pause(took_seconds * (1 / _SHARE - 1))
        return result
