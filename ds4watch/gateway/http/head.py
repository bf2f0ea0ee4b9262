"""A request's head, read strictly: what two servers could read differently is refused.

llhttp (in httptools) checks the grammar; how long the body is follows from one header alone, and
whatever else is there that could say it differently is a 400.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import httptools

from ds4watch.gateway.http.errors import BadRequestError
from ds4watch.gateway.http.headers import Headers

MAX_HEAD_BYTES = 1 << 15
MAX_HEADERS = 100
_MAX_TARGET_BYTES = 1 << 13
_MAX_DIGITS = 15
_LENGTH = re.compile(rb"[0-9]{1,15}")
_LENGTH_LINE = re.compile(rb"\r\n(?i:content-length): ([0-9]{1,15})(?=\r\n)")
_TARGET = re.compile(r"[!-~]+")
_MAX_KEPT_BYTES = 1 << 12


@dataclass(slots=True)
class Head:
    """A request's head. `length` is that of its body, None for one in chunks."""

    method: str
    path: str
    query: str
    target: bytes
    """Path and query as they are passed on."""
    headers: Headers
    length: int | None
    keep_alive: bool
    is_http_10: bool
    expects_continue: bool
    is_packed: bool

    def with_length(self, length: int) -> Head:
        """Return the same head before another body; its headers still tell the first's length."""
        return Head(
            self.method,
            self.path,
            self.query,
            self.target,
            self.headers,
            length,
            self.keep_alive,
            self.is_http_10,
            self.expects_continue,
            self.is_packed,
        )


class _Parts:
    """Takes what llhttp finds."""

    __slots__ = ("headers", "is_complete", "target")

    def __init__(self) -> None:
        self.target = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_complete = False

    def on_url(self, url: bytes) -> None:
        """Take (a part of) the target."""
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self.headers.append((name, value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        """Note that the head is whole."""
        self.is_complete = True


class HeadReader:
    """Reads the heads of one connection.

    A client mostly sends the same one again, but for the length of the body: what is the same,
    byte for byte, is not read anew.
    """

    __slots__ = ("_before", "_behind", "_last")

    def __init__(self) -> None:
        self._last: Head | None = None
        self._before = self._behind = b""

    def read(self, raw: bytes) -> Head:
        """Return the head that `raw` holds, its empty line included. Raises BadRequestError."""
        last = self._last
        if last is not None and raw.startswith(self._before) and raw.endswith(self._behind):
            digits = raw[len(self._before) : len(raw) - len(self._behind)]
            if digits.isdigit() and len(digits) <= _MAX_DIGITS:
                return last.with_length(int(digits))
        head = parse_head(raw)
        self._last = None
        told = _LENGTH_LINE.search(raw) if len(raw) <= _MAX_KEPT_BYTES else None
        if told is not None:
            self._before, self._behind = raw[: told.start(1)], raw[told.end(1) :]
            self._last = head
        return head


def parse_head(raw: bytes) -> Head:
    """Return the head that `raw` holds, its empty line included. Raises BadRequestError."""
    _check_lines(raw)
    parts = _Parts()
    parser = httptools.HttpRequestParser(parts)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # there is nothing to upgrade to: it is answered as the plain request that it also is
    except httptools.HttpParserError as error:
        raise BadRequestError(400, f"This is not HTTP: {error}"[:200]) from error
    if not parts.is_complete:
        raise BadRequestError(400, "The head is not whole")
    if len(parts.headers) > MAX_HEADERS:
        raise BadRequestError(431, f"More than {MAX_HEADERS} headers", "headers_too_large")
    version = parser.get_http_version()
    if version not in ("1.1", "1.0"):
        raise BadRequestError(505, "HTTP/1.1 is spoken here", "version_not_supported")
    method = parser.get_method().decode("ascii")
    try:
        return _head_of(method, parts, is_http_10=version == "1.0")
    except ValueError as error:
        raise BadRequestError(400, str(error)) from error


def _head_of(method: str, parts: _Parts, *, is_http_10: bool) -> Head:
    headers = Headers(parts.headers)
    path, query = _target(parts.target)
    _check_host(headers, is_http_10=is_http_10)
    return Head(
        method=method,
        path=path,
        query=query,
        target=(f"{path}?{query}" if query else path).encode("ascii"),
        headers=headers,
        length=_length(headers, is_http_10=is_http_10),
        keep_alive=_keeps_alive(headers, is_http_10=is_http_10),
        is_http_10=is_http_10,
        expects_continue=_expects_continue(headers),
        is_packed="content-encoding" in headers,
    )


def check_part(raw: bytes) -> None:
    """Raise BadRequestError if this, the beginning of a head, cannot become a good one."""
    if len(raw) > MAX_HEAD_BYTES:
        raise BadRequestError(431, f"A head of over {MAX_HEAD_BYTES} bytes", "headers_too_large")
    _check_lines(raw.removesuffix(b"\r"))  # which may be the first half of CR LF


def _check_lines(raw: bytes) -> None:
    """Refuse a bare LF or CR, a folded line, NUL."""
    ends = raw.count(b"\r\n")
    if (
        raw.count(b"\n") != ends
        or raw.count(b"\r") != ends
        or b"\0" in raw
        or b"\n " in raw
        or b"\n\t" in raw
    ):
        raise BadRequestError(400, "The head has a line that does not end or begin as it should")


def _target(raw: bytes) -> tuple[str, str]:
    if len(raw) > _MAX_TARGET_BYTES:
        raise BadRequestError(414, f"An address of over {_MAX_TARGET_BYTES} bytes", "uri_too_long")
    target = raw.decode("latin-1")
    if not target.startswith("/") and target[:7].lower() == "http://":
        target = "/" + target[7:].partition("/")[2]  # the form that is sent to proxies
    if not target.startswith("/") and target != "*":
        raise BadRequestError(400, "The address must begin with a slash")
    if _TARGET.fullmatch(target) is None:
        raise BadRequestError(400, "The address has bytes that must be percent-encoded")
    path, _, query = target.partition("#")[0].partition("?")
    return path, query


def _check_host(headers: Headers, *, is_http_10: bool) -> None:
    if headers.once(b"host") is None and not is_http_10:
        raise BadRequestError(400, "There must be a Host header")


def _length(headers: Headers, *, is_http_10: bool) -> int | None:
    coding, length = headers.once(b"transfer-encoding"), headers.once(b"content-length")
    if coding is not None:
        if length is not None or is_http_10 or coding.lower() != b"chunked":
            message = "The only Transfer-Encoding, and without a length, is chunked"
            raise BadRequestError(400, message)
        return None
    if length is None:
        return 0
    if _LENGTH.fullmatch(length) is None:
        raise BadRequestError(400, "Content-Length must be a whole number")
    return int(length)


def _keeps_alive(headers: Headers, *, is_http_10: bool) -> bool:
    told = headers.get("connection")
    if told is None:
        return not is_http_10
    told = told.lower()
    return "keep-alive" in told if is_http_10 else "close" not in told


def _expects_continue(headers: Headers) -> bool:
    expected = headers.get("expect")
    if expected is None:
        return False
    if expected.lower() != "100-continue":
        raise BadRequestError(417, "Only 100-continue can be expected", "expectation_failed")
    return True
