"""Twenty thousand requests of all kinds: a gateway then holds what it held after the first ones."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ds4watch.model.worker import WorkerPhase, WorkerView
from tests.edge.gateway.processes import Gateway, free_ports, gateway_of, until_true
from tests.edge.gateway.raw import Client, chunked, post
from tests.edge.gateway.support import CHAT, board_of

pytestmark = pytest.mark.slow

CLIENTS = 24
WARM_UP = 5_000
MEASURED = 15_000
MOST_GROWTH_BYTES = 12 << 20
MOST_OBJECTS = 3_000
KEPT_FILES = 2 * CLIENTS
"""Connections to workers, as many as were open at once."""
MODELS = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def canned_workers(*modules: str) -> AsyncIterator[list[WorkerView]]:
    ports = free_ports(len(modules))
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-m", module, str(port))
        for module, port in zip(modules, ports, strict=True)
    ]
    try:
        for port in ports:
            await until_true(lambda port=port: listens(port))  # type: ignore[misc]
        yield [
            WorkerView(f"w{at}", "p", ("m",), f"http://127.0.0.1:{port}", WorkerPhase.READY, 1.0)
            for at, port in enumerate(ports)
        ]
    finally:
        for process in processes:
            process.kill()
            await process.wait()


async def listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def body_of(number: int, **more: Any) -> bytes:
    told = [{"role": "user", "content": f"question {number}: " + "why " * (number % 50)}]
    return json.dumps(CHAT | {"messages": told} | more).encode()


class Visitor:
    """A client that does all kinds of things, over one connection while that lasts."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._client: Client | None = None
        self.statuses: set[int] = set()

    async def visit(self, number: int) -> None:
        client = self._client = self._client or await self._gateway.open()
        kind, body = number % 20, body_of(number)
        stream = post(body_of(number, stream=True))
        if kind in (0, 1, 2, 3):
            await self._ask(client, stream)
        elif kind == 4:  # gone in the middle of the stream
            client.send(stream)
            await client.reader.readuntil(b"data: ")
            self.leave()
        elif kind == 5:  # gone before the answer
            client.send(post(body))
            self.leave()
        elif kind == 6:  # gone in the body
            client.send(post(body)[:-9])
            self.leave()
        elif kind in ODD:
            await self._ask(client, ODD[kind])
        else:
            await self._ask(client, post(body))

    def leave(self) -> None:
        if self._client is not None:
            self._client.writer.transport.abort()
            self._client = None

    async def _ask(self, client: Client, request: bytes) -> None:
        client.send(request)
        answer = await client.answer()
        self.statuses.add(answer.status)
        if answer.headers.get("connection") == "close":
            self.leave()


ODD = {
    7: post(b'{"model": "m", "messages": '),
    8: post(b'{"model": "nobody", "messages": [{"role": "user", "content": "a"}]}'),
    9: MODELS,
    10: b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n",
    11: post(chunked(b"{}"), b"Transfer-Encoding: chunked"),
    12: b"nonsense\r\n\r\n",
}


async def visits(gateway: Gateway, numbers: Iterator[int]) -> set[int]:
    visitor = Visitor(gateway)
    for number in numbers:
        await visitor.visit(number)
    visitor.leave()
    return visitor.statuses


async def soaked(gateway: Gateway, numbers: range) -> set[int]:
    """Have so many visits made; return all statuses."""
    shared = iter(numbers)
    found = await asyncio.gather(*(visits(gateway, shared) for _ in range(CLIENTS)))
    return set(itertools.chain.from_iterable(found))


async def test_nothing_is_left_of_twenty_thousand_requests(tmp_path: Path) -> None:
    modules = ("benchmarks.support.canned_worker", "tests.edge.gateway.flaky_worker")
    async with canned_workers(*modules) as workers, gateway_of(tmp_path, board_of(*workers)) as it:
        await soaked(it, range(WARM_UP))
        before = await it.held()
        statuses = await soaked(it, range(WARM_UP, WARM_UP + MEASURED))
        await asyncio.sleep(0.5)  # for those who left to be noticed
        after = await it.held()
        print(before, after)
        assert statuses <= {200, 400, 404, 502}
        assert {200, 400, 404} <= statuses
        assert after.tasks <= before.tasks
        assert after.files <= before.files + KEPT_FILES
        assert after.objects < before.objects + MOST_OBJECTS
        assert after.rss_bytes < before.rss_bytes + MOST_GROWTH_BYTES
