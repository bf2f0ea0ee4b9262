"""The ASGI layer around all routes: entry, bounded bodies, security headers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ds4watch.web.gate import ALERTS, READS, Gate, Turned, Visit, admit

MAX_BODY_BYTES = 64 << 10
MAX_ALERTS_BYTES = 8 << 20
"""An Alertmanager sends a whole group at once, and takes a refusal for final."""
BODY_TIMEOUT_SECONDS = 10.0
PROBLEM_TYPE = "application/problem+json"
VISITOR_KEY = "ds4.visitor"
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def problem(status: int, detail: str) -> bytes:
    """Return an RFC 9457 document."""
    title = HTTPStatus(status).phrase
    document = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return json.dumps(document, ensure_ascii=False).encode()


class Guard:
    """Lets a request through to the routes, or answers it itself."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        sender = _with_headers(send)
        headers = Headers(scope=scope)
        visit = Visit(
            method=scope["method"],
            path=scope["path"],
            host=headers.get("host", ""),
            origin=headers.get("origin"),
            authorization=headers.get("authorization"),
            cookie=headers.get("cookie"),
        )
        entry = admit(self._gate, visit)
        if isinstance(entry, Turned):
            await answer(sender, entry)
            return
        scope[VISITOR_KEY] = entry
        if visit.method in READS:
            await self._app(scope, receive, sender)
            return
        most = MAX_ALERTS_BYTES if visit.path in ALERTS else MAX_BODY_BYTES
        body = await _read_body(receive, headers, most)
        if isinstance(body, Turned):
            await answer(sender, body)
            return
        await self._app(scope, _replay(body, receive), sender)


async def _read_body(receive: Receive, headers: Headers, most: int) -> bytes | Turned:
    too_large = Turned(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have {most} bytes")
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length) > most:
        return too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            while True:
                message = await receive()
                chunk: bytes = message.get("body", b"")
                body += chunk
                if len(body) > most:
                    return too_large
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        return Turned(HTTPStatus.REQUEST_TIMEOUT, "the body did not arrive in time")


def _replay(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed


def _with_headers(send: Send) -> Send:
    async def sender(message: MutableMapping[str, object]) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
            if "cache-control" not in headers:
                headers["Cache-Control"] = "no-store"
        await send(message)

    return sender


async def answer(send: Send, turned: Turned) -> None:
    """Answer with a problem."""
    body = problem(turned.status, turned.detail)
    headers = [
        (b"content-type", PROBLEM_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    if turned.status is HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b'Bearer realm="ds4watch"'))
    start = {"type": "http.response.start", "status": int(turned.status), "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})
