"""The real daemon's end and several real gateway processes: a policy reaches each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp

from ds4watch.fleet.board import BoardPublisher
from ds4watch.model.service_policy import Limits, ServicePolicy
from ds4watch.model.worker import FleetSnapshot
from tests.edge.clock import SystemClock
from tests.edge.gateway.support import CHAT, FakeWorker
from tests.edge.gateway.test_process import gateway_process, url_of

PROCESSES = 4


@asynccontextmanager
async def gateways(state: Path, publisher: BoardPublisher) -> AsyncIterator[list[str]]:
    async with AsyncExitStack() as stack:
        processes = [
            await stack.enter_async_context(gateway_process(state, name=f"g{number}"))
            for number in range(PROCESSES)
        ]
        urls = [await url_of(process) for process in processes]
        assert await publisher.connected(PROCESSES, timeout_seconds=20)
        yield urls


async def degraded_at(http: aiohttp.ClientSession, url: str) -> str | None:
    async with http.post(url + "/v1/chat/completions", json=CHAT) as response:
        assert response.status == 200
        return response.headers.get("x-ds4-degraded")


async def test_once_a_policy_is_acknowledged_every_gateway_obeys_it(tmp_path: Path) -> None:
    tight = ServicePolicy(version=1, level=1, limits=Limits(max_tokens_cap=8))
    async with (
        FakeWorker("w1") as worker,
        aiohttp.ClientSession() as http,
        BoardPublisher(tmp_path, SystemClock(), policy=ServicePolicy()) as publisher,
        gateways(tmp_path, publisher) as urls,
    ):
        publisher.publish_fleet(FleetSnapshot(0.0, (worker.view(),)))
        for version in range(1, 6):
            cap = version * 8
            policy = replace(tight, version=version, limits=Limits(max_tokens_cap=cap))
            assert await publisher.publish_policy(policy, timeout_seconds=20)
            told = await asyncio.gather(*(degraded_at(http, url) for url in urls))
            assert told == [f"level=1;max_tokens={cap}"] * PROCESSES
        back = replace(tight, version=9, level=0, limits=Limits())
        assert await publisher.publish_policy(back, timeout_seconds=20)
        assert [await degraded_at(http, url) for url in urls] == [None] * PROCESSES
