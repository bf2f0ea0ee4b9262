"""A request's body as it comes in: framed strictly, bounded before it is kept."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from ds4watch.gateway.http.errors import BodyTooLargeError, BrokenBodyError

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
_SIZE_PART = re.compile(rb"[0-9A-Fa-f]{0,8}\r?")
"""What may become a size line. Chunk extensions mean nothing to anybody, and are refused."""


class Body:
    """Takes a body's bytes in and gives it out once it is whole."""

    __slots__ = ("_error", "_kept", "_left", "_max_bytes", "_rest", "_size", "_waiter", "is_whole")

    def __init__(self, length: int | None, max_bytes: int) -> None:
        """Expect `length` bytes, or chunks if that is None."""
        self._left = length or 0
        self._rest: bytes | None = b"" if length is None else None
        self._max_bytes = max_bytes
        self._kept: bytes | bytearray = b""
        self._size = 0
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.is_whole = length == 0
        if self._left > max_bytes:
            self.fail(_too_large(max_bytes))

    @property
    def has_failed(self) -> bool:
        """Whether there is no sense in feeding it any more."""
        return self._error is not None

    @property
    def at_once(self) -> bytes | None:
        """The body if it has come in one piece, as most do; None if there is more to it."""
        return self._kept if self.is_whole and isinstance(self._kept, bytes) else None

    def feed(self, data: bytes) -> bytes:
        """Take bytes in; return those behind the body's end."""
        if self._rest is not None:
            return self._feed_chunks(self._rest + data if self._rest else data)
        if len(data) < self._left:
            self._keep(data)
            self._left -= len(data)
            return b""
        if len(data) == self._left and not self._kept and self._error is None:  # nearly all
            self._kept, self.is_whole = data, True
            if self._waiter is not None:
                self._wake()
            return b""
        taken, behind = data[: self._left], data[self._left :]
        self._keep(taken)
        self._end()
        return behind

    def fail(self, error: Exception) -> None:
        """Tell whoever waits that the body will not come."""
        if self.is_whole or self._error is not None:
            return
        self._error = error
        self._kept = b""
        self._wake()

    async def read(self, on_wait: Callable[[], None]) -> bytes:
        """Return the whole body. `on_wait` is called if there is some of it to wait for.

        Raises BodyTooLargeError, BrokenBodyError, TimeoutError.
        """
        if not self.is_whole and self._error is None:
            on_wait()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._error is not None:
            raise self._error
        if isinstance(self._kept, bytearray):
            self._kept = bytes(self._kept)
        return self._kept

    def _keep(self, data: bytes) -> None:
        """Keep a piece: of a body in very many, no object each is left in memory."""
        if not data or self._error is not None:
            return
        if not self._kept:
            self._kept = data
        elif isinstance(self._kept, bytearray):
            self._kept += data
        else:
            self._kept = bytearray(self._kept) + data

    def _end(self) -> None:
        if self._error is None:
            self.is_whole = True
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _feed_chunks(self, data: bytes) -> bytes:
        """Take chunks apart. `_left` counts what is missing of a chunk, its CR LF included."""
        at = 0
        while at < len(data):
            if self._left:
                at = self._take_of_chunk(data, at)
            else:
                line = _SIZE_LINE.match(data, at)
                if line is None:
                    if _SIZE_PART.fullmatch(data, at) is None:
                        self.fail(
                            BrokenBodyError("a chunk's size is not a short hexadecimal number")
                        )
                        return b""
                    break
                size = int(line.group(1), 16)
                if size == 0:
                    return self._end_of_chunks(data, at, line.end())
                self._size += size
                if self._size > self._max_bytes:
                    self.fail(_too_large(self._max_bytes))
                    return b""
                at, self._left = line.end(), size + 2
            if self._error is not None:
                return b""
        self._rest = data[at:]
        return b""

    def _take_of_chunk(self, data: bytes, at: int) -> int:
        """Keep what is there of a chunk; return the place behind it."""
        if self._left > 2:
            taken = data[at : at + self._left - 2]
            self._keep(taken)
            self._left -= len(taken)
            return at + len(taken)
        ending = data[at : at + self._left]
        if ending != b"\r\n"[2 - self._left :][: len(ending)]:
            self.fail(BrokenBodyError("a chunk is longer than it says"))
        self._left -= len(ending)
        return at + len(ending)

    def _end_of_chunks(self, data: bytes, at: int, behind: int) -> bytes:
        """Take the empty line after the last chunk; trailers are refused."""
        ending = data[behind : behind + 2]
        if ending == b"\r\n":
            self._rest = b""
            self._end()
            return data[behind + 2 :]
        if not b"\r\n".startswith(ending):
            self.fail(BrokenBodyError("trailers are not taken"))
            return b""
        self._rest = data[at:]
        return b""


def _too_large(max_bytes: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"The body is larger than {max_bytes} bytes")
