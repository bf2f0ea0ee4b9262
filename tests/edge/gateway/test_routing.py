"""Conversations, long prompts and bad workers, as clients meet them."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from ds4watch.model.service_policy import Limits, ServicePolicy
from ds4watch.model.usage import RequestOutcome
from tests.edge.gateway.support import (
    FakeWorker,
    Front,
    answer,
    board_of,
    dead_worker,
    front_of,
    records,
    status,
)

TURN = [{"role": "user", "content": "And then?"}, {"role": "assistant", "content": "Rain."}]


def chat(text: str, turns: int = 1, **more: Any) -> dict[str, Any]:
    first = {"role": "user", "content": f"{text} {'and so on ' * 30}"}
    return {"model": "m", "messages": [first, *TURN * (turns - 1)]} | more


async def worker_of(front: Front, body: Any, **more: Any) -> str:
    async with front.post(body, **more) as response:
        assert response.status == 200, await response.text()
        return str(response.headers["x-ds4-worker"])


async def test_a_conversation_stays_with_its_worker_and_others_go_elsewhere(
    tmp_path: Path,
) -> None:
    async with (
        FakeWorker("w1") as one,
        FakeWorker("w2") as two,
        FakeWorker("w3") as three,
        front_of(tmp_path, board_of(one.view(), two.view(), three.view())) as front,
    ):
        homes = [await worker_of(front, chat(f"Story {at}")) for at in range(12)]
        later = [await worker_of(front, chat(f"Story {at}", turns=5)) for at in range(12)]
        assert later == homes
        assert len(set(homes)) > 1
        headers = {"x-session-id": "abc"}
        by_id = {await worker_of(front, chat(f"S {at}"), headers=headers) for at in range(6)}
        assert len(by_id) == 1
        told = next(it for it in (one, two, three) if it.name in by_id)
        assert told.headers[-1]["x-session-id"] == "abc"


async def test_two_gateways_send_a_conversation_to_the_same_worker(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with FakeWorker("w1") as one, FakeWorker("w2") as two:
        board = board_of(one.view(), two.view())
        async with front_of(tmp_path / "a", board) as a, front_of(tmp_path / "b", board) as b:
            for at in range(6):
                assert await worker_of(a, chat(f"S {at}")) == await worker_of(b, chat(f"S {at}"))


async def test_a_conversation_whose_worker_is_dead_goes_to_the_next_and_stays_there(
    tmp_path: Path,
) -> None:
    async with (
        FakeWorker("w1") as one,
        FakeWorker("w2") as two,
        front_of(tmp_path, board_of(dead_worker("w0"), one.view(), two.view())) as front,
    ):
        before = [await worker_of(front, chat(f"S {at}")) for at in range(12)]
        after = [await worker_of(front, chat(f"S {at}")) for at in range(12)]
        assert before == after
        assert set(before) == {"w1", "w2"}


async def test_old_turns_are_left_out_by_policy_and_that_is_told(tmp_path: Path) -> None:
    policy = ServicePolicy(level=1, limits=Limits(max_turns=2))
    async with (
        FakeWorker("w1") as one,
        FakeWorker("w2") as two,
        front_of(tmp_path, board_of(one.view(), two.view(), policy=policy)) as front,
    ):
        homes = set()
        for turns in (1, 3, 9):
            async with front.post(chat("Go on", turns)) as response:
                homes.add(response.headers["x-ds4-worker"])
                told = response.headers.get("x-ds4-degraded")
                assert told == (None if turns == 1 else "level=1;turns=2")
    (home,) = homes  # its key is that of the whole conversation
    bodies = (one if home == "w1" else two).bodies
    assert [len(body["messages"]) for body in bodies] == [1, 4, 4]


async def test_the_errors_of_conversations_of_many_turns_are_told_apart(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
    ):
        for turns, script in ((3, status(500)), (25, answer), (25, answer), (25, status(500))):
            worker.script = script
            async with front.post(chat("Hello", turns)):
                pass
        assert front.serving.state.long_sessions() == (3, 1)


async def test_a_worker_that_fails_is_set_aside_and_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        FakeWorker("bad", status(500)) as bad,
        FakeWorker("good") as good,
        front_of(tmp_path, board_of(bad.view(), good.view())) as front,
    ):
        for _ in range(60):
            await worker_of(front, {"model": "m", "prompt": "x"}, path="/v1/completions")
        async with front.http.get(front.url + "/health") as response:
            routing = (await response.json())["routing"]
    assert routing["set_aside"] == {"bad": "errors"}
    assert len(bad.bodies) == 3
    assert caplog.text.count("worker bad is set aside") == 1


def sized(tokens: int, **more: Any) -> dict[str, Any]:
    """Return a chat that is estimated at so many tokens before anything is known."""
    return chat("x" * int(tokens * 3.5 - 360), **more)


@pytest.mark.parametrize(
    ("estimate", "count", "taken", "asked"),
    [
        (1000, 9999, "short", 0),
        (2000, 2049, "long", 1),
        (2300, 2048, "short", 1),
        (2300, None, "long", 1),
        (2700, 5, "long", 0),
    ],
)
async def test_a_worker_counts_tokens_only_where_the_estimate_may_err(
    tmp_path: Path, estimate: int, count: int | None, taken: str, asked: int
) -> None:
    async with (
        FakeWorker("short", tokens=count) as short,
        FakeWorker("long", tokens=count) as long,
        front_of(tmp_path, board_of(short.view(), long.view(is_for_long=True))) as front,
    ):
        body = sized(estimate, tools=[{"type": "function", "function": {"name": "f"}}])
        for _ in range(2):
            assert await worker_of(front, body) == taken
        counted = short.counted + long.counted
    # A count is kept; a failure is not, for the worker may have come back since.
    assert len(counted) == (asked if count is not None else 2 * asked)
    assert all(it["tools"] == body["tools"] and it["messages"] for it in counted)


async def held(worker: FakeWorker, request: web.Request) -> web.StreamResponse:
    """Hold what is long until released; answer the rest."""
    if len(worker.raw[-1]) > 5000:
        await worker.release.wait()
    return await answer(worker, request)


LONG = sized(4000)


async def test_long_prompts_wait_for_each_other_and_short_ones_for_nobody(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1", held) as worker,
        front_of(tmp_path, board_of(worker.view(max_inflight=2))) as front,
        asyncio.TaskGroup() as group,
    ):
        longs = [group.create_task(worker_of(front, LONG)) for _ in range(4)]
        async with asyncio.timeout(5):
            while front.serving.state.long_queue.waiting < 3:
                await asyncio.sleep(0.01)
        for _ in range(3):
            assert await worker_of(front, chat("short")) == "w1"
        async with front.http.get(front.url + "/health") as response:
            routing = (await response.json())["routing"]
        assert (routing["long_open"], routing["long_waiting"]) == (1, 3)
        longs[3].cancel()  # who leaves gives up its place in the queue
        async with asyncio.timeout(5):
            while front.serving.state.long_queue.waiting > 2:
                await asyncio.sleep(0.01)
        worker.release.set()
        assert [await it for it in longs[:3]] == ["w1"] * 3
        assert front.serving.state.long_queue.open == 0
    sizes = Counter(len(raw) > 5000 for raw in worker.raw)
    assert sizes == {True: 3, False: 3}


@pytest.mark.parametrize("settings", [{"long_wait_seconds": 0.05}, {"long_waiting": 0}])
async def test_a_long_prompt_that_waits_in_vain_is_shed(
    tmp_path: Path, settings: dict[str, float]
) -> None:
    async with (
        FakeWorker("w1", held) as worker,
        front_of(tmp_path, board_of(worker.view(max_inflight=2)), routing=settings) as front,
        asyncio.TaskGroup() as group,
    ):
        first = group.create_task(worker_of(front, LONG))
        async with asyncio.timeout(5):
            await worker.arrived.wait()
        async with front.post(LONG) as response:
            assert response.status == 503
            assert response.headers["Retry-After"] == "1"
            assert (await response.json())["error"]["code"] == "overloaded"
        worker.release.set()
        assert await first == "w1"
        outcomes = [record.outcome for record in await records(front, 2)]
    assert outcomes == [RequestOutcome.SHED, RequestOutcome.OK]


async def test_new_room_lets_long_prompts_in_at_once(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1", held) as worker,
        front_of(tmp_path, board_of(worker.view(max_inflight=2))) as front,
        asyncio.TaskGroup() as group,
    ):
        longs = [group.create_task(worker_of(front, LONG)) for _ in range(2)]
        async with asyncio.timeout(5):
            while not front.serving.state.long_queue.waiting:
                await asyncio.sleep(0.01)
            front.serving.state.apply(board_of(worker.view(max_inflight=8), version=2))
            while len(worker.raw) < 2:
                await asyncio.sleep(0.01)
        worker.release.set()
        assert [await it for it in longs] == ["w1"] * 2
