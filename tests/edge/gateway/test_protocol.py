"""The gateway's HTTP, as clients of all kinds meet it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from ds4watch.gateway.http.connection import ClientConnection
from ds4watch.gateway.http.message import Request, Response
from ds4watch.gateway.http.parties import Bounds
from ds4watch.gateway.http.server import HttpServer
from ds4watch.model.usage import RequestOutcome
from tests.edge.gateway.raw import BODY, PATH, Client, chunked, client_of, post
from tests.edge.gateway.support import (
    CHAT,
    DONE,
    FakeWorker,
    answer,
    begin,
    board_of,
    delta,
    front_of,
    records,
)

STREAM = json.dumps(CHAT | {"stream": True}).encode()


async def test_one_connection_serves_many_requests(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
        client_of(front) as client,
    ):
        for body in (BODY, STREAM, BODY):
            client.send(post(body))
            told = await client.answer()
            assert told.status == 200
            assert "connection" not in told.headers
            assert told.headers["date"].endswith("GMT")


async def test_requests_sent_ahead_are_answered_in_order(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
        client_of(front) as client,
    ):
        ids = [f"id-{at}" for at in range(5)]
        parts = [post(BODY if at % 2 else STREAM, b"X-Request-Id: %b" % one.encode())
                 for at, one in enumerate(ids)]  # fmt: skip
        client.send(b"".join(parts))
        assert [(await client.answer()).headers["x-request-id"] for _ in ids] == ids


async def test_a_client_that_sends_megabytes_ahead_is_answered_once_and_left(
    tmp_path: Path,
) -> None:
    async def waits(worker: FakeWorker, request: web.Request) -> web.StreamResponse:
        await worker.release.wait()
        return await answer(worker, request)

    async with (
        FakeWorker("w1", waits) as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
        client_of(front) as client,
    ):
        client.send(post(BODY))
        await worker.arrived.wait()
        client.send(post(BODY) * 2000)
        await client.writer.drain()
        worker.release.set()
        told = await client.answer()
        assert (told.status, told.headers["connection"]) == (200, "close")
        assert await client.is_closed()
        assert len(worker.raw) == 1


async def test_bytes_cut_anywhere_make_the_same_request(tmp_path: Path) -> None:
    request = post(chunked(BODY[:7], BODY[7:]), b"Transfer-Encoding: chunked", sized=False)
    async with FakeWorker("w1") as worker, front_of(tmp_path, board_of(worker.view())) as front:
        async with client_of(front) as client:
            for byte in request:
                client.send(bytes([byte]))
                await client.writer.drain()
            assert (await client.answer()).status == 200
        assert worker.raw == [BODY]


async def test_http_1_0_gets_its_answer_and_the_end_of_the_connection(tmp_path: Path) -> None:
    async with FakeWorker("w1") as worker, front_of(tmp_path, board_of(worker.view())) as front:
        async with client_of(front) as client:
            client.send(post(BODY, version=b"1.0"))
            told = await client.answer()
            assert (told.status, told.headers["connection"]) == (200, "close")
            assert await client.is_closed()
        async with client_of(front) as client:
            client.send(post(STREAM, version=b"1.0"))
            told = await client.answer()
            assert "transfer-encoding" not in told.headers
            text = await client.reader.read()
            assert text.endswith(b"data: [DONE]\n\n")
        async with client_of(front) as client:
            for _ in range(2):
                client.send(post(BODY, b"Connection: keep-alive", version=b"1.0"))
                assert (await client.answer()).headers["connection"] == "keep-alive"


@pytest.mark.parametrize(
    ("line", "version"), [(b"Connection: close", b"1.1"), (b"X-A: b", b"1.0"), (b"X-A: b", b"1.1")]
)
@pytest.mark.parametrize("there", [0, 5])
async def test_the_body_of_the_last_request_is_heard_to_its_end(
    line: bytes, version: bytes, there: int
) -> None:
    """As urllib, ab, and nginx as it is by default send it: the head, and then the body."""
    begun = asyncio.Event()

    async def handler(request: Request) -> Response:
        begun.set()
        return Response(200, await request.read())

    def refuse(status: int, message: str, code: str) -> Response:
        return Response(status, f"{code}: {message}".encode())

    server = HttpServer(handler, refuse, Bounds(1000), lambda: None)
    port = await server.start("127.0.0.1", 0)
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    request = post(BODY, line, version=version)
    cut = len(request) - len(BODY) + there
    client.send(request[:cut])
    await begun.wait()
    for connection in connections_of(server):
        connection.finish()  # as a gateway does that drains
    client.send(request[cut:])
    told = await client.answer()
    assert (told.status, told.headers["connection"], told.body) == (200, "close", BODY)
    assert await client.is_closed()
    client.writer.close()
    await server.close(1)


async def test_a_client_that_asks_before_it_sends_is_told_to_go_on(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
        client_of(front) as client,
    ):
        request = post(BODY, b"Expect: 100-continue")
        client.send(request[: -len(BODY)])
        assert (await client.answer()).status == 100
        client.send(BODY)
        assert (await client.answer()).status == 200


async def test_a_body_too_large_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    async with front_of(tmp_path, board_of(), max_body_bytes=1024) as front:
        async with client_of(front) as client:
            client.send(post(b"x" * 2000, b"Expect: 100-continue")[:-2000])
            told = await client.answer()
            assert (told.status, told.headers["connection"]) == (413, "close")
            assert await client.is_closed()
        async with client_of(front) as client:  # told, though it sends all the same
            client.send(post(b"x" * 5_000_000))
            told = await client.answer()
            assert told.json()["error"]["code"] == "request_too_large"
        async with client_of(front) as client:
            chunks = chunked(*[b"x" * 100] * 20)
            client.send(post(chunks, b"Transfer-Encoding: chunked", sized=False))
            assert (await client.answer()).status == 413


async def test_head_and_options_are_answered_without_a_body(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
        client_of(front) as client,
    ):
        client.send(b"HEAD /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
        told = await client.answer(has_body=False)
        assert (told.status, int(told.headers["content-length"]) > 10) == (200, True)
        client.send(b"OPTIONS %b HTTP/1.1\r\nHost: x\r\n\r\n" % PATH)
        told = await client.answer(has_body=False)
        assert (told.status, told.headers["allow"]) == (204, "POST, OPTIONS")
        assert "content-length" not in told.headers
        client.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.answer()).status == 200


async def serve(bounds: Bounds) -> tuple[HttpServer, Client]:
    async def handler(request: Request) -> Response:
        return Response(200, await request.read())

    def refuse(status: int, message: str, code: str) -> Response:
        return Response(status, f"{code}: {message}".encode())

    server = HttpServer(handler, refuse, bounds, lambda: None)
    port = await server.start("127.0.0.1", 0)
    return server, Client(*await asyncio.open_connection("127.0.0.1", port))


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", None),
        (b"POST / HTTP/1.1\r\nHost: x\r\nX-A:", 408),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", 500),
        (post(b"abc"), 200),
    ],
)
async def test_who_sends_too_slowly_is_cut_off(sent: bytes, status: int | None) -> None:
    bounds = Bounds(100, head_seconds=0.1, body_seconds=0.1, idle_seconds=0.1)
    server, client = await serve(bounds)
    client.send(sent)
    if status is not None:
        assert (await client.answer()).status == status
    assert await client.is_closed()
    client.writer.close()
    await server.close(1)


async def test_who_drips_a_head_is_cut_off_though_something_always_comes() -> None:
    server, client = await serve(Bounds(100, head_seconds=0.3))
    async with asyncio.timeout(5):
        while not client.reader.at_eof():
            client.send(b"X")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(client.reader.read(1 << 16), 0.02)
    client.writer.close()
    await server.close(1)


async def test_who_takes_nothing_of_its_answer_is_cut_off(tmp_path: Path) -> None:
    async def handler(_request: Request) -> Response:
        return Response(200, b"x" * 50_000_000)

    def refuse(status: int, message: str, code: str) -> Response:
        return Response(status, f"{code}: {message}".encode())

    del tmp_path
    server = HttpServer(handler, refuse, Bounds(100, stalled_seconds=0.2), lambda: None)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", await server.start("127.0.0.1", 0), limit=1 << 10
    )
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(10):
        while not connections_of(server):
            await asyncio.sleep(0.01)
        while connections_of(server):
            await asyncio.sleep(0.05)
    del reader
    writer.close()
    await server.close(1)


def connections_of(server: HttpServer) -> set[ClientConnection]:
    return server._connections


async def test_a_fault_of_our_own_is_a_500_and_the_next_request_is_served() -> None:
    async def handler(request: Request) -> Response:
        if request.path == "/fails":
            raise RuntimeError(request.path)
        return Response(200, b"ok")

    def refuse(status: int, message: str, code: str) -> Response:
        return Response(status, f"{code}: {message}".encode())

    server = HttpServer(handler, refuse, Bounds(100), lambda: None)
    port = await server.start("127.0.0.1", 0)
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    for path, status in (("/fails", 500), ("/", 200)):
        client.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert (await client.answer()).status == status
    client.writer.close()
    await server.close(1)


async def test_a_drain_ends_connections_with_their_answers(tmp_path: Path) -> None:
    async def waits(worker: FakeWorker, request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        await response.write(delta("a", 1))
        await worker.release.wait()
        await response.write(DONE)
        return response

    async def leave(front: Any, stack: Any) -> None:
        del front
        await stack.__aexit__(None, None, None)

    async with FakeWorker("w1", waits) as worker:
        context = front_of(tmp_path, board_of(worker.view()), drain_seconds=10.0)
        front = await context.__aenter__()
        async with client_of(front) as idle, client_of(front) as client:
            idle.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await idle.answer()).status == 200
            client.send(post(STREAM))
            await worker.arrived.wait()
            leaving = asyncio.create_task(leave(front, context))
            async with asyncio.timeout(5):
                while not front.serving.state.draining:
                    await asyncio.sleep(0.01)
            idle.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            told = await idle.answer()
            assert (told.status, told.headers["connection"]) == (503, "close")
            worker.release.set()
            assert (await client.answer()).body.endswith(b"data: [DONE]\n\n")
            assert await client.is_closed()
            await leaving


async def test_a_client_that_leaves_in_its_body_leaves_nothing_behind(tmp_path: Path) -> None:
    async with FakeWorker("w1") as worker, front_of(tmp_path, board_of(worker.view())) as front:
        async with client_of(front) as client:
            client.send(post(BODY)[:-5])
            await client.writer.drain()
        (record,) = await records(front)
        assert record.outcome is RequestOutcome.CLIENT_GONE
        assert worker.raw == []
        assert front.serving.state.inflight.total == 0
