"""A worker that answers chat completions from memory, so that a gateway is all that is measured.

python -m benchmarks.support.canned_worker PORT

One completion of the usual length, or the same as a stream: each event in a chunk and a write of
its own, as vLLM sends them. Anything that is no POST gets a list of models, which is also what
routers ask to see whether a worker is well.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import cast

import uvloop

EVENTS = 16
_USAGE = {
    "prompt_tokens": 24,
    "total_tokens": 24 + EVENTS,
    "completion_tokens": EVENTS,
    "prompt_tokens_details": None,
}
_SHELL = {"id": "chatcmpl-1", "created": 1, "model": "m"}


def _head(kind: bytes, length: bytes) -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\ndate: Mon, 01 Jan 2024 00:00:00 GMT\r\nserver: uvicorn\r\n"
        b"content-type: " + kind + b"\r\n" + length + b"\r\n\r\n"
    )


def _whole(body: object) -> bytes:
    raw = json.dumps(body, separators=(",", ":")).encode()
    return _head(b"application/json", b"content-length: %d" % len(raw)) + raw


def _event(data: object) -> bytes:
    raw = b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(raw), raw)


def _delta(at: int, *, has_usage: bool) -> bytes:
    choice = {"index": 0, "delta": {"content": " word"}, "logprobs": None, "finish_reason": None}
    told = {**_SHELL, "object": "chat.completion.chunk", "choices": [choice]}
    running = {**_USAGE, "total_tokens": 24 + at, "completion_tokens": at}
    return _event({**told, "usage": running} if has_usage else told)


def _stream(*, has_usage: bool) -> list[bytes]:
    """Return what is written one after the other."""
    parts = [_head(b"text/event-stream; charset=utf-8", b"transfer-encoding: chunked")]
    parts += [_delta(at + 1, has_usage=has_usage) for at in range(EVENTS)]
    if has_usage:
        last = {**_SHELL, "object": "chat.completion.chunk", "choices": [], "usage": _USAGE}
        parts.append(_event(last))
    return [*parts, b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"]


_MODELS = _whole({"object": "list", "data": [{"id": "m", "object": "model"}]})
_MESSAGE = {"role": "assistant", "content": " word" * EVENTS}
_CHOICE = {"index": 0, "message": _MESSAGE, "logprobs": None, "finish_reason": "stop"}
_CHAT = _whole({**_SHELL, "object": "chat.completion", "choices": [_CHOICE], "usage": _USAGE})
_STREAMS = {True: _stream(has_usage=True), False: _stream(has_usage=False)}


class CannedWorker(asyncio.Protocol):
    """Trusts its clients: a request is whole once its Content-Length or last chunk is there."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._data = self._data + data if self._data else data
        head, found, body = self._data.partition(b"\r\n\r\n")
        if not found:
            return
        lower = head.lower()
        at = lower.find(b"content-length:")
        if at >= 0:
            if len(body) < int(lower[at + 15 :].split(b"\r\n", 1)[0]):
                return
        elif b"transfer-encoding: chunked" in lower and not body.endswith(b"0\r\n\r\n"):
            return
        self._data = b""
        self._answer(is_post=head.startswith(b"POST"), body=body)

    def _answer(self, *, is_post: bool, body: bytes) -> None:
        assert self._transport is not None
        if not is_post:
            self._transport.write(_MODELS)
        elif b'"stream":true' in body or b'"stream": true' in body:
            self._next(iter(_STREAMS[b"include_usage" in body]))
        else:
            self._transport.write(_CHAT)

    def _next(self, parts: object) -> None:
        assert self._transport is not None
        part = next(parts, None)  # type: ignore[call-overload]
        if part is not None and not self._transport.is_closing():
            self._transport.write(part)
            self._loop.call_soon(self._next, parts)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(CannedWorker, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(int(sys.argv[1])))
