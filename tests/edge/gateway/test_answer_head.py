"""An answer whose head is like the connection's last is not parsed, and means what it says."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.gateway.http.answer import AnswerHead, known_head, known_stream
from ds4watch.gateway.http.upstream import WorkerConnection

HEADS = st.sampled_from(
    [
        *(b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK\r\ndate: x", b"HTTP/1.1 201 Made"),
        *(b"HTTP/1.0 200 OK", b"HTTP/1.1 503 Busy", b"HTTP/1.1 204 None", b"HTTP/1.1  200 OK"),
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK",
    ]
)
LINES = st.sampled_from(
    [
        *(b"content-type: a/b", b"content-length: 2", b"Content-Length: 02", b"content-length:2"),
        *(b"content-length: 2 ", b"content-length: +2", b"content-length: 2, 2"),
        *(b"content-length: 2\r\n 2", b"content-length: ", b"content-length: 99999999999999999"),
        *(b"transfer-encoding: chunked", b"connection: close", b"x: content-length: 2"),
        *(b"transfer-encoding : chunked", b"content-type: text/event-stream"),
    ]
)
BODIES = st.sampled_from([b"", b"{}", b"abc", b"0\r\n\r\n", b"2\r\n{}\r\n0\r\n\r\n", b"x" * 300])
AnswerParts = tuple[bytes, list[bytes], bool, bytes, bytes, int]
ANSWERS = st.tuples(
    HEADS,
    st.lists(LINES, max_size=2),
    st.booleans(),
    BODIES,
    st.sampled_from([b"", b"", b"", b"HTTP/1.1 200 OK\r\n", b"\r\n", b"}"]),
    st.integers(0, 2),
)


class Wire(asyncio.Transport):
    """Takes what is written, and throws it away."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False


def bytes_of(answer: AnswerParts) -> bytes:
    first, lines, has_length, body, behind, _ = answer
    told = [*lines, b"content-length: %d" % len(body)] if has_length else lines
    return b"\r\n".join([first, *told, b"", body]) + behind


def connection() -> WorkerConnection:
    made = WorkerConnection()
    made.connection_made(Wire())
    return made


async def heard(asked: WorkerConnection, answer: AnswerParts) -> object:
    """Return what a connection makes of an answer, in as many pieces as it says."""
    raw, cuts = bytes_of(answer), answer[-1]
    waits = asyncio.ensure_future(asked.ask(b"GET / HTTP/1.1\r\n\r\n", b"", 1e9))
    await asyncio.sleep(0)
    size = len(raw) // (cuts + 1) + 1
    for at in range(0, len(raw), size):
        asked.data_received(raw[at : at + size])
    asked.eof_received()
    if not asked.is_whole:
        asked.connection_lost(None)
    try:
        await waits
        body = await asked.read(1 << 20)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other has to raise it too
        return type(error), asked.release()
    # The raw length differs where the head was not parsed; nobody passes it on.
    head = asked.head
    seen = [(name, value) for name, value in head.headers if name.lower() != b"content-length"]
    return head.status, seen, head.is_stream, body, asked.release()


async def compared(answers: list[AnswerParts]) -> None:
    """Have one connection take all answers, each of which another takes as its first."""
    kept = connection()
    for answer in answers:
        if not kept.is_usable:
            kept = connection()
        alone = await heard(connection(), answer)
        assert await heard(kept, answer) == alone


@given(st.lists(ANSWERS, min_size=1, max_size=5), st.sampled_from([1, 2, 3]))
def test_answers_one_after_the_other_mean_what_each_means_alone(
    given: list[AnswerParts], times: int
) -> None:
    asyncio.run(compared([one for one in given for _ in range(times)]))


