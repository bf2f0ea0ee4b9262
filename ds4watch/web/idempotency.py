"""Idempotency-Key: who sends a change again gets the answer of the first time.

The answer is kept after the change was stored. A daemon that dies in between carries out the
change again when it is sent again; what it answers then is what it finds.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from http import HTTPStatus
from typing import Protocol

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ds4watch.history.asked_values import GivenAnswer
from ds4watch.model.errors import StoreError
from ds4watch.model.ports import Clock
from ds4watch.web.gate import READS, Turned, Visitor
from ds4watch.web.guard import VISITOR_KEY, answer

_log = logging.getLogger(__name__)

HEADER = "Idempotency-Key"
KEY_PATTERN = r"[\x21-\x7e]{1,255}"
_KEY = re.compile(KEY_PATTERN)
_OTHER = "Idempotency-Key: was sent before with another request"
_ODD = "Idempotency-Key: must be 1 to 255 visible ASCII characters"
_UNDER_WAY = "a request with this Idempotency-Key is under way"
_AWAY = "Idempotency-Key: the store does not answer, so nothing was done"


class Answers(Protocol):
    """Where answers are kept."""

    async def given_answer(self, who: str, key: str) -> GivenAnswer | None:
        """Return what was answered to this key of somebody's, as long as that is kept."""
        ...

    async def keep_answer(self, given: GivenAnswer) -> None:
        """Keep an answer."""
        ...


class Idempotency:
    """Carries out a change with a key once, for what stands under `prefix`."""

    def __init__(self, app: ASGIApp, prefix: str, answers: Answers, clock: Clock) -> None:
        self._app = app
        self._prefix = prefix
        self._answers = answers
        self._clock = clock
        self._under_way: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        key = None
        if scope["type"] == "http" and scope["path"].startswith(self._prefix):
            key = Headers(scope=scope).get(HEADER) if _is_change(scope) else None
        if key is None:
            await self._app(scope, receive, send)
            return
        if not _KEY.fullmatch(key):
            await answer(send, Turned(HTTPStatus.BAD_REQUEST, _ODD))
            return
        mine = (_who(scope), key)
        if mine in self._under_way:
            await answer(send, Turned(HTTPStatus.CONFLICT, _UNDER_WAY))
            return
        self._under_way.add(mine)
        try:
            await self._once(mine, scope, receive, send)
        finally:
            self._under_way.discard(mine)

    async def _once(
        self, mine: tuple[str, str], scope: Scope, receive: Receive, send: Send
    ) -> None:
        message = await receive()  # the guard hands bodies over whole
        request = _digest(scope, message.get("body", b""))
        try:
            given = await self._answers.given_answer(*mine)
        except StoreError as error:
            _log.warning("answers given cannot be read: %s", error)
            await answer(send, Turned(HTTPStatus.SERVICE_UNAVAILABLE, _AWAY))
            return
        if given is None:
            await self._first(mine, request, message, (scope, receive, send))
        elif given.request != request:
            await answer(send, Turned(HTTPStatus.UNPROCESSABLE_ENTITY, _OTHER))
        else:
            await _again(send, given)

    async def _first(
        self,
        mine: tuple[str, str],
        request: str,
        body: Message,
        exchange: tuple[Scope, Receive, Send],
    ) -> None:
        scope, receive, send = exchange
        pending, sent = [body], list[Message]()

        async def replayed() -> Message:
            return pending.pop() if pending else await receive()

        async def noted(message: Message) -> None:
            sent.append(message)

        await self._app(scope, replayed, noted)
        start, text = sent[0], b"".join(it.get("body", b"") for it in sent[1:])
        if start["status"] < HTTPStatus.INTERNAL_SERVER_ERROR:
            await self._keep(mine, request, start, text)
        for message in sent:
            await send(message)

    async def _keep(self, mine: tuple[str, str], request: str, start: Message, text: bytes) -> None:
        who, key = mine
        kind = Headers(raw=start["headers"]).get("content-type", "")
        now, status = self._clock.now(), int(start["status"])
        given = GivenAnswer(who, key, request, now, status, kind, text.decode())
        try:
            await self._answers.keep_answer(given)
        except StoreError as error:
            _log.warning("the answer to a request with a key is not kept: %s", error)


async def _again(send: Send, given: GivenAnswer) -> None:
    body = given.body.encode()
    headers = [(b"idempotent-replayed", b"true")]
    if given.status != HTTPStatus.NO_CONTENT:
        headers.append((b"content-length", str(len(body)).encode()))
    if given.content_type:
        headers.append((b"content-type", given.content_type.encode("latin-1")))
    await send({"type": "http.response.start", "status": given.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _is_change(scope: Scope) -> bool:
    """Return whether answers are kept; of nobody's, who would push out those of others."""
    visitor = scope[VISITOR_KEY]
    assert isinstance(visitor, Visitor)
    return scope["method"] not in READS and visitor.role is not None


def _who(scope: Scope) -> str:
    visitor = scope[VISITOR_KEY]
    assert isinstance(visitor, Visitor)
    return f"{visitor.role}:{visitor.name}"


def _digest(scope: Scope, body: bytes) -> str:
    query = scope["query_string"].decode("latin-1")
    match = Headers(scope=scope).get("if-match", "")
    asked = json.dumps([scope["method"], scope["path"], query, match]).encode()
    return hashlib.sha256(asked + b"\0" + body).hexdigest()
