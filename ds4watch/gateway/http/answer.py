"""The head of a worker's answer, and how the same head again is told without parsing it."""

from __future__ import annotations

import re
from typing import NamedTuple

from ds4watch.gateway.http.headers import RawHeaders

_LENGTH_LINE = re.compile(rb"\r\n(?i:content-length): ([0-9]{1,15})(?=\r\n)")
_MAX_DIGITS = 15
_MAX_KEPT_BYTES = 1 << 12
_OK = 200
_STATUS_LINE = b"HTTP/1.1 200 OK\r\n"
SHORT_HEAD = _STATUS_LINE + b"transfer-encoding: chunked\r\n\r\n"
"""Has a parser take what follows for chunks."""
_FRAMING = frozenset(
    {b"connection", b"content-length", b"proxy-connection", b"trailer", b"upgrade"}
)


class AnswerHead:
    """Status and headers; of a head that came again, the length is that of the first."""

    __slots__ = ("headers", "is_stream", "lines", "status")

    def __init__(self, status: int, headers: RawHeaders) -> None:
        self.status = status
        self.headers = headers
        self.is_stream = status == _OK and _is_stream(headers)
        """Whether it is before server-sent events."""
        self.lines: bytes | None = None
        """What its reader passes on, kept for the next answer with the very same head."""


class KnownHead:
    """The head of a whole answer that came in one piece, but for the length of the body."""

    __slots__ = ("_before", "_behind", "head")

    def __init__(self, head: AnswerHead, before: bytes, behind: bytes) -> None:
        self.head = head
        self._before = before
        self._behind = behind

    def body_of(self, data: bytes) -> bytes | None:
        """Return the body if `data` is one whole answer with this head, byte for byte; else None.

        An answer without a body is left to the parser.
        """
        if not data.startswith(self._before):
            return None
        begin = len(self._before)
        end = data.find(b"\r", begin, begin + _MAX_DIGITS + 1)
        if end < 0 or not data.startswith(self._behind, end):
            return None
        digits, at = data[begin:end], end + len(self._behind)
        is_whole = digits.isdigit() and len(data) - at == int(digits) > 0
        return data[at:] if is_whole else None


class KnownStream(NamedTuple):
    """The head of an answer in chunks: what it is told by, byte for byte, and what it says."""

    raw: bytes
    head: AnswerHead


def known_stream(head: AnswerHead, data: bytes) -> KnownStream | None:
    """Return what to know `head` by, parsed out of `data`, if it is before server-sent events.

    None unless it says as much as `SHORT_HEAD` of how the body is framed and of what becomes of
    the connection, and no more.
    """
    at = data.find(b"\r\n\r\n") + 4
    if not head.is_stream or not 4 <= at <= _MAX_KEPT_BYTES or not data.startswith(_STATUS_LINE):
        return None
    told = {name.lower(): bytes(value) for name, value in head.headers}
    is_plain = len(told) == len(head.headers) == data.count(b"\r\n", 0, at) - 2
    if (
        not is_plain
        or told.get(b"transfer-encoding") != b"chunked"
        or not _FRAMING.isdisjoint(told)
    ):
        return None
    return KnownStream(data[:at], head)


def known_head(head: AnswerHead, data: bytes, body: bytes) -> KnownHead | None:
    """Return what to know `head` by, parsed out of `data` together with the whole `body`."""
    at = data.find(b"\r\n\r\n") + 4
    if head.status != _OK or not 4 <= at <= _MAX_KEPT_BYTES or data[at:] != body:
        return None
    names = [name.lower() for name, _ in head.headers]
    told = _LENGTH_LINE.search(data, 0, at)
    is_plain = names.count(b"content-length") == 1 and b"transfer-encoding" not in names
    if told is None or not is_plain or int(told.group(1)) != len(body):
        return None
    return KnownHead(head, data[: told.start(1)], data[told.end(1) : at])


def _is_stream(headers: RawHeaders) -> bool:
    for name, value in headers:
        if len(name) == 12 and name.lower() == b"content-type":
            return bytes(value).lower().startswith(b"text/event-stream")
    return False