STREAM_LINES = st.sampled_from(
    [
        *(b"transfer-encoding: chunked", b"Transfer-Encoding: chunked", b"connection: close"),
        *(b"transfer-encoding: gzip, chunked", b"transfer-encoding: chunked\r\n ,x"),
        *(b"content-length: 3", b"date: x", b"trailer: a", b"connection: keep-alive"),
    ]
)
CHUNKED = st.sampled_from(
    [
        *(b"0\r\n\r\n", b"3\r\nabc\r\n0\r\n\r\n", b"3\r\nabc\r\n3;x=y\r\ndef\r\n0\r\n\r\n"),
        *(b"3\r\nabc\r\n", b"3\r\nabcd\r\n0\r\n\r\n", b"0\r\na: b\r\n\r\n", b"abc", b"zz\r\n"),
        b"0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    ]
)
STREAMS = st.tuples(
    st.sampled_from([b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK", b"HTTP/1.0 200 OK"]),
    st.lists(STREAM_LINES, max_size=2).map(
        lambda more: [b"content-type: text/event-stream", *more]
    ),
    st.just(value=False),
    CHUNKED,
    st.just(b""),
    st.integers(0, 2),
)


@given(st.lists(STREAMS | ANSWERS, min_size=1, max_size=4), st.sampled_from([2, 3]))
def test_streams_one_after_the_other_mean_what_each_means_alone(
    given: list[AnswerParts], times: int
) -> None:
    asyncio.run(compared([one for one in given for _ in range(times)]))


def test_a_stream_is_known_again_by_its_head_and_only_if_nothing_else_frames_it() -> None:
    kind, chunked = (b"content-type", b"text/event-stream"), (b"Transfer-Encoding", b"chunked")

    def told(*headers: tuple[bytes, bytes], first: bytes = b"HTTP/1.1 200 OK") -> bool:
        lines = [b"%b: %b" % header for header in headers]
        raw = b"\r\n".join([first, *lines, b"", b"3\r\nabc\r\n"])
        return known_stream(AnswerHead(200, headers), raw) is not None

    assert told(kind, chunked)
    assert not told(kind)
    assert not told(chunked)
    assert not told(kind, chunked, chunked)
    assert not told(kind, chunked, (b"content-length", b"3"))
    assert not told(kind, chunked, (b"Connection", b"close"))
    assert not told(kind, chunked, first=b"HTTP/1.0 200 OK")
    assert not told(kind, chunked, first=b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")


def answer_of(body: bytes, date: bytes = b"d") -> bytes:
    return b"HTTP/1.1 200 OK\r\ndate: %b\r\ncontent-length: %d\r\nx: y\r\n\r\n%b" % (
        *(date, len(body), body),
    )


def test_only_a_whole_answer_with_the_very_same_head_is_known_again() -> None:
    headers = [(b"date", b"d"), (b"content-length", b"2"), (b"x", b"y")]
    known = known_head(AnswerHead(200, headers), answer_of(b"{}"), b"{}")
    assert known is not None
    assert known.body_of(answer_of(b'{"a":1}')) == b'{"a":1}'
    odd = [
        *(answer_of(b"{}", b"e"), answer_of(b""), answer_of(b"{}") + b"}", answer_of(b"{}")[:-1]),
        answer_of(b"{}").replace(b": 2", b": +2"),
        answer_of(b"{}").replace(b": 2", b": 2 "),
        answer_of(b"{}").replace(b"x: y", b"x: y\r\ncontent-length: 3"),
        answer_of(b"{}").replace(b"x: y", b"transfer-encoding: chunked"),
        answer_of(b"{}").replace(b"x: y", b"x: z"),
    ]
    assert [known.body_of(one) for one in odd] == [None] * len(odd)


def test_a_head_with_two_lengths_or_other_framing_is_never_known() -> None:
    for line in ((b"content-length", b"2"), (b"Transfer-Encoding", b"chunked")):
        headers = [(b"date", b"d"), (b"content-length", b"2"), line]
        assert known_head(AnswerHead(200, headers), answer_of(b"{}"), b"{}") is None
    headers = [(b"date", b"d"), (b"content-length", b"2")]
    assert known_head(AnswerHead(503, headers), answer_of(b"{}"), b"{}") is None
    assert known_head(AnswerHead(200, headers), answer_of(b"{}"), b"[]") is None
