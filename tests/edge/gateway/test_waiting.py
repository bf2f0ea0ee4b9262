"""Lines under random traffic: nobody is forgotten, no place stays free, none is given twice."""

from __future__ import annotations

import asyncio
import random

import pytest

from ds4watch.gateway.waiting import WaitingRoom


class Desk:
    """So many places, which a request holds for some turns of the event loop."""

    def __init__(self, places: int, room: WaitingRoom) -> None:
        self.places = places
        self.room = room
        self.used = 0
        self.most_used = 0
        self.served = 0

    def take(self) -> bool | None:
        return True if self.used < self.places else None

    async def visit(self, priority: int, turns: int) -> bool:
        is_free = self.used < self.places and not self.room.has_line("m")
        if not is_free and await self.room.place("m", priority, self.take) is None:
            return False
        self.used += 1
        self.most_used = max(self.most_used, self.used)
        try:
            for _ in range(turns):
                await asyncio.sleep(0)
            self.served += 1
        finally:
            self.used -= 1
            self.room.stir()
        return True


@pytest.mark.parametrize("seed", range(40))
async def test_nobody_is_forgotten_and_no_place_is_given_twice(seed: int) -> None:
    draw = random.Random(seed)
    room = WaitingRoom(most=200, seconds=30.0)
    desk = Desk(draw.randint(1, 4), room)
    tasks = []
    for _ in range(120):
        visit = desk.visit(draw.randint(0, 9), draw.randint(0, 5))
        tasks.append(asyncio.create_task(visit))
        for _ in range(draw.randint(0, 3)):
            await asyncio.sleep(0)
        if draw.random() < 0.3:
            draw.choice(tasks).cancel()
    async with asyncio.timeout(10):
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(it is True or isinstance(it, asyncio.CancelledError) for it in ended)
    assert desk.most_used <= desk.places
    assert (desk.used, room.size, room.has_line("m")) == (0, 0, False)


async def test_places_that_come_free_at_once_are_all_taken() -> None:
    room = WaitingRoom(most=9, seconds=30.0)
    desk = Desk(0, room)
    tasks = [asyncio.create_task(desk.visit(5, 50)) for _ in range(5)]
    await asyncio.sleep(0)
    assert room.size == 5
    desk.places = 5
    room.stir()
    async with asyncio.timeout(10):
        assert await asyncio.gather(*tasks) == [True] * 5
    assert desk.most_used == 5


@pytest.mark.parametrize(("most", "seconds"), [(0, 1.0), (9, 0.0)])
async def test_without_a_room_nobody_waits(most: int, seconds: float) -> None:
    room = WaitingRoom(most, seconds)
    assert await room.place("m", 5, Desk(0, room).take) is None
