"""The books against the workers' own counters, over a thousand requests of every kind."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from benchmarks.support.sim_workers import sim_workers
from ds4watch.engine.spool import read_spools
from ds4watch.history.request_sums import RequestSum, SumBy
from ds4watch.history.rows import TickCommit
from ds4watch.history.state import StateStore
from ds4watch.model.usage import RequestOutcome, RequestRecord, Usage
from tests.edge.clock import SystemClock
from tests.edge.gateway.support import (
    CHAT,
    SHELL,
    FakeWorker,
    Front,
    begin,
    board_of,
    delta,
    event,
    front_of,
    records,
)

FAST = ("--decode-tokens-per-second", "4000", "--prefill-tokens-per-second", "4e6")
SLOW_CUT = ("--served-model-name", "cut", "--max-num-seqs", "64")
AT_ONCE = 24
MIXED = 1000
CUT = 40
PROMPT, GENERATED = "vllm:prompt_tokens_total", "vllm:generation_tokens_total"


async def counters(url: str, http: aiohttp.ClientSession) -> dict[str, float]:
    """Return what a worker says it has read and written."""
    async with http.get(url + "/metrics") as response:
        page = await response.text()
    return {
        name: sum(
            float(line.rsplit(" ", 1)[1])
            for line in page.splitlines()
            if line.startswith((name + "{", name + " "))
        )
        for name in (PROMPT, GENERATED)
    }


def mixed(at: int, model: str = "sim") -> tuple[str, dict[str, Any]]:
    """Return the path and body of a request; of ten kinds, three are refused."""
    said = f"number {at} " * (1 + at % 5)
    chat = {"model": model, "messages": [{"role": "user", "content": said}]}
    text = {"model": model, "prompt": said}
    most = {"max_tokens": 2 + at % 6, "ignore_eos": True}
    streamed: dict[str, Any] = {"stream": True}
    if at % 2:
        streamed["stream_options"] = {"include_usage": True}
    kinds: list[dict[str, Any]] = [
        chat | most,
        chat | most | streamed,
        text | most,
        text | most | streamed,
        chat | most | {"n": 3},
        text | most | streamed | {"n": 2},
        text | most | {"prompt": [said, said + "again"], "n": 2},
        text | {"prompt": said * 3000},  # refused by the worker
        chat | most | {"n": 0},  # refused by the gateway
        chat | most | {"model": "nobody's"},
    ]
    body = kinds[at % len(kinds)]
    return ("/v1/completions" if "prompt" in body else "/v1/chat/completions"), body


async def send(front: Front, at: int, model: str = "sim") -> int:
    path, body = mixed(at, model)
    async with front.post(body, path) as response:
        await response.read()
        return int(response.status)


async def cut(front: Front, at: int) -> Usage:
    """Leave in the middle of a stream; return the usage that was told last."""
    body = {
        "model": "cut",
        "messages": [{"role": "user", "content": f"cut {at}"}],
        "max_tokens": 4000,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    seen: dict[str, int] = {}
    response = await front.post(body)
    for _ in range(3 + at % 5):
        event = await response.content.readuntil(b"\n\n")
        seen = json.loads(event[6:])["usage"]
    response.close()
    return Usage(seen["prompt_tokens"], 0, seen["completion_tokens"])


async def booked(state_dir: Path, by: SumBy) -> list[RequestSum]:
    """Book what is in the spool, as the daemon does, and return the sums."""
    store = StateStore.open(state_dir / "state.db", SystemClock(), answer_timeout_seconds=30.0)
    batches = read_spools(state_dir / "spool", {})
    for _ in range(2):  # a second time changes nothing
        await store.commit_tick(TickCommit(at=1.0, spools=batches))
    sums = await store.ledger.request_sums(by, 0.0)
    await store.close()
    return sums


def read_by_workers(found: list[RequestRecord]) -> Usage:
    used = [(it.usage, it.choices) for it in found if it.usage is not None]
    return Usage(
        sum(usage.prompt * choices for usage, choices in used),
        0,
        sum(usage.completion for usage, _ in used),
    )


@pytest.mark.timeout(120)
async def test_a_thousand_mixed_requests_are_booked_as_the_workers_count_them(
    tmp_path: Path,
) -> None:
    async with sim_workers(3, *FAST, *SLOW_CUT) as (w0, w1, w2):
        board = board_of(w0, w1, replace(w2, models=("cut",), profile="slow"))
        async with front_of(tmp_path, board) as front:
            faults = [(w1, "http_500", 0.05), (w2, "slow", 200.0)]
            for worker, fault, value in faults:
                told = {"fault": fault, "on": True, "value": value}
                async with front.http.post(worker.url + "/sim/fault", json=told) as response:
                    assert response.status == 200
            turns = asyncio.Semaphore(AT_ONCE)

            async def one(at: int) -> int:
                async with turns:
                    return await send(front, at)

            statuses, seen = await asyncio.gather(
                asyncio.gather(*(one(at) for at in range(MIXED))),
                asyncio.gather(*(cut(front, at) for at in range(CUT))),
            )
            found = await records(front, MIXED + CUT)
            counts = [await counters(it.url, front.http) for it in (w0, w1, w2)]
    assert statuses.count(200) == MIXED * 7 // 10
    whole = [it for it in found if it.model_served != "cut"]
    assert any(it.retries for it in whole)
    for name, count in zip(("w0", "w1"), counts, strict=False):
        mine = read_by_workers([it for it in whole if it.worker == name])
        assert (mine.prompt, mine.completion) == (count[PROMPT], count[GENERATED])
    assert not any(it.estimated for it in whole)

    left = [it for it in found if it.model_served == "cut"]
    assert len(left) == CUT
    assert all(it.estimated and it.outcome is RequestOutcome.CLIENT_GONE for it in left)
    mine = read_by_workers(left)
    assert mine.prompt == sum(it.prompt for it in seen) == counts[2][PROMPT]
    assert sum(it.completion for it in seen) <= mine.completion <= counts[2][GENERATED]

    by_worker = {it.name: it for it in await booked(tmp_path, SumBy.WORKER)}
    for name, count in zip(("w0", "w1"), counts, strict=False):
        assert by_worker[name].completion_tokens == count[GENERATED]
        assert by_worker[name].worker_prompt_tokens == count[PROMPT]
    assert (by_worker["w2"].estimated, by_worker["w2"].gone) == (CUT, CUT)
    assert sum(it.requests for it in by_worker.values()) == MIXED + CUT
    assert sum(it.refused for it in by_worker.values()) == MIXED * 3 // 10
    lasted = sum(
        it.queue_seconds + it.lost_seconds + it.prefill_seconds + it.decode_seconds
        + it.unsplit_seconds
        for it in by_worker.values()
    )  # fmt: skip
    assert lasted == pytest.approx(sum(it.duration_seconds for it in found))


@pytest.mark.parametrize("deltas", [1, 4])
async def test_a_stream_that_its_worker_cut_is_booked_to_its_last_usage(
    tmp_path: Path, deltas: int
) -> None:
    async def dies(_worker: FakeWorker, request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        for at in range(1, deltas + 1):
            await response.write(delta("x", at))
        assert request.transport is not None
        request.transport.close()
        return response

    async with FakeWorker("w1", dies) as worker, front_of(tmp_path, board_of(worker.view())) as it:
        async with it.post(CHAT | {"stream": True}) as response:
            await response.read()
        (record,) = await records(it)
    assert record.outcome is RequestOutcome.UPSTREAM_ERROR
    assert (record.usage, record.estimated) == (Usage(7, 0, deltas), True)


async def test_case_64_of_a_cut_stream_that_told_no_usage_what_was_delivered_is_booked(
    tmp_path: Path,
) -> None:
    """Cut streams are no cost of 0 (BerriAI/litellm PR#37734, PostHog/posthog-js PR#4664)."""

    async def dies(_worker: FakeWorker, request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        for _ in range(126):
            choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": None}
            await response.write(event({**SHELL, "choices": [choice]}))
        assert request.transport is not None
        request.transport.close()
        return response

    async with FakeWorker("w1", dies) as worker, front_of(tmp_path, board_of(worker.view())) as it:
        async with it.post(CHAT | {"stream": True}) as response:
            await response.read()
        (record,) = await records(it)
    assert record.usage is not None
    assert record.estimated
    assert record.usage.prompt > 0
    assert record.usage.completion == 126


async def test_what_is_booked_says_who_asked_where_it_went_and_how_long_each_part_took(
    tmp_path: Path,
) -> None:
    admission: dict[str, Any] = {"classes": {"batch": {}}}
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view()), admission=admission) as front,
    ):
        for asked in ("batch", "made-up"):
            async with front.post(CHAT | {"stream": True}, headers={"x-ds4-class": asked}) as got:
                await got.read()
        async with front.post(CHAT | {"n": 2}) as got:
            await got.read()
        async with front.post(CHAT | {"model": "nobody's"}) as got:
            await got.read()
        one, other, whole, refused = await records(front, 4)
    assert (one.profile, one.work_class, other.work_class) == ("p", "batch", "")
    assert (one.choices, whole.choices) == (1, 2)
    for record in (one, other):
        stages = record.stages()
        assert stages.queue_seconds > 0
        assert stages.lost_seconds == 0
        assert stages.prefill_seconds > 0
        assert stages.decode_seconds > 0
    assert whole.stages().unsplit_seconds > 0
    assert refused.stages().queue_seconds == refused.duration_seconds
