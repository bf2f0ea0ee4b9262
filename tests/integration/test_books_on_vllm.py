"""The books against the counters of a real vLLM: equal, token by token, for what was not cut."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ds4watch.model.usage import RequestOutcome, Usage
from ds4watch.model.worker import WorkerPhase, WorkerView
from tests.edge.gateway.support import Front, board_of, front_of, records
from tests.edge.gateway.test_books import (
    GENERATED,
    PROMPT,
    counters,
    mixed,
    read_by_workers,
)
from tests.integration.workers import RealWorker

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

MIXED, CUT, AT_ONCE = 1010, 10, 16
SETTLE_SECONDS = 2.0


async def settled(url: str, http: aiohttp.ClientSession) -> dict[str, float]:
    """Return the counters once they stand still: vLLM counts a moment after it answers."""
    before = await counters(url, http)
    while True:
        await asyncio.sleep(SETTLE_SECONDS)
        now = await counters(url, http)
        if now == before:
            return now
        before = now


async def send_all(front: Front) -> list[int]:
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(at: int) -> int:
        path, body = mixed(at, "tiny")
        async with turns, front.post(body, path) as response:
            await response.read()
            return int(response.status)

    return await asyncio.gather(*(one(at) for at in range(MIXED)))


async def cut(front: Front, at: int) -> None:
    body: dict[str, Any] = {"model": "tiny", "prompt": f"cut {at}", "max_tokens": 4000}
    response = await front.post(body | {"ignore_eos": True, "stream": True}, "/v1/completions")
    for _ in range(3 + at % 5):
        await response.content.readuntil(b"\n\n")
    response.close()


async def test_over_a_thousand_mixed_requests_are_booked_as_vllm_counts_them(
    tmp_path: Path, real_workers: Mapping[str, RealWorker]
) -> None:
    url = real_workers["tiny-full"].url
    worker = WorkerView("w1", "tiny-full", ("tiny-full", "tiny"), url, WorkerPhase.READY, since=1.0)
    async with front_of(tmp_path, board_of(worker), request_timeout_seconds=120.0) as front:
        before = await settled(url, front.http)
        statuses = await send_all(front)
        after = await settled(url, front.http)
        await asyncio.gather(*(cut(front, at) for at in range(CUT)))
        end = await settled(url, front.http)
        found = await records(front, MIXED + CUT)
    assert statuses.count(200) == MIXED * 7 // 10
    whole, left = found[:MIXED], found[MIXED:]
    used = read_by_workers(whole)
    grown = Usage(int(after[PROMPT] - before[PROMPT]), 0, int(after[GENERATED] - before[GENERATED]))
    assert used == grown
    assert not any(it.estimated for it in whole)
    assert all(it.estimated and it.outcome is RequestOutcome.CLIENT_GONE for it in left)
    used = read_by_workers(left)
    assert used.prompt == end[PROMPT] - after[PROMPT]
    assert 0 < used.completion <= end[GENERATED] - after[GENERATED]
