"""A worker dies with requests in it: they move to others, however many, or wait for who is near."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web

from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.sim.server import RunningWorker
from ds4watch.sim.settings import SimSettings
from tests.edge.gateway.support import (
    CHAT,
    FakeWorker,
    Front,
    answer,
    board_of,
    dead_worker,
    front_of,
)
from tests.edge.gateway.test_retry import StillClock

OPEN = 40
ASK = {"model": "sim", "prompt": "x", "max_tokens": 60, "ignore_eos": True}


async def breaks(worker: FakeWorker, request: web.Request) -> web.StreamResponse:
    """Break the connection off once it is told to."""
    await worker.release.wait()
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def waits(worker: FakeWorker, request: web.Request) -> web.StreamResponse:
    """Answer once it is told to."""
    await worker.release.wait()
    return await answer(worker, request)


async def asked(front: Front, body: object = CHAT) -> tuple[int, str]:
    async with front.post(body) as response:
        await response.read()
        return response.status, response.headers["x-ds4-attempts"]


async def until_waiting(front: Front) -> None:
    """Wait until a request is open that is at no worker."""
    async with asyncio.timeout(10):
        while not (state := front.serving.state).unserved or state.inflight.by_worker:
            await asyncio.sleep(0.01)


async def test_the_next_try_waits_for_a_worker_that_is_about_to_be_ready(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1", breaks) as bad,
        FakeWorker("w2", phase=WorkerPhase.WARMING) as near,
        front_of(tmp_path, board_of(bad.view(), near.view())) as front,
    ):
        bad.release.set()
        asking = asyncio.create_task(asked(front))
        await until_waiting(front)
        near.phase = WorkerPhase.READY
        front.serving.state.apply(board_of(bad.view(), near.view(), version=2))
        assert await asking == (200, "2")


async def test_the_next_try_waits_no_longer_than_is_set(tmp_path: Path) -> None:
    async with (
        FakeWorker("w2", phase=WorkerPhase.WARMING) as near,
        front_of(
            tmp_path, board_of(dead_worker("w1"), near.view()), wake_wait_seconds=0.2
        ) as front,
    ):
        assert await asked(front) == (503, "1")


async def test_who_comes_up_anew_after_nobody_was_ready_is_tried_though_it_failed(
    tmp_path: Path,
) -> None:
    async with (
        FakeWorker("w1", breaks) as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
    ):
        asking = asyncio.create_task(asked(front))
        await worker.arrived.wait()
        anew = replace(worker.view(), phase=WorkerPhase.WARMING)
        front.serving.state.apply(board_of(anew, version=2))
        worker.release.set()
        await until_waiting(front)
        worker.script = answer
        front.serving.state.apply(board_of(worker.view(), version=3))
        assert await asking == (200, "2")


async def test_the_next_try_waits_for_room_at_the_one_that_is_left(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1", breaks) as bad,
        FakeWorker("w2", waits) as full,
        front_of(tmp_path, board_of(bad.view(), replace(full.view(), max_inflight=1))) as front,
    ):
        both = [asyncio.create_task(asked(front)) for _ in range(2)]
        await bad.arrived.wait()
        await full.arrived.wait()
        bad.release.set()
        async with asyncio.timeout(5):
            while "w1" in front.serving.state.inflight.by_worker:
                await asyncio.sleep(0.01)
        full.release.set()
        assert sorted(await asyncio.gather(*both)) == [(200, "1"), (200, "2")]
        assert front.serving.state.unserved == {}


@asynccontextmanager
async def sim_process() -> AsyncIterator[tuple[subprocess.Popen[str], str]]:
    """Run a simulated worker as a process of its own."""
    command = [sys.executable, "-m", "ds4watch", "sim", "--port", "0", "--max-num-seqs", "64"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = await asyncio.to_thread(process.stdout.readline)
            yield process, line.split()[-1]
        finally:
            process.kill()


async def test_all_that_a_dead_worker_had_open_is_answered_by_the_other(tmp_path: Path) -> None:
    """Twice what the budget has for a time that stands still: a death is no overload."""
    ready = WorkerPhase.READY
    async with (
        sim_process() as (process, url),
        RunningWorker(SimSettings(max_num_seqs=64)) as other,
    ):
        views = [
            WorkerView(name, "p", ("sim",), at, ready, since=1.0)
            for name, at in (("victim", url), ("other", other.url))
        ]
        async with front_of(tmp_path, board_of(*views), clock=StillClock()) as front:
            post = partial(front.post, ASK, "/v1/completions")

            async def ask() -> tuple[int, int]:
                async with post() as response:
                    await response.read()
                    return response.status, int(response.headers["x-ds4-attempts"])

            asking = [asyncio.create_task(ask()) for _ in range(OPEN)]
            inflight = front.serving.state.inflight
            async with asyncio.timeout(20):
                while inflight.by_worker.get("victim", 0) < OPEN / 2 - 5:
                    await asyncio.sleep(0.01)
            process.kill()
            told = await asyncio.gather(*asking)
    assert {status for status, _ in told} == {200}
    assert sum(attempts - 1 for _, attempts in told) > 10


@pytest.mark.parametrize("phase", [WorkerPhase.STARTING, WorkerPhase.FAILED])
async def test_whose_only_worker_died_is_told_when_to_come_again(
    tmp_path: Path, phase: WorkerPhase
) -> None:
    async with (
        FakeWorker("w1", breaks) as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
    ):
        asking = asyncio.create_task(front.post(CHAT).__aenter__())
        await worker.arrived.wait()
        worker.release.set()
        while not front.serving.state.chooser._outliers._known:
            await asyncio.sleep(0.01)
        assert not asking.done()  # the board may know of somebody else in a moment
        gone = replace(worker.view(), phase=phase)
        front.serving.state.apply(board_of(gone, version=2))
        response = await asking
        assert (response.status, response.headers["Retry-After"]) == (503, "1")
        assert (await response.json())["error"]["code"] == "no_worker"
        assert front.serving.state.unserved == {"m": 1}
        response.release()


async def test_another_that_comes_in_that_moment_answers(tmp_path: Path) -> None:
    async with (
        FakeWorker("w2") as other,
        front_of(tmp_path, board_of(dead_worker("w1"))) as front,
    ):
        asking = asyncio.create_task(asked(front))
        while not front.serving.state.chooser.aside():
            await asyncio.sleep(0.01)
        front.serving.state.apply(board_of(dead_worker("w1"), other.view(), version=2))
        assert await asking == (200, "2")
