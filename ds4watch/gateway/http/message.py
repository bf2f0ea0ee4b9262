"""A request, the answers to it, and how they look on the wire."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from ds4watch.gateway.http.body import Body
from ds4watch.gateway.http.head import Head
from ds4watch.gateway.http.headers import Headers

if TYPE_CHECKING:
    from ds4watch.gateway.http.connection import ClientConnection

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


class Response(NamedTuple):
    """A whole answer. lines: its headers as they go out, each ended."""

    status: int
    body: bytes = b""
    lines: bytes = b""

    def sent_with(self, date: bytes, closing: bytes, *, has_body: bool) -> bytes:
        """Return all that is sent, with two lines more; the length is told without the body too."""
        status, body, lines = self
        first = status_line(status)
        if status < 200 or status in (204, 304):
            return b"%b%b%b%b\r\n" % (first, lines, date, closing)
        head = (first, lines, date, len(body), closing)
        return b"%b%b%bContent-Length: %d\r\n%b\r\n%b" % (*head, body if has_body else b"")


class Request:
    """A request whose head has come; `body` is there once `read` has returned."""

    __slots__ = ("_body", "_connection", "body", "head", "headers", "method", "path", "query")

    def __init__(self, head: Head, body: Body, connection: ClientConnection) -> None:
        self.head = head
        self.method = head.method
        self.path = head.path
        self.query = head.query
        self.headers: Headers = head.headers
        self.body = b""
        self._body = body
        self._connection = connection

    async def read(self) -> bytes:
        """Return the body. Raises BodyTooLargeError, BrokenBodyError, TimeoutError."""
        self.body = await self._body.read(self._connection.invite_body)
        return self.body

    def read_at_once(self) -> bytes | None:
        """Return the body if it is there already, in one piece and not packed."""
        found = None if self.head.is_packed else self._body.at_once
        if found is not None:
            self.body = found
        return found

    def stream(self, status: int, lines: bytes) -> Stream:
        """Begin an answer whose body comes bit by bit; `lines` are its headers."""
        return self._connection.begin_stream(status, lines)


class Stream:
    """An answer that is being sent. Its head goes out with its first piece, in one write."""

    __slots__ = ("_connection", "_held", "_in_chunks", "is_ended")

    def __init__(self, connection: ClientConnection, head: bytes, *, in_chunks: bool) -> None:
        self._connection = connection
        self._in_chunks = in_chunks
        self._held = head
        self.is_ended = False

    def write(self, data: bytes) -> None:
        """Send a piece; it waits in memory if the client is slow, see `on_flow`."""
        if not data or self.is_ended:
            return
        if self._in_chunks and not self._held:
            self._connection.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            self._connection.write(self._framed(data))

    def hold(self, data: bytes) -> None:
        """Send a piece together with what follows at once: the end, or an error."""
        self._held = self._framed(data)

    def end(self) -> None:
        """Send the end."""
        if not self.is_ended:
            self.is_ended = True
            ending = self._held + b"0\r\n\r\n" if self._in_chunks else self._held
            if ending:
                self._connection.write(ending)

    def _framed(self, data: bytes) -> bytes:
        framed = b"%x\r\n%b\r\n" % (len(data), data) if self._in_chunks else data
        if self._held:
            framed, self._held = self._held + framed, b""
        return framed

    def on_flow(self, told: Callable[[bool], None] | None) -> None:
        """Have `told` called with whether the client keeps up, now if it does not already."""
        self._connection.on_flow(told)


def status_line(status: int) -> bytes:
    """Return the first line of an answer."""
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


def header_line(name: str, value: str) -> bytes:
    """Return the line of a header of ours; what would end it early is taken out."""
    raw = value.encode("utf-8", "replace")
    if b"\r" in raw or b"\n" in raw:
        raw = raw.replace(b"\r", b" ").replace(b"\n", b" ")
    return b"%b: %b\r\n" % (name.encode(), raw)
