"""Slow-loris clients by the hundred, before a gateway that others want to use."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.edge.gateway.processes import CHAT, Gateway, gateway_of, running, sims, until
from tests.edge.gateway.raw import Client, post
from tests.edge.gateway.support import board_of

LORISES = 200
BODY = json.dumps(CHAT).encode()
QUESTIONS = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 100
TIMES = {"head_seconds": 1.0, "body_seconds": 1.0, "idle_seconds": 2.0, "stalled_seconds": 0.5}


@asynccontextmanager
async def lorises(gateway: Gateway, kind: str) -> AsyncIterator[list[Client]]:
    clients = [await gateway.open() for _ in range(LORISES)]
    tasks = [asyncio.create_task(HABITS[kind](client)) for client in clients]
    try:
        yield clients
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in clients:
            client.writer.close()


async def drip(client: Client, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        for at in range(len(data)):
            client.writer.write(data[at : at + 1])
            await client.writer.drain()
            await asyncio.sleep(0.1)


async def drip_a_head(client: Client) -> None:
    await drip(client, post(b"", b"X-Padding: " + b"x" * 4000))


async def drip_a_body(client: Client) -> None:
    client.send(post(BODY)[: -len(BODY)])
    await drip(client, BODY)


async def say_nothing(_client: Client) -> None:
    await asyncio.sleep(60)


async def ask_and_never_read(client: Client) -> None:
    transport = client.writer.transport
    assert isinstance(transport, asyncio.ReadTransport)
    transport.pause_reading()
    with contextlib.suppress(ConnectionError):
        while True:
            client.send(QUESTIONS)
            await client.writer.drain()
            await asyncio.sleep(0.02)


HABITS = {
    "a head byte by byte": drip_a_head,
    "a body byte by byte": drip_a_body,
    "nothing at all": say_nothing,
}


@pytest.mark.parametrize("kind", HABITS)
async def test_others_are_served_meanwhile_and_they_are_closed_in_time(
    tmp_path: Path, kind: str
) -> None:
    async with (
        running(sims(1)) as workers,
        gateway_of(tmp_path, board_of(workers[0].view), clients=TIMES) as gateway,
        aiohttp.ClientSession() as http,
    ):
        before = gateway.files
        async with lorises(gateway, kind):
            await until(lambda: gateway.files >= before + LORISES)
            url = gateway.url + "/v1/chat/completions"
            async with http.post(url, json=CHAT) as response:
                assert response.status == 200
            await until(lambda: gateway.files < before + 10)
        assert (await gateway.health(http))["inflight"] == 0


async def test_who_asks_on_and_on_and_reads_no_answer_fills_no_memory(tmp_path: Path) -> None:
    async with (
        gateway_of(tmp_path, board_of(), clients=TIMES) as gateway,
        aiohttp.ClientSession() as http,
    ):
        asker = await gateway.open()
        asking = asyncio.create_task(ask_and_never_read(asker))
        most = 0
        async with asyncio.timeout(30):
            while not asking.done():  # it ends once it is hung up on
                most = max(most, gateway.rss_bytes)
                assert (await gateway.health(http))["status"] == "ok"
                await asyncio.sleep(0.05)
        asker.writer.close()
        assert most < gateway.rss_bytes + (32 << 20)
