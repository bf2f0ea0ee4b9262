from __future__ import annotations

import asyncio
import signal
from typing import Any

from ds4watch.engine.leadership import Leadership
from ds4watch.engine.turn import Loops, Turn


class Book:
    """A lease that is free until taken; counts renewals."""

    def __init__(self) -> None:
        self.holder: int | None = None
        self.renewals = 0

    async def take(self) -> int | None:
        self.holder = 1 if self.holder is None else self.holder
        return self.holder

    async def renew(self, number: int) -> bool:
        self.renewals += 1
        return self.holder == number

    async def release(self, number: int) -> bool:
        was_ours = self.holder == number
        self.holder = None
        return was_ours


class Hung:
    """A daemon whose tick never ends."""

    def __init__(self) -> None:
        self.paused = False

    async def _never(self) -> None:
        await asyncio.Event().wait()

    def watching(self) -> Loops:
        return {"engine": self._never()}

    def acting(self) -> Loops:
        return {"actions": self._never()}

    async def pause(self) -> None:
        self.paused = True

    async def leave(self) -> None:
        message = "it broke"
        raise AssertionError(message)


def leadership(book: Book, **more: Any) -> Leadership:
    now = iter(range(10**6))

    async def sleep(_seconds: float) -> None:
        await asyncio.sleep(0)

    return Leadership(book, seconds=1000.0, elapsed=lambda: next(now) / 100, sleep=sleep, **more)


async def test_a_leader_that_is_not_well_lets_the_lease_go() -> None:
    book, told = Book(), list[int | None]()
    lease = leadership(book, took=told.append)
    assert await lease.take()
    answers = iter([True, True, False])
    await asyncio.wait_for(lease.keep(lambda: next(answers)), 10)
    assert (book.holder, book.renewals) == (None, 2)
    assert not lease.is_held
    assert told[-1] is None, "nothing is written under it any more"


async def test_a_daemon_whose_ticks_stand_still_ends_its_turn_and_another_may_lead() -> None:
    book, daemon = Book(), Hung()
    turn = Turn(leadership(book))
    await turn.choose()
    stop: asyncio.Future[signal.Signals] = asyncio.get_running_loop().create_future()
    async with turn:
        turn.is_well = lambda: False
        assert await asyncio.wait_for(turn.run(daemon, stop), 10) is None
        assert daemon.paused
        assert book.holder is None


async def test_who_lost_count_of_its_lease_and_had_it_all_along_knows_so() -> None:
    """The audit then says that it leads on; that it leads is said once of each number."""
    book, at, told = Book(), 0.0, list[int | None]()

    async def pass_on(seconds: float) -> None:
        nonlocal at
        at += seconds

    lease = Leadership(book, seconds=10.0, elapsed=lambda: at, sleep=pass_on, took=told.append)
    assert await lease.take()
    await lease.renew()
    assert not lease.was_regained
    await pass_on(9.0)
    assert not lease.is_held
    assert await lease.regain()
    assert (lease.number, lease.was_regained) == (1, True)
    await lease.release()
    assert await lease.take()
    assert not lease.was_regained
