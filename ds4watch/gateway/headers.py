"""Headers in and out: what is passed on, what is ours, what stays with us."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping

from multidict import CIMultiDict, CIMultiDictProxy

REQUEST_ID = "x-request-id"
WORKER = "x-ds4-worker"
ATTEMPTS = "x-ds4-attempts"
DEGRADED = "x-ds4-degraded"
PRIORITY = "x-ds4-priority"

_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_NOT_FOR_WORKERS = _HOP_BY_HOP | {
    # What the client proves to us is nobody else's business.
    *("authorization", "cookie", "api-key", "x-api-key"),
    # Of our own request to the worker; bodies arrive here unpacked.
    *("host", "content-length", "content-type", "content-encoding", "accept-encoding", "expect"),
    *(REQUEST_ID, PRIORITY),
}
_NOT_FOR_CLIENTS = _HOP_BY_HOP | {
    *("content-length", "content-encoding", "date", "server", "set-cookie", "alt-svc"),
    *(REQUEST_ID, WORKER, ATTEMPTS, DEGRADED),
}


def request_id_of(header: str | None) -> str:
    """Return the client's request id if it is sane, else a new one."""
    if header is not None and _SANE_ID.fullmatch(header):
        return header
    return uuid.uuid4().hex


def headers_for_worker(headers: CIMultiDictProxy[str], request_id: str) -> CIMultiDict[str]:
    """Return the client's headers less credentials, hop-by-hop ones and what we set ourselves."""
    named = _named_by_connection(headers)
    passed = CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if (lower := name.lower()) not in _NOT_FOR_WORKERS and lower not in named
    )
    passed["Content-Type"] = "application/json"
    passed["Accept-Encoding"] = "identity"
    passed[REQUEST_ID] = request_id
    return passed


def headers_for_client(headers: CIMultiDictProxy[str], own: Mapping[str, str]) -> CIMultiDict[str]:
    """Return the worker's headers less hop-by-hop ones and those of its encoding, with ours."""
    named = _named_by_connection(headers)
    passed = CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if (lower := name.lower()) not in _NOT_FOR_CLIENTS and lower not in named
    )
    passed.update(own)
    return passed


def _named_by_connection(headers: CIMultiDictProxy[str]) -> frozenset[str]:
    value = headers.get("Connection")
    if not value:
        return frozenset()
    return frozenset(name.strip().lower() for name in value.split(","))
