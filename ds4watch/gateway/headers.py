"""Headers in and out: what is passed on, what is ours, what stays with us."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache

from ds4watch.gateway.http.answer import AnswerHead
from ds4watch.gateway.http.headers import Headers, RawHeaders

REQUEST_ID = "x-request-id"
WORKER = "x-ds4-worker"
ATTEMPTS = "x-ds4-attempts"
DEGRADED = "x-ds4-degraded"
FILTER = "x-ds4-filter"
PRIORITY = "x-ds4-priority"
WORK_CLASS = "x-ds4-class"
NO_DEGRADE = "x-ds4-no-degrade"
SESSION = "x-session-id"

_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")

_HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization"),
        *(b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    }
)
_NOT_FOR_WORKERS = _HOP_BY_HOP | {
    # What the client proves to us is nobody else's business.
    *(b"authorization", b"cookie", b"cookie2", b"api-key", b"x-api-key"),
    # Of our own request to the worker; bodies arrive here unpacked.
    *(b"host", b"content-length", b"content-type", b"content-encoding", b"accept-encoding"),
    *(b"content-md5", b"digest", b"content-digest", b"repr-digest", b"range", b"if-range"),
    *(b"expect", REQUEST_ID.encode()),
    # Who the client is and came through: a worker that believes it can be lied to.
    *(b"forwarded", b"via", b"x-real-ip", b"true-client-ip", b"cf-connecting-ip", b"x-client-ip"),
    *(b"x-original-url", b"x-rewrite-url", b"x-http-method-override", b"x-method-override"),
    # A worker that sees a page's origin lets the page read its answer.
    *(b"origin", b"referer"),
    *(b"access-control-request-method", b"access-control-request-headers"),
    # Which engine of a worker answers is ours to choose.
    b"x-data-parallel-rank",
}
_NOT_FOR_CLIENTS = _HOP_BY_HOP | {
    *(b"content-length", b"date", b"server", b"set-cookie", b"set-cookie2"),
    # Of the address that answered, and that is ours; the first would lead into our network.
    *(b"location", b"content-location", b"refresh", b"alt-svc", b"strict-transport-security"),
    *(b"clear-site-data", b"public-key-pins", b"x-powered-by", b"via", b"www-authenticate"),
    # How busy a worker is (ORCA).
    *(b"endpoint-load-metrics", REQUEST_ID.encode()),
}
_OURS = b"x-ds4-"
_PREFIXES_NOT_FOR_WORKERS = (_OURS, b"x-forwarded-", b"proxy-", b"sec-")
_PREFIXES_NOT_FOR_CLIENTS = (_OURS, b"access-control-", b"proxy-")
_OUR_LINES = b"Content-Type: application/json\r\nAccept-Encoding: identity\r\n"
_RANDOM_BYTES = 1 << 12


def _random_ids() -> Iterator[str]:
    """Yield ids of 128 random bits, for which the system is asked once in a while."""
    while True:
        text = os.urandom(_RANDOM_BYTES).hex()
        for at in range(0, len(text), 32):
            yield text[at : at + 32]


_IDS = _random_ids()


def sane_id(header: str | None) -> str | None:
    """Return the client's request id if it is sane."""
    return header if header is not None and _SANE_ID.fullmatch(header) else None


def new_id() -> str:
    """Return a request id of our own."""
    return next(_IDS)


def lines_for_worker(headers: Headers, request_id: str) -> bytes:
    """Return the client's headers less credentials, hop-by-hop ones and what we set ourselves.

    `Host` and `Content-Length` are left to who knows the worker and the body.
    """
    lines = headers.lines
    if lines is None:
        lines = headers.lines = _lines_for_worker(headers.raw)
    return b"%bX-Request-Id: %b\r\n" % (lines, request_id.encode("ascii"))


def _lines_for_worker(headers: RawHeaders) -> bytes:
    named = _named_by_connection(headers)
    lines = [
        b"%b: %b\r\n" % (name, value)
        for name, value in headers
        if (lower := name.lower()) not in _NOT_FOR_WORKERS
        and not lower.startswith(_PREFIXES_NOT_FOR_WORKERS)
        and lower not in named
    ]
    lines.append(_OUR_LINES)
    return b"".join(lines)


def lines_for_client(head: AnswerHead) -> bytes:
    """Return the worker's headers less hop-by-hop ones and those of its own server."""
    lines = head.lines
    if lines is None:
        named = _named_by_connection(head.headers)
        lines = head.lines = b"".join(
            b"%b: %b\r\n" % (name, value)
            for name, value in head.headers
            if _is_for_clients(name) and (not named or name.lower() not in named)
        )
    return lines


@lru_cache(maxsize=1024)
def _is_for_clients(name: bytes) -> bool:
    lower = name.lower()
    return lower not in _NOT_FOR_CLIENTS and not lower.startswith(_PREFIXES_NOT_FOR_CLIENTS)


def _named_by_connection(headers: RawHeaders) -> frozenset[bytes]:
    for name, value in headers:
        if len(name) == 10 and name.lower() == b"connection":
            return frozenset(one.strip().lower() for one in value.split(b","))
    return frozenset()
