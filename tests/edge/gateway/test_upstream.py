"""Workers that keep, drop and misuse their connections."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ds4watch.gateway.http import pool as pools
from ds4watch.gateway.http.errors import WorkerGoneError
from ds4watch.gateway.http.pool import Pool, origin_of
from ds4watch.model.usage import RequestOutcome
from ds4watch.model.worker import WorkerView
from tests.edge.gateway.support import CHAT, FakeWorker, board_of, dead_worker, front_of, records

GOOD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def heard(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head + await reader.readexactly(length)


@asynccontextmanager
async def talking(talk: Talk) -> AsyncIterator[WorkerView]:
    """Run a worker that treats each connection as `talk` does, and closes it then."""

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield replace(dead_worker("odd"), url=f"http://127.0.0.1:{port}")
    finally:
        server.close()
        await server.wait_closed()


async def test_a_connection_is_used_again(tmp_path: Path) -> None:
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await heard(reader)
            writer.write(GOOD)

    async with talking(talk) as worker, front_of(tmp_path, board_of(worker)) as front:
        for _ in range(5):
            async with front.post(CHAT) as response:
                assert await response.json() == {}
    assert connections == 1


async def test_one_that_the_worker_closed_meanwhile_costs_no_attempt(tmp_path: Path) -> None:
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Promise to stay, answer once, and hang up when asked again."""
        nonlocal connections
        connections += 1
        await heard(reader)
        writer.write(GOOD)
        await heard(reader)

    async with talking(talk) as worker, front_of(tmp_path, board_of(worker)) as front:
        for _ in range(4):
            async with front.post(CHAT) as response:
                assert response.status == 200
                assert response.headers["x-ds4-attempts"] == "1"
        booked = await records(front, 4)
    assert connections == 4
    assert all(record.retries == () for record in booked)


