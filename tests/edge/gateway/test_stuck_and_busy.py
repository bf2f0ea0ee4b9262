"""One bad worker among good ones: stuck, or so quick to refuse that it looks idle."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from aiohttp import web

from tests.edge.gateway.support import CHAT, FakeWorker, Front, answer, board_of, front_of, status


async def soon(worker: FakeWorker, request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(0.02)
    return await answer(worker, request)


async def hangs(worker: FakeWorker, _request: web.Request) -> web.StreamResponse:
    await worker.release.wait()
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
    async with (
        FakeWorker("w0", status(503)) as full,
        FakeWorker("w1", soon) as good,
        front_of(tmp_path, board_of(full.view(), good.view())) as front,
    ):
        assert await asked(front, 8, 8) == {200: 8}
        assert await asked(front, 400, 20) == {200: 400}
    assert len(full.bodies) < 40


async def test_one_stuck_worker_holds_up_nobody_else(tmp_path: Path) -> None:
    async with FakeWorker("w0", hangs) as stuck, FakeWorker("w1", soon) as good:
        board = board_of(stuck.view(), good.view())
        async with front_of(tmp_path, board, request_timeout_seconds=1.0) as front:
            async with asyncio.timeout(15):
                assert await asked(front, 200, 20) == {200: 200}
            stuck.release.set()
    assert len(stuck.bodies) < 30
