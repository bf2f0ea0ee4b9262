"""Ten times what a gateway may have at once: limits hold, the rest is told when to come back."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.edge.gateway.processes import CHAT, Gateway, gateway_of, running, sims, until
from tests.edge.gateway.support import board_of

pytestmark = pytest.mark.slow

MAX_INFLIGHT = 32
QUEUE = 32
BURST = 10 * (MAX_INFLIGHT + QUEUE)
MOST_GROWTH_BYTES = 48 << 20
SLOW = ("--max-num-seqs", "256", "--decode-tokens-per-second", "8")


async def asked(gateway: Gateway, http: aiohttp.ClientSession, number: int) -> int:
    """Return the status of an answer that is as it should be."""
    url = gateway.url + "/v1/chat/completions"
    async with http.post(url, json=CHAT | {"user": f"u{number}"}) as response:
        told = await response.json()
        if response.status == 503:
            assert int(response.headers["retry-after"]) >= 1
            assert told["error"]["code"] == "overloaded"
            assert "shed=" in response.headers["x-ds4-degraded"]
        return response.status


async def watched(gateway: Gateway, http: aiohttp.ClientSession, seen: list[Any]) -> None:
    while True:
        health = await gateway.health(http)
        seen.append((health["inflight"], gateway.rss_bytes))
        await asyncio.sleep(0.02)


async def test_a_burst_of_ten_times_the_limits_is_shed_and_forgotten(tmp_path: Path) -> None:
    async with running(sims(2, *SLOW)) as workers:
        board = board_of(*(worker.view for worker in workers))
        admission = {"queue_length": QUEUE, "queue_wait_seconds": 5.0}
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            gateway_of(tmp_path, board, max_inflight=MAX_INFLIGHT, admission=admission) as gateway,
            aiohttp.ClientSession(connector=connector) as http,
            aiohttp.ClientSession() as watcher,
        ):
            assert await asked(gateway, http, 0) == 200
            files, rss_bytes = gateway.files, gateway.rss_bytes
            seen: list[tuple[int, int]] = []
            watching = asyncio.create_task(watched(gateway, watcher, seen))
            statuses = Counter(
                await asyncio.gather(*(asked(gateway, http, at) for at in range(BURST)))
            )
            watching.cancel()
            assert set(statuses) == {200, 503}
            assert statuses[200] >= MAX_INFLIGHT + QUEUE
            assert max(inflight for inflight, _ in seen) <= MAX_INFLIGHT
            assert max(rss for _, rss in seen) < rss_bytes + MOST_GROWTH_BYTES
            assert await asked(gateway, http, 0) == 200
            await connector.close()
            await until(lambda: gateway.files <= files + MAX_INFLIGHT)


async def test_more_connections_than_may_be_are_told_so_and_closed(tmp_path: Path) -> None:
    async with (
        gateway_of(tmp_path, board_of(), max_connections=20) as gateway,
        aiohttp.ClientSession() as http,
    ):
        files = gateway.files
        clients = [await gateway.open() for _ in range(20)]
        await until(lambda: gateway.files >= files + 20)
        for _ in range(3):
            late = await gateway.open()
            told = await late.answer()
            assert (told.status, told.headers["retry-after"]) == (503, "1")
            assert told.json()["error"]["message"] == "Too many connections; try again"
            assert await late.is_closed()
            late.writer.close()
        clients.pop().writer.close()
        await until(lambda: gateway.files < files + 20)
        assert (await gateway.health(http))["status"] == "ok"
        flood = [await gateway.open() for _ in range(600)]
        assert gateway.files < files + 400
        for client in [*clients, *flood]:
            client.writer.close()
        await until(lambda: gateway.files < files + 5)
        assert (await gateway.health(http))["status"] == "ok"
        told_once = [it for it in gateway.said if "turned away (connections)" in it]
        assert len(told_once) == 1
