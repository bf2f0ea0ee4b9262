"""One kept-alive connection to a worker, over httptools' parser."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import cast

import httptools

from ds4watch.gateway.http.answer import (
    SHORT_HEAD,
    AnswerHead,
    KnownHead,
    KnownStream,
    known_head,
    known_stream,
)
from ds4watch.gateway.http.errors import BrokenAnswerError, StaleConnectionError
from ds4watch.gateway.http.peers import watch_peer

_MAX_HEAD_BYTES = 1 << 16
_MAX_UNREAD_BYTES = 1 << 24
"""Of an answer that nobody has begun to read."""

Sink = Callable[[list[bytes]], None]
"""Takes pieces of a body, which it does not keep: mostly one for each chunk that was sent."""

_NO_HEAD = AnswerHead(0, ())


class WorkerConnection(asyncio.Protocol):
    """Asks one thing at a time.

    Invariant: unless an answer was read to its very end, and nothing came after it, the connection
    is aborted: no byte of one answer can be taken for a part of the next.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parts: list[bytes] = []
        self.on_body = self._parts.append  # called by httptools
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._answered = 0
        self._received = 0
        self._is_asked = False
        self._sink: Sink | None = None
        self._max_bytes = _MAX_UNREAD_BYTES
        self._waits_for_end = False
        self._is_held = False
        self._keep_alive = False
        self._ends_with_connection = True
        self._headers: list[tuple[bytes, bytes]] = []
        self._known: KnownHead | None = None
        self._known_stream: KnownStream | None = None
        self._told: AnswerHead | None = None
        """What the head that the parser reads stands for."""
        self._last_head = _NO_HEAD
        self.head = _NO_HEAD
        self.has_head = False
        self.is_whole = False
        self.deadline = 0.0
        """When, by the loop's clock, the answer has taken too long."""
        self.idle_since = 0.0

    @property
    def is_usable(self) -> bool:
        """Whether something can be asked."""
        return self._transport is not None and not self._is_asked

    def ask(self, request: bytes, body: bytes, deadline: float) -> Coroutine[None, None, None]:
        """Send a request; what is returned ends once the answer's head is there.

        Raises StaleConnectionError, BrokenAnswerError, TimeoutError.
        """
        self.has_head = self.is_whole = self._keep_alive = False
        self.head = _NO_HEAD
        self._headers = []
        self._parts.clear()
        self._ends_with_connection = self._is_asked = True
        self._received = 0
        self._max_bytes = _MAX_UNREAD_BYTES
        self.deadline = deadline
        if self._transport is None:
            raise StaleConnectionError("the connection was closed")
        if len(body) < 1 << 16:
            self._transport.write(request + body)
        else:
            self._transport.write(request)
            self._transport.write(body)
        return self._woken(at_end=False)

    def read_at_once(self) -> bytes:
        """Return the body if all of it has come in one piece with its head, else nothing."""
        return self._parts[0] if self.is_whole and len(self._parts) == 1 else b""

    async def read(self, max_bytes: int) -> bytes:
        """Return the whole body. Raises BrokenAnswerError, TimeoutError."""
        self._max_bytes = max_bytes
        await self._woken(at_end=True)
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    async def pump(self, sink: Sink) -> None:
        """Give the body to `sink` as it comes, what came at once together; return at its end.

        What `sink` raises is raised here. Raises BrokenAnswerError, TimeoutError.
        """
        if self._parts:
            self._pour(sink)
        self._sink = sink
        await self._woken(at_end=True)

    def flow(self, is_open: bool) -> None:  # noqa: FBT001 - the one thing that it is told
        """Go on reading, or hold the worker back."""
        if self._transport is not None and not self._transport.is_closing():
            self._is_held = not is_open
            if is_open:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def release(self) -> bool:
        """Be done with the answer; return whether the connection can be used again."""
        is_good = self.is_whole and self._error is None and self._keep_alive
        self._is_asked = False
        self._sink = None
        self._parts.clear()
        if not is_good:
            self.abort()
        elif self._is_held:
            self.flow(True)  # noqa: FBT003 - as above
        return is_good and self._transport is not None

    def fail(self, error: Exception) -> None:
        """Give up on the answer that is awaited."""
        if self._error is None:
            self._error = error
        self.abort()
        self._wake()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        watch_peer(self._transport)

    def data_received(self, data: bytes) -> None:
        """Take what came in; a worker that speaks unasked is hung up on."""
        if not self._is_asked or self.is_whole:
            self._keep_alive = False
            self.abort()
            return
        is_first = not self._received
        self._received += len(data)
        if not (self._begun(data) if is_first else self._parsed(data)):
            return
        if not self.has_head and self._received > _MAX_HEAD_BYTES:
            self.fail(BrokenAnswerError(f"a head of over {_MAX_HEAD_BYTES} bytes"))
        sink = self._sink
        if sink is not None and self._parts:
            self._pour(sink)
        elif self._received > self._max_bytes:
            self.fail(BrokenAnswerError("the answer is too large"))
        if self.is_whole or (self.has_head and not self._waits_for_end):
            self._wake()

    def eof_received(self) -> bool:
        """Take the end for the body's end where nothing else tells it."""
        if self._is_asked and self.has_head and self._ends_with_connection:
            self._keep_alive = False
            self.is_whole = True
            self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Say how far the answer had come."""
        self._transport = None
        if not self._is_asked or self.is_whole or self._error is not None:
            return
        if self._received == 0 and self._answered:
            self.fail(StaleConnectionError("closed before the answer"))
        elif self._received == 0:
            how = "reset the connection" if exc is not None else "hung up"
            self.fail(BrokenAnswerError(f"the worker {how} without an answer"))
        else:
            part = "body" if self.has_head else "head"
            self.fail(BrokenAnswerError(f"the answer broke off in its {part}"))

    def on_message_begin(self) -> None:
        """Stop at a second answer to one question."""
        if self.is_whole:
            raise BrokenAnswerError("more than one answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; trailers come too late."""
        if not self.has_head:
            self._headers.append((name, value))
            if len(name) in (14, 17) and name.lower() in (b"content-length", b"transfer-encoding"):
                self._ends_with_connection = False

    def on_headers_complete(self) -> None:
        """Let the answer be looked at, unless it is only an interim one (1xx)."""
        if self._told is not None:
            self.head, self._told, self.has_head = self._told, None, True
            return
        status = self._parser.get_status_code()
        if status == 101:
            raise BrokenAnswerError("the answer is in another protocol")
        if status >= 200:
            last = self._last_head
            if status != last.status or self._headers != last.headers:
                last = self._last_head = AnswerHead(status, self._headers)
            self.head = last
            self.has_head = True

    def on_message_complete(self) -> None:
        """Note the end of the answer."""
        if not self.has_head:
            self._headers = []
            return
        self._keep_alive = self._parser.should_keep_alive()
        self._answered += 1
        self.is_whole = True

    def _begun(self, data: bytes) -> bool:
        """Take the first piece of an answer; return False if there is nothing left to do."""
        known, stream = self._known, self._known_stream
        if known is not None and (body := known.body_of(data)) is not None:
            self._take_whole(known.head, body)
            return False
        if stream is not None and data.startswith(stream.raw):
            self._told = stream.head
            return self._parsed(SHORT_HEAD + data[len(stream.raw) :])
        if not self._parsed(data):
            return False
        self._learn(data)
        return True

    def _parsed(self, data: bytes) -> bool:
        """Have the parser read; return False if that was the end of it."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.fail(BrokenAnswerError("the answer is in another protocol"))
            return False
        except httptools.HttpParserError:
            self._keep_alive = False
            if not self.is_whole:  # else it is only what came behind the answer
                self.fail(BrokenAnswerError("the answer is not HTTP"))
                return False
        return True

    def _take_whole(self, head: AnswerHead, body: bytes) -> None:
        """Take an answer whose head is known; the parser, between two answers, sees none of it."""
        self.head = head
        self._parts.append(body)
        self._answered += 1
        self._keep_alive = self.has_head = self.is_whole = True
        self._ends_with_connection = False
        self._wake()

    def _learn(self, data: bytes) -> None:
        """Note what to know this answer's head by, if all of it has come and all is well."""
        if self._error is not None or not self.has_head:
            return
        self._known_stream = known_stream(self.head, data) or self._known_stream
        is_good = self.is_whole and self._keep_alive and len(self._parts) == 1
        self._known = known_head(self.head, data, self._parts[0]) if is_good else None

    def _pour(self, sink: Sink) -> None:
        try:
            sink(self._parts)
        except Exception as error:  # noqa: BLE001 - it is raised again where the sink comes from
            self.fail(error)
        self._parts.clear()

    async def _woken(self, *, at_end: bool) -> None:
        """Return once the answer's head, or its end, is there; raise what made it fail."""
        self._waits_for_end = at_end
        if self._error is None and not (self.is_whole if at_end else self.has_head):
            self._waiter = self._loop.create_future()
            await self._waiter
        if self._error is not None:
            raise self._error

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)
