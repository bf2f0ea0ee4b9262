"""One client's connection: requests taken in one after the other, answers sent in that order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from ds4watch.gateway.http.body import Body
from ds4watch.gateway.http.errors import BadRequestError
from ds4watch.gateway.http.head import MAX_HEAD_BYTES, Head, HeadReader, check_part
from ds4watch.gateway.http.message import Request, Response, Stream, status_line
from ds4watch.gateway.http.parties import Bounds, Handler, Owner, Refuser
from ds4watch.gateway.http.turns import Turns

log = logging.getLogger(__name__)

_MAX_AHEAD_BYTES = 1 << 16
_LINGER_SECONDS = 2.0
_MAX_LINGER_BYTES = 1 << 24
_WRITE_HIGH_BYTES = 1 << 18


class ClientConnection(asyncio.Protocol):
    """Reads ahead no further than a bound, and never stops reading: who leaves is noticed at once.

    Invariant: once a request is not as it should be, nothing that follows on the connection is
    read as a request.
    """

    def __init__(self, owner: Owner, handler: Handler, refuse: Refuser, bounds: Bounds) -> None:
        self._owner = owner
        self._handler = handler
        self._refuse = refuse
        self._bounds = bounds
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._ahead = b""
        """What came and belongs to no request yet."""
        self._heads = HeadReader()
        self._head: Head | None = None
        self._body: Body | None = None
        self._turns = Turns()
        self._stream: Stream | None = None
        self._flow: Callable[[bool], None] | None = None
        self._is_slow = False
        self._is_closing = False
        """No further request is read; what comes is thrown away until the client is gone."""
        self._lingered = 0
        self._unsent = 0
        self._deadline = self._loop.time() + bounds.idle_seconds
        self._is_overdue = self._has_begun_head = False

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        """Take what came in."""
        body = self._body
        if body is not None and not body.is_whole and not body.has_failed:
            data = body.feed(data)  # also of the last request, after which is closed
            if body.has_failed:
                self._is_closing = True
                return
        if self._is_closing:
            self._throw_away(data)
            return
        if self._turns.request is not None or self._is_slow:
            self._keep_ahead(data)
        elif data:
            self._ahead = self._ahead + data if self._ahead else data
            self._next_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop working for a client that has left."""
        del exc
        self._transport = None
        self._flow = None
        self._owner.closed(self)
        self._turns.end()

    def pause_writing(self) -> None:
        """Note that the client does not keep up."""
        self._is_slow, self._unsent = True, -1
        self._deadline = self._loop.time() + self._bounds.stalled_seconds
        if self._flow is not None:
            self._flow(False)  # noqa: FBT003 - the one thing that it is told

    def resume_writing(self) -> None:
        """Note that the client has caught up; what it asked meanwhile has waited for that."""
        self._is_slow = False
        is_parting = self._is_closing and self._turns.request is None
        seconds = _LINGER_SECONDS if is_parting else self._bounds.idle_seconds
        self._deadline = self._loop.time() + seconds
        if self._flow is not None:
            self._flow(True)  # noqa: FBT003 - the one thing that it is told
        elif self._turns.request is None and self._ahead:
            self._next_request()

    # -- for the request that is being answered

    def write(self, data: bytes) -> None:
        """Send bytes of an answer; nothing once the client is gone."""
        if self._transport is not None:
            self._transport.write(data)

    def invite_body(self) -> None:
        """Say that the body is wanted, if the client waits to be told, and bound its time."""
        self._deadline = self._loop.time() + self._bounds.body_seconds
        if self._head is not None and self._head.expects_continue:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def begin_stream(self, status: int, lines: bytes) -> Stream:
        """Begin an answer in pieces."""
        in_chunks = self._head is not None and not self._head.is_http_10
        if not in_chunks:
            self._is_closing = True  # its end is that of the connection
        coding = b"Transfer-Encoding: chunked\r\n" if in_chunks else b""
        parts = (status_line(status), lines, self._owner.date, coding, self._closing_line())
        self._stream = Stream(self, b"%b%b%b%b%b\r\n" % parts, in_chunks=in_chunks)
        return self._stream

    def on_flow(self, told: Callable[[bool], None] | None) -> None:
        """Have `told` called whenever the client falls behind or has caught up."""
        self._flow = told
        if told is not None and self._is_slow:
            told(False)  # noqa: FBT003 - the one thing that it is told

    # -- for the owner

    def look(self, now: float, late_seconds: float) -> None:
        """Act on what has taken too long, the second time that it is seen.

        late_seconds: by which this look itself is late; that is not the client's time. Between two
        looks what has come is read: before the first it may have waited for us.
        """
        self._deadline += late_seconds
        was_overdue, self._is_overdue = self._is_overdue, now >= self._deadline
        if not (was_overdue and self._is_overdue) or self._transport is None:
            return
        body = self._body
        if self._is_slow:
            self._look_at_slow(now)
        elif self._turns.request is not None:
            if body is not None and not body.is_whole:
                body.fail(TimeoutError())
                self._is_closing = True
        elif self._ahead and not self._is_closing:
            self.turn_away(BadRequestError(408, "The head did not arrive in time", "timeout"))
        else:
            self._transport.abort()

    def finish(self) -> None:
        """Close: now if idle, else after the answer that is being sent."""
        self._is_closing = True
        if self._turns.request is None and self._transport is not None:
            self._transport.close()

    def cut_off(self) -> asyncio.Task[None] | None:
        """Cancel what is under way and return it."""
        return self._turns.cut_off()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def turn_away(self, error: BadRequestError) -> None:
        """Answer what is wrong, and close."""
        self._is_closing = True
        self._ahead, self._head, self._body = b"", None, None
        if self._transport is not None:
            response = self._refuse(error.status, str(error), error.code)
            self._transport.write(self._whole(response))
            self._linger(self._transport, is_quiet=False)

    # -- within

    def _next_request(self) -> None:
        raw = self._ahead
        if raw.startswith(b"\r\n"):  # some send an empty line too many after a body
            raw = raw.lstrip(b"\r\n")
            self._ahead = raw
            if not raw:
                return
        end = raw.find(b"\r\n\r\n") + 4
        try:
            if end < 4 or end > MAX_HEAD_BYTES:
                check_part(raw)
                self._await_head()
                return
            self._begin(self._heads.read(raw[:end] if end < len(raw) else raw), raw[end:])
        except BadRequestError as error:
            self.turn_away(error)

    def _await_head(self) -> None:
        """Bound the time for a head from its first byte on, however long nothing came before."""
        if not self._has_begun_head:
            self._has_begun_head = True
            self._deadline = self._loop.time() + self._bounds.head_seconds

    def _begin(self, head: Head, rest: bytes) -> None:
        self._ahead, self._has_begun_head = b"", False
        self._head = head
        self._stream = None
        body = self._body = Body(head.length, self._bounds.max_body_bytes)
        if rest and not body.is_whole:
            rest = body.feed(rest)
        if rest:
            self._keep_ahead(rest)
        if not head.keep_alive or body.has_failed:
            self._is_closing = True
        self._deadline = self._loop.time() + self._bounds.body_seconds
        self._turns.begin(Request(head, body, self), self._answer)

    async def _answer(self, request: Request) -> None:
        """Have the request handled, send what comes of it, go on to the next."""
        try:
            response = await self._handler(request)
        except asyncio.CancelledError:
            self.abort()
            raise
        except Exception:
            log.exception("%s %s: a fault of the gateway's own", request.method, request.path)
            response = self._refuse(500, "The gateway itself has failed", "internal_error")
        finally:
            self._flow = None
        self._turns.request = None
        self._send(response)

    def _send(self, response: Response | Stream) -> None:
        transport, body = self._transport, self._body
        if transport is None:
            return
        if body is not None and not body.is_whole:
            self._is_closing = True  # where the next request begins cannot be known
        if self._owner.is_draining:
            self._is_closing = True
        if isinstance(response, Response):
            if self._stream is not None:  # the fault came when half of the answer was out
                transport.abort()
                return
            transport.write(self._whole(response))
        elif not response.is_ended:
            transport.abort()
            return
        self._head = self._body = self._stream = None
        if self._is_closing:
            self._linger(transport, is_quiet=body is None or body.is_whole)
            return
        if not self._is_slow:
            self._deadline = self._loop.time() + self._bounds.idle_seconds
        if self._ahead and not self._is_slow:
            self._next_request()

    def _whole(self, response: Response) -> bytes:
        is_head = self._head is not None and self._head.method == "HEAD"
        return response.sent_with(self._owner.date, self._closing_line(), has_body=not is_head)

    def _closing_line(self) -> bytes:
        if self._is_closing or self._owner.is_draining:
            return b"Connection: close\r\n"
        is_old = self._head is not None and self._head.is_http_10
        return b"Connection: keep-alive\r\n" if is_old else b""

    def _linger(self, transport: asyncio.Transport, *, is_quiet: bool) -> None:
        """Close; but while the client still sends, a close would take the answer from it."""
        self._ahead = b""
        if is_quiet:
            transport.close()
            return
        self._deadline = self._loop.time() + _LINGER_SECONDS
        if transport.can_write_eof():
            transport.write_eof()

    def _throw_away(self, data: bytes) -> None:
        self._lingered += len(data)
        if self._lingered > _MAX_LINGER_BYTES and self._turns.request is None:
            self.abort()

    def _keep_ahead(self, data: bytes) -> None:
        """Keep what was sent before its turn; a client that sends too much so is heard no more."""
        if not data:
            return
        if len(self._ahead) + len(data) > _MAX_AHEAD_BYTES:
            self._is_closing = True
            self._ahead = b""
        else:
            self._ahead += data

    def _look_at_slow(self, now: float) -> None:
        """Cut a client off that takes nothing."""
        if self._transport is None:
            return
        unsent = self._transport.get_write_buffer_size()
        if unsent == self._unsent:
            log.info("a client has taken nothing of its answer for long: cut off")
            self._transport.abort()
        self._unsent = unsent
        self._deadline = now + self._bounds.stalled_seconds
