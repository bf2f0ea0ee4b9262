"""What two servers could read as different requests is read as none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edge.gateway.raw import BODY, PATH, chunked, client_of, post
from tests.edge.gateway.support import FakeWorker, board_of, front_of

CHUNKED = b"Transfer-Encoding: chunked"
HIDDEN = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
HEAD = b"POST %b HTTP/1.1\r\nHost: x\r\n" % PATH
SIZED = HEAD + b"Content-Length: %d\r\n" % len(BODY)


def coded(*lines: bytes, body: bytes = b"") -> bytes:
    return post(body or chunked(BODY), *lines, sized=False)


SMUGGLED = {
    "length and chunks": post(chunked(BODY), CHUNKED),
    "chunks and length": coded(CHUNKED, b"Content-Length: 4"),
    "two lengths": post(BODY, b"Content-Length: 4"),
    "the same length twice": post(BODY, b"Content-Length: %d" % len(BODY)),
    "a list of lengths": HEAD + b"Content-Length: 4, 4\r\n\r\nabcd",
    "a length with a sign": HEAD + b"Content-Length: +4\r\n\r\nabcd",
    "a negative length": HEAD + b"Content-Length: -4\r\n\r\nabcd",
    "a hexadecimal length": HEAD + b"Content-Length: 0x4\r\n\r\nabcd",
    "a length that is none": HEAD + b"Content-Length: \r\n\r\n",
    "an endless length": HEAD + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n",
    "a length with a space in it": HEAD + b"Content-Length: 1 0\r\n\r\nabcd",
    "another coding": coded(b"Transfer-Encoding: identity"),
    "chunks in gzip": coded(b"Transfer-Encoding: gzip, chunked"),
    "chunks, then gzip": coded(b"Transfer-Encoding: chunked, gzip"),
    "chunks twice": coded(CHUNKED, CHUNKED),
    "chunks, quoted": coded(b'Transfer-Encoding: "chunked"'),
    "xchunked": coded(b"Transfer-Encoding: xchunked"),
    "chunks with a vertical tab": coded(b"Transfer-Encoding: \x0bchunked"),
    "chunks in HTTP/1.0": post(chunked(BODY), CHUNKED, sized=False, version=b"1.0"),
    "a space before the colon": coded(b"Transfer-Encoding : chunked"),
    "a tab before the colon": HEAD + b"Content-Length\t: 4\r\n\r\nabcd",
    "a space before the name": HEAD + b" Content-Length: 4\r\n\r\nabcd",
    "a folded header": HEAD + b"X-A: 1\r\n Content-Length: 4\r\n\r\nabcd",
    "a header folded by a tab": SIZED + b"X-A: 1\r\n\tb\r\n\r\n" + BODY,
    "a bare LF between headers": HEAD + b"X-A: 1\nContent-Length: 4\r\n\r\nabcd",
    "bare LFs only": SIZED.replace(b"\r\n", b"\n") + b"\n" + BODY,
    "a bare LF at the end": SIZED + b"\n" + BODY,
    "a bare CR in a value": SIZED + b"X-A: 1\rX-B: 2\r\n\r\n" + BODY,
    "a bare CR before the end": SIZED + b"X-A: 1\r\r\n\r\n" + BODY,
    "NUL in a value": SIZED + b"X-A: \x00\r\n\r\n" + BODY,
    "NUL in a name": SIZED + b"X\x00A: 1\r\n\r\n" + BODY,
    "a name without a colon": SIZED + b"Oops\r\n\r\n" + BODY,
    "an empty name": SIZED + b": 1\r\n\r\n" + BODY,
    "no Host": SIZED.replace(b"Host: x\r\n", b"") + b"\r\n" + BODY,
    "two Hosts": SIZED + b"Host: y\r\n\r\n" + BODY,
    "no address": b"POST  HTTP/1.1\r\nHost: x\r\n\r\n",
    "a space in the address": b"GET /health x HTTP/1.1\r\nHost: x\r\n\r\n",
    "a raw byte in the address": b"GET /h\xe9alth HTTP/1.1\r\nHost: x\r\n\r\n",
    "an address without a slash": b"GET health HTTP/1.1\r\nHost: x\r\n\r\n",
    "a tunnel": b"CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n",
    "no HTTP at all": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "HTTP/2's beginning": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a chunk extension": coded(CHUNKED, body=b"4;a=b\r\nabcd\r\n0\r\n\r\n"),
    "a chunk's size with a space": coded(CHUNKED, body=b"4 \r\nabcd\r\n0\r\n\r\n"),
    "a chunk's size with a sign": coded(CHUNKED, body=b"+4\r\nabcd\r\n0\r\n\r\n"),
    "a chunk's size with 0x": coded(CHUNKED, body=b"0x4\r\nabcd\r\n0\r\n\r\n"),
    "a chunk's size that wraps around": coded(CHUNKED, body=b"10000000000000004\r\nabcd\r\n"),
    "a chunk's size ended by a bare LF": coded(CHUNKED, body=b"4\nabcd\r\n0\r\n\r\n"),
    "a chunk longer than it says": coded(CHUNKED, body=b"3\r\nabcd\r\n0\r\n\r\n"),
    "a chunk ended by a bare LF": coded(CHUNKED, body=b"4\r\nabcd\n0\r\n\r\n"),
    "no size at all": coded(CHUNKED, body=b"\r\nabcd\r\n0\r\n\r\n"),
    "trailers": coded(CHUNKED, body=b"4\r\nabcd\r\n0\r\nContent-Length: 9\r\n\r\n"),
}


@pytest.mark.parametrize("name", SMUGGLED)
async def test_it_is_refused_and_what_follows_is_no_request(tmp_path: Path, name: str) -> None:
    async with FakeWorker("w1") as worker, front_of(tmp_path, board_of(worker.view())) as front:
        async with client_of(front) as client:
            client.send(SMUGGLED[name] + HIDDEN)
            answer = await client.answer()
            assert answer.status in (400, 505)
            assert answer.json()["error"]["message"]
            assert answer.headers["x-request-id"]
            assert answer.headers["connection"] == "close"
            assert await client.is_closed()
        assert worker.raw == []


@pytest.mark.parametrize("name", ["two lengths", "a folded header", "bare LFs only", "trailers"])
async def test_it_is_refused_byte_by_byte_too(tmp_path: Path, name: str) -> None:
    async with FakeWorker("w1") as worker, front_of(tmp_path, board_of(worker.view())) as front:
        async with client_of(front) as client:
            for byte in SMUGGLED[name]:
                client.send(bytes([byte]))
                await client.writer.drain()
            assert (await client.answer()).status == 400
        assert worker.raw == []


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /health HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 40_000, 431),
        (b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"X-A: 1\r\n" * 200 + b"\r\n", 431),
        (b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (post(BODY, b"Expect: a-miracle"), 417),
    ],
)
async def test_too_much_of_a_head_is_refused(
    tmp_path: Path, request_bytes: bytes, status: int
) -> None:
    async with front_of(tmp_path, board_of()) as front, client_of(front) as client:
        client.send(request_bytes)
        answer = await client.answer()
        assert answer.status == status
        assert answer.json()["error"]["code"]
        assert await client.is_closed()


async def test_what_is_well_formed_passes(tmp_path: Path) -> None:
    good = (
        post(BODY),
        post(chunked(BODY), CHUNKED, sized=False),
        post(chunked(BODY[:1], BODY[1:9], BODY[9:]), b"transfer-encoding:CHUNKED", sized=False),
        post(BODY, b"X-Empty:", b"X-Colon: a:b", b"X-Space:  \t a \t "),
        post(BODY, b"Upgrade: h2c", b"Connection: Upgrade"),
        post(BODY).replace(PATH, b"http://somewhere" + PATH),
        b"\r\n" + post(BODY),
    )
    async with FakeWorker("w1") as worker, front_of(tmp_path, board_of(worker.view())) as front:
        for request in good:
            async with client_of(front) as client:
                client.send(request)
                assert (await client.answer()).status == 200
        assert worker.raw == [BODY] * len(good)
