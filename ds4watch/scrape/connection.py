"""One kept-alive HTTP/1.1 connection to a target, over httptools' parser."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from typing import NamedTuple, cast

import httptools

from ds4watch.scrape.failures import bad_head, broken, gone, too_large

_MAX_HEAD_BYTES = 1 << 16
_GZIP = 16 + zlib.MAX_WBITS


class Answer(NamedTuple):
    """A page: its body, decompressed, and its Content-Type (empty if it has none)."""

    body: bytes
    content_type: str


class StaleConnectionError(Exception):
    """A connection kept since an earlier answer had been closed: nothing came on it."""


class Connection(asyncio.Protocol):
    """Asks for one page at a time.

    Invariant: once an answer is not as it should be, the connection is aborted, so nothing of one
    answer can be taken for a part of the next. What the target sends is bounded as it comes in.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._future: asyncio.Future[Answer] | None = None
        self._answered = 0
        self._received = 0
        self._max_body_bytes = 0
        self._unzip: _Unzip | None = None
        self._begin_head()

    @property
    def usable(self) -> bool:
        """Whether a page can be asked for."""
        return self._transport is not None

    def ask(self, request: bytes, max_body_bytes: int) -> asyncio.Future[Answer]:
        """Send a request. The future raises ScrapeError, or StaleConnectionError."""
        self._future = self._loop.create_future()
        self._max_body_bytes = max_body_bytes
        self._received = 0
        self._begin_head()
        if self._transport is None:
            self._fail(gone("the connection was closed"))
        else:
            self._transport.write(request)
        return self._future

    def fail(self, error: Exception) -> None:
        """Give up on the answer that is awaited, for a reason from outside."""
        self._fail(error)

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take what came in; a target that speaks unasked is hung up on."""
        if self._future is None:
            self.abort()
            return
        head_room = _MAX_HEAD_BYTES - self._received
        self._received += len(data)
        if self._head_is_done or len(data) <= head_room:
            self._feed(data)
        else:
            self._feed(data[:head_room])
            if self._head_is_done:
                self._feed(data[head_room:])
            else:
                self._fail(broken(f"the answer's head is over {_MAX_HEAD_BYTES} bytes long"))
        # Chunks of a byte each, and trailers, are not in the body but come in all the same.
        if self._received > 2 * self._max_body_bytes + 2 * _MAX_HEAD_BYTES:
            self._fail(too_large("the answer", self._max_body_bytes))

    def eof_received(self) -> bool:
        """Take the end for the body's end where nothing else tells it."""
        if self._future is not None and self._head_is_done and self._ends_with_connection:
            self._complete(keep=False)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Say how far the answer had come."""
        self._transport = None
        if self._future is None:
            return
        if self._received == 0 and self._answered:
            self._fail(StaleConnectionError())
        elif self._received == 0 and exc is not None:
            self._fail(gone("reset the connection instead of an answer: see the target's log"))
        elif self._received == 0:
            self._fail(gone("hung up without an answer: see the target's log"))
        else:
            part = "its body" if self._head_is_done else "its head"
            self._fail(broken(f"the answer broke off in {part}"))

    # -- httptools

    def on_message_begin(self) -> None:
        """Drop a connection on which something follows the answer."""
        if self._future is None:
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note what tells how to read the body; what comes after it does not."""
        if self._head_is_done:
            return
        name = name.lower()
        if name == b"content-type":
            self._content_type = value.decode("latin-1")
        elif name == b"content-encoding":
            self._encoding = value.strip().lower()
        elif name in (b"content-length", b"transfer-encoding"):
            self._ends_with_connection = False

    def on_headers_complete(self) -> None:
        """Refuse what is no metrics page before its body is read."""
        status = self._parser.get_status_code()
        if status < 200 and status != 101:
            return
        self._head_is_done = True
        wrong = bad_head(status, self._content_type)
        if wrong is not None:
            self._fail(wrong)
        elif self._encoding in (b"gzip", b"x-gzip"):
            self._unzip = _Unzip()
        elif self._encoding not in (b"", b"identity"):
            self._fail(broken("the page comes in an encoding that was not asked for"))

    def on_body(self, body: bytes) -> None:
        """Keep a piece, decompressed, unless the page gets too large."""
        if self._future is None:
            return
        if self._unzip is not None:
            try:
                body = self._unzip(body, self._max_body_bytes + 1 - self._size)
            except zlib.error:
                self._fail(broken("the page is not the gzip it claims to be"))
                return
        self._size += len(body)
        self._parts.append(body)
        if self._size > self._max_body_bytes:
            self._fail(too_large("the page", self._max_body_bytes))

    def on_message_complete(self) -> None:
        """Finish, unless it was only an interim answer (1xx)."""
        if not self._head_is_done:
            self._begin_head()
        elif self._future is not None:
            self._complete(keep=self._parser.should_keep_alive())

    # -- within

    def _begin_head(self) -> None:
        self._head_is_done = False
        self._ends_with_connection = True
        self._content_type = ""
        self._encoding = b""
        self._unzip = None
        self._parts: list[bytes] = []
        self._size = 0

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail(broken("the answer is not HTTP: check the address, and http or https"))

    def _complete(self, *, keep: bool) -> None:
        if self._unzip is not None and not self._unzip.is_complete:
            self._fail(broken("the page was cut off: its gzip does not end where the page does"))
            return
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts = []
        self._answered += 1
        self._settle(lambda future: future.set_result(Answer(body, self._content_type)))
        if not keep:
            self.abort()

    def _fail(self, error: Exception) -> None:
        self._parts = []
        self._settle(lambda future: future.set_exception(error))
        self.abort()

    def _settle(self, how: Callable[[asyncio.Future[Answer]], None]) -> None:
        future, self._future = self._future, None
        if future is not None and not future.done():
            how(future)


class _Unzip:
    """Decompresses gzip of one member, never beyond the bytes asked for."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(_GZIP)

    @property
    def is_complete(self) -> bool:
        return self._inner.eof and not self._inner.unused_data

    def __call__(self, data: bytes, max_bytes: int) -> bytes:
        """Return at most `max_bytes`, which is not 0. Raises zlib.error on what is no gzip."""
        return b"" if self._inner.eof else self._inner.decompress(data, max_bytes)