async def test_one_that_was_idle_for_long_is_not_used_again(tmp_path: Path) -> None:
    del tmp_path
    ends = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal ends
        await heard(reader)
        writer.write(GOOD)
        await reader.read()
        ends += 1

    async with talking(talk) as worker:
        pool = Pool(connect_seconds=1, answer_seconds=5)
        origin = origin_of(worker.url)
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
        for _ in range(2):
            connection = await pool.ask(origin, head, b"")
            assert await connection.read(10) == b"{}"
            pool.give_back(origin, connection)
            connection.idle_since -= pools._IDLE_SECONDS
        async with asyncio.timeout(2):
            while ends < 2:
                await asyncio.sleep(0.02)
        pool.close()


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"a" * 200_000,
        b"",
    ],
)
async def test_an_answer_that_is_none_is_a_clear_502(tmp_path: Path, said: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await heard(reader)
        writer.write(said)
        await writer.drain()

    async with (
        talking(talk) as worker,
        front_of(tmp_path, board_of(worker), wake_wait_seconds=0.05) as front,
    ):
        async with front.post(CHAT) as response:
            assert response.status == 502
            assert (await response.json())["error"]["code"] == "upstream_broken"
        (record,) = await records(front)
    assert record.outcome is RequestOutcome.UPSTREAM_ERROR


async def test_what_comes_after_an_answer_is_never_part_of_the_next(tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await heard(reader)
            writer.write(GOOD + GOOD.replace(b"{}", b"[]"))

    async with talking(talk) as worker, front_of(tmp_path, board_of(worker)) as front:
        for _ in range(4):
            async with front.post(CHAT) as response:
                if response.status == 200:
                    assert await response.read() == b"{}"


async def test_an_interim_answer_is_passed_over_and_one_without_length_ends_with_it(
    tmp_path: Path,
) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await heard(reader)
        writer.write(
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nX-A: 1\r\n\r\n{"
        )
        await writer.drain()
        writer.write(b"}")

    async with (
        talking(talk) as worker,
        front_of(tmp_path, board_of(worker)) as front,
        front.post(CHAT) as response,
    ):
        assert await response.read() == b"{}"
        assert (response.headers["x-a"], "link" in response.headers) == ("1", False)


async def test_a_worker_that_never_answers_is_left_in_time(tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del writer
        await heard(reader)
        await reader.read()

    async with (
        talking(talk) as worker,
        front_of(tmp_path, board_of(worker), request_timeout_seconds=0.2, max_attempts=1) as front,
        front.post(CHAT) as response,
    ):
        assert response.status == 504


async def test_tls_workers_must_prove_who_they_are(tmp_path: Path) -> None:
    """Without a certificate that the system trusts, a worker is one that cannot be reached."""
    del tmp_path
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    pool = Pool(connect_seconds=2, answer_seconds=2)
    with pytest.raises(WorkerGoneError):
        await pool.ask(origin_of(f"https://127.0.0.1:{port}"), b"", b"")
    pool.close()
    server.close()


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "127.0.0.1:80", "http://x:99999999"])
async def test_a_worker_without_a_sound_address_is_one_that_cannot_be_reached(
    tmp_path: Path, url: str
) -> None:
    worker = replace(dead_worker("odd"), url=url)
    async with (
        FakeWorker("good") as good,
        front_of(tmp_path, board_of(worker, good.view())) as front,
    ):
        front.choose_first("odd")
        async with front.post(CHAT) as response:
            assert response.status == 200
            assert response.headers["x-ds4-worker"] == "good"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": ["a", "b"], "encoding_format": "float"}),
        ("/v1/score", {"text_1": "a", "text_2": ["b"]}),
        ("/v1/rerank", {"query": "a", "documents": ["b"]}),
        ("/pooling", {"input": "a"}),
        ("/tokenize", {"prompt": "a"}),
        ("/detokenize", {"tokens": [1, 2]}),
        ("/v1/responses", {"input": "hi", "unknown": {"x": None}}),
    ],
)
async def test_other_questions_pass_byte_for_byte_with_their_query(
    tmp_path: Path, path: str, body: dict[str, object]
) -> None:
    answer = b'{ "object":"x",  "usage": {"prompt_tokens": 5, "total_tokens": 5}, "id" : 1}'
    asked: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await heard(reader))
        head = b"HTTP/1.1 200 OK\r\nX-Odd:  a b \r\nContent-Encoding: odd\r\nContent-Length: %d"
        writer.write(head % len(answer) + b"\r\n\r\n" + answer)

    raw = json.dumps({"model": "m", **body}, indent=3).encode()
    async with talking(talk) as worker, front_of(tmp_path, board_of(worker)) as front:
        async with front.post(raw, path + "?a=b%20c") as response:
            assert response.status == 200
            assert await response.read() == answer
            assert response.headers["X-Odd"] == "a b"
            assert response.headers["Content-Encoding"] == "odd"
        (record,) = await records(front)
        async with front.post({"input": 1}, path) as response:
            assert (response.status, (await response.json())["error"]["param"]) == (400, "model")
    assert asked[0].startswith(b"POST %b?a=b%%20c HTTP/1.1\r\n" % path.encode())
    assert asked[0].endswith(b"\r\n\r\n" + raw)
    assert record.usage is not None
    assert (record.usage.prompt, record.path) == (5, path)


async def test_a_responses_stream_passes_as_it_is_and_its_usage_is_booked(tmp_path: Path) -> None:
    def event(kind: str, **more: object) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()

    usage = {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 2}}
    text = event("response.created", response={"usage": None, "error": None})
    text += event("response.output_text.delta", delta="response.completed")
    text += event("response.completed", response={"usage": usage, "error": None})

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await heard(reader)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        writer.write(head + text)

    async with talking(talk) as worker, front_of(tmp_path, board_of(worker)) as front:
        body = {"model": "m", "input": "hi", "stream": True}
        async with front.post(body, "/v1/responses") as response:
            assert await response.read() == text
        (record,) = await records(front)
    assert record.usage is not None
    assert (record.usage.prompt, record.usage.cached, record.usage.completion) == (9, 2, 4)
    assert (record.outcome, record.estimated) == (RequestOutcome.OK, False)
