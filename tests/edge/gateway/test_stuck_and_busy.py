"""One bad worker among good ones: stuck, or so quick to refuse that it looks idle."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from aiohttp import web

from tests.edge.gateway.support import CHAT, FakeWorker, Front, answer, board_of, front_of, status


class StillClock:
    """Stands still."""

    def now(self) -> float:
        return 1000.0

    def monotonic(self) -> float:
        return 50.0


async def hangs(worker: FakeWorker, request: web.Request) -> web.StreamResponse:
    """Say nothing until released, then hang up."""
    await worker.release.wait()
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def asked(front: Front, count: int, clients: int) -> Counter[int]:
    numbers = iter(range(count))
    statuses: Counter[int] = Counter()

    async def ask() -> None:
        for number in numbers:
            async with front.post(CHAT | {"user": f"u{number}"}) as response:
                statuses[response.status] += 1

    await asyncio.gather(*(ask() for _ in range(clients)))
    return statuses


async def test_one_that_refuses_at_once_is_not_taken_for_the_least_loaded(tmp_path: Path) -> None:
    async with FakeWorker("w0", status(503)) as full, FakeWorker("w1", answer) as good:
        board, clock = board_of(full.view(), good.view()), StillClock()
        async with front_of(tmp_path, board, clock=clock) as front:
            assert await asked(front, 8, 8) == {200: 8}
            found = len(full.bodies)
            assert await asked(front, 400, 20) == {200: 400}
    assert 0 < found == len(full.bodies)  # its pause is not over while the clock stands


async def test_one_stuck_worker_holds_up_nobody_else(tmp_path: Path) -> None:
    async def answers_until_most_are_through(
        worker: FakeWorker, request: web.Request
    ) -> web.StreamResponse:
        if len(worker.bodies) >= 150:
            stuck.release.set()
        return await answer(worker, request)

    async with (
        FakeWorker("w0", hangs) as stuck,
        FakeWorker("w1", answers_until_most_are_through) as good,
        front_of(tmp_path, board_of(stuck.view(), good.view())) as front,
    ):
        async with asyncio.timeout(60):
            assert await asked(front, 200, 20) == {200: 200}
    assert len(stuck.bodies) < 30
