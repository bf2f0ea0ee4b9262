"""ETags: an answer that the client has already is not sent again, a change on old sight refused.

The tag of a resource is a digest of the bytes it is answered with.
"""

from __future__ import annotations

import hashlib
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ds4watch.web.gate import Turned
from ds4watch.web.guard import answer

_TAGGED = "application/json"
_REPRESENTED = ("PUT", "DELETE", "POST")


class Conditions:
    """Answers If-None-Match and If-Match for what stands under `prefix`."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or not scope["path"].startswith(self._prefix):
            await self._app(scope, receive, send)
        elif scope["method"] == "GET":
            await self._read(scope, receive, send)
        elif await self._is_stale(scope):
            await answer(send, Turned(HTTPStatus.PRECONDITION_FAILED, _STALE))
        else:
            await self._app(scope, receive, send)

    async def _read(self, scope: Scope, receive: Receive, send: Send) -> None:
        wanted = Headers(scope=scope).get("if-none-match")
        held: list[Message] = []

        async def tagged(message: Message) -> None:
            if message["type"] == "http.response.start":
                held.append(message)
                return
            if not held:
                await send(message)
                return
            start = held.pop()
            if not _is_tagged(start) or message.get("more_body", False):
                await send(start)
                await send(message)
                return
            tag = tag_of(message.get("body", b""))
            MutableHeaders(scope=start)["etag"] = tag
            if wanted is not None and _matches(wanted, tag):
                await _not_modified(start, send)
                return
            await send(start)
            await send(message)

        await self._app(scope, receive, tagged)

    async def _is_stale(self, scope: Scope) -> bool:
        wanted = Headers(scope=scope).get("if-match")
        if wanted is None or scope["method"] not in _REPRESENTED:
            return False
        tag = await self._tag(scope)
        return tag is None or (wanted.strip() != "*" and not _matches(wanted, tag))

    async def _tag(self, scope: Scope) -> str | None:
        """Return the tag of what is to be changed: for a verb under it, of what it is under."""
        path: str = scope["path"]
        if scope["method"] == "POST":
            path = path.rpartition("/")[0]
        got: list[Message] = []

        async def kept(message: Message) -> None:
            got.append(message)
            if not _is_tagged(got[0]) or message.get("more_body", False):
                raise _NotTaggedError

        asked = {**scope, "method": "GET", "path": path, "raw_path": path.encode(), "state": {}}
        asked["query_string"] = b""
        try:
            await self._app(asked, _nothing_more, kept)
        except* _NotTaggedError:
            got.clear()
        return tag_of(got[1].get("body", b"")) if len(got) > 1 else None


class _NotTaggedError(Exception):
    """What is there has no tag, and may have no end."""


async def _nothing_more() -> Message:
    return {"type": "http.disconnect"}


def tag_of(body: bytes) -> str:
    """Return the ETag of an answer's bytes."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def _is_tagged(start: Message) -> bool:
    kind = Headers(raw=start["headers"]).get("content-type", "")
    return bool(start["status"] == HTTPStatus.OK and kind.startswith(_TAGGED))


def _matches(wanted: str, tag: str) -> bool:
    tags = [it.strip().removeprefix("W/") for it in wanted.split(",")]
    return "*" in tags or tag in tags


async def _not_modified(start: Message, send: Send) -> None:
    headers = MutableHeaders(scope=start)
    for name in ("content-length", "content-type"):
        del headers[name]
    await send({**start, "status": int(HTTPStatus.NOT_MODIFIED)})
    await send({"type": "http.response.body", "body": b""})


_STALE = "it is not as If-Match says: read it again"
