"""Requests that wait for a place: a bounded line before each model's workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ds4watch.access.line import Line

T = TypeVar("T")

FRONT = ""
"""The line before the gateway itself; every other has the name of a model."""


@dataclass(slots=True, eq=False)
class _Waiter:
    priority: int
    told: asyncio.Future[bool]
    """True: its turn to look; False: it has to leave."""
    expired: bool = False


@dataclass(slots=True)
class _Queue:
    line: Line[_Waiter]
    looking: _Waiter | None = None
    """Whose turn it is; one at a time, so that the order stays as it is."""


@dataclass(slots=True)
class Waits:
    """What came of all waits since the start."""

    entered: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class WaitingRoom:
    """The lines of one gateway process.

    Who leaves a line with a place passes the turn on, so that several places that came free at
    once are all taken; who finds none goes back to the head. So no place stays free while
    somebody waits for it.
    """

    most: int
    seconds: float
    waits: Waits = field(default_factory=Waits)
    _queues: dict[str, _Queue] = field(default_factory=dict)

    def has_line(self, name: str) -> bool:
        """Return whether somebody waits there, so that a newcomer has to wait too."""
        return name in self._queues

    @property
    def size(self) -> int:
        """How many wait, in all lines."""
        return sum(queue.line.size + (queue.looking is not None) for queue in self._queues.values())

    async def place(self, name: str, priority: int, take: Callable[[], T | None]) -> T | None:
        """Return what `take` gives as soon as it gives something, None if that is too late.

        Also None for who is not let into a full line, or displaced by somebody more urgent.
        """
        if self.most == 0 or self.seconds <= 0:
            return None
        loop = asyncio.get_running_loop()
        queue = self._queues.setdefault(name, _Queue(Line(self.most)))
        waiter = _Waiter(priority, loop.create_future())
        displaced = queue.line.join(waiter, priority)
        if displaced is not None:
            _tell(displaced, may_look=False)
        self.waits.entered += 1
        began = loop.time()
        alarm = loop.call_later(self.seconds, _expire, queue.line, waiter)
        try:
            return await _turn(queue, waiter, take)
        finally:
            alarm.cancel()
            self._part(name, queue, waiter)
            self.waits.seconds += loop.time() - began

    def stir(self) -> None:
        """Let the head of each line look again: something may have come free."""
        if self._queues:
            for queue in self._queues.values():
                _call_next(queue)

    def _part(self, name: str, queue: _Queue, waiter: _Waiter) -> None:
        queue.line.leave(waiter, waiter.priority)
        if queue.looking is waiter:
            queue.looking = None
        # Also after one who only waited: others may have joined behind it with a place free.
        _call_next(queue)
        # Who parts late must not take down a line that others have begun since.
        if queue.looking is None and not queue.line.size and self._queues.get(name) is queue:
            del self._queues[name]


async def _turn(queue: _Queue, waiter: _Waiter, take: Callable[[], T | None]) -> T | None:
    while await waiter.told:
        found = take()
        if found is not None or waiter.expired:
            return found
        queue.looking = None
        waiter.told = asyncio.get_running_loop().create_future()
        queue.line.rejoin(waiter, waiter.priority)
    return None


def _call_next(queue: _Queue) -> None:
    while queue.looking is None:
        following = queue.line.next()
        if following is None:
            return
        if _tell(following, may_look=True):
            queue.looking = following


def _tell(waiter: _Waiter, *, may_look: bool) -> bool:
    """Say whose turn it is; return False for one who is leaving at this moment."""
    if waiter.told.done():
        return False
    waiter.told.set_result(may_look)
    return True


def _expire(line: Line[_Waiter], waiter: _Waiter) -> None:
    waiter.expired = True
    if line.leave(waiter, waiter.priority):  # else it is about to look for the last time
        _tell(waiter, may_look=False)
