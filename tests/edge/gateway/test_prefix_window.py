"""Requests that begin alike, before scripted workers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from aiohttp import web

from ds4watch.config.batching import BatchingSettings
from ds4watch.model.service_policy import Limits, ServicePolicy
from tests.edge.gateway.support import (
    DONE,
    FakeWorker,
    Front,
    begin,
    board_of,
    delta,
    front_of,
)

HANDBOOK = "You answer questions about the handbook of the pump house. " * 50
ON = BatchingSettings(always=True, answering_seconds=1.0, generation_seconds=1.0)


def ask(question: str, *, stream: bool = True, system: str = HANDBOOK) -> dict[str, Any]:
    turns = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    return {"model": "m", "messages": turns, "stream": stream, "max_tokens": 8}


async def held_back(worker: FakeWorker, request: web.Request) -> web.StreamResponse:
    """Answer the first request once it is released, all others at once."""
    if len(worker.bodies) == 1:
        await worker.release.wait()
    response = await begin(request)
    await response.write(delta("Hi", 1))
    await response.write(DONE)
    return response


def asked(worker: FakeWorker) -> list[str]:
    return [body["messages"][-1]["content"] for body in worker.bodies]


async def post(front: Front, question: str, **more: Any) -> int:
    async with front.post(ask(question, **more)) as response:
        await response.read()
        return int(response.status)


async def in_order(front: Front, *questions: str, **more: Any) -> list[asyncio.Task[int]]:
    """Send requests one after the other; each is inside the gateway before the next comes."""
    tasks = []
    for question in questions:
        inside = front.serving.state.inflight.total
        tasks.append(asyncio.create_task(post(front, question, **more)))
        async with asyncio.timeout(5):
            while front.serving.state.inflight.total <= inside:
                await asyncio.sleep(0.005)
    return tasks


async def test_followers_reach_the_worker_only_after_the_leaders_first_token_and_in_order(
    tmp_path: Path,
) -> None:
    async with (
        FakeWorker("w", held_back) as worker,
        front_of(tmp_path, board_of(worker.view()), batching=ON) as front,
    ):
        tasks = await in_order(front, "one", "two", "three")
        await worker.arrived.wait()
        assert asked(worker) == ["one"]
        worker.release.set()
        assert await asyncio.gather(*tasks) == [200, 200, 200]
        assert asked(worker) == ["one", "two", "three"]


async def test_followers_go_to_the_leaders_worker(tmp_path: Path) -> None:
    async with (
        FakeWorker("a", held_back) as first,
        FakeWorker("b", held_back) as second,
        front_of(tmp_path, board_of(first.view(), second.view()), batching=ON) as front,
    ):
        tasks = await in_order(front, "one", "two", "three", "four")
        first.release.set()
        second.release.set()
        await asyncio.gather(*tasks)
        assert sorted((len(first.bodies), len(second.bodies))) == [0, 4]


async def test_nobody_waits_past_the_window(tmp_path: Path) -> None:
    short = BatchingSettings(always=True, answering_seconds=0.05)
    async with (
        FakeWorker("w", held_back) as worker,
        front_of(tmp_path, board_of(worker.view()), batching=short) as front,
    ):
        tasks = await in_order(front, "one", "two")
        assert await tasks[1] == 200  # though the first still has no token
        worker.release.set()
        assert await tasks[0] == 200


async def test_a_leader_whose_client_leaves_hands_its_part_on(tmp_path: Path) -> None:
    async with (
        FakeWorker("w", held_back) as worker,
        front_of(tmp_path, board_of(worker.view()), batching=ON) as front,
    ):
        tasks = await in_order(front, "one", "two", "three")
        await worker.arrived.wait()
        tasks[0].cancel()
        assert await asyncio.gather(*tasks[1:]) == [200, 200]
        assert asked(worker) == ["one", "two", "three"]


async def test_other_beginnings_and_short_prompts_do_not_wait(tmp_path: Path) -> None:
    async with (
        FakeWorker("w", held_back) as worker,
        front_of(tmp_path, board_of(worker.view()), batching=ON) as front,
    ):
        tasks = await in_order(front, "one")
        await worker.arrived.wait()
        assert await post(front, "two", system=HANDBOOK.replace("pump", "boiler")) == 200
        assert await post(front, "three", system="Be brief.") == 200
        worker.release.set()
        await asyncio.gather(*tasks)


async def test_without_the_policys_word_nobody_waits(tmp_path: Path) -> None:
    async with (
        FakeWorker("w", held_back) as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
    ):
        tasks = await in_order(front, "one")
        await worker.arrived.wait()
        assert await post(front, "two") == 200
        worker.release.set()
        await asyncio.gather(*tasks)


async def test_on_a_level_that_says_so_they_wait(tmp_path: Path) -> None:
    limits = Limits(group_prefixes=True)
    policy = ServicePolicy(version=1, level=1, limits=limits, ladder=(Limits(), limits))
    waits = BatchingSettings(answering_seconds=1.0)
    async with (
        FakeWorker("w", held_back) as worker,
        front_of(tmp_path, board_of(worker.view(), policy=policy), batching=waits) as front,
    ):
        tasks = await in_order(front, "one", "two")
        await worker.arrived.wait()
        assert asked(worker) == ["one"]
        worker.release.set()
        await asyncio.gather(*tasks)
        assert asked(worker) == ["one", "two"]
