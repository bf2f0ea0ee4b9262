"""Answers that the end of the server cuts short: who asked is told, and nobody calls it a fault."""

from __future__ import annotations

import asyncio
import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ds4watch.web.guard import PROBLEM_TYPE, problem

_log = logging.getLogger(__name__)

_RETRY_AFTER = b"5"
_TOLD = "the daemon ends, and its answer would have taken longer"


class Ending:
    """Answers 503 where an answer that has not begun is cancelled."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the application answer."""
        has_begun = False

        async def sent(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except asyncio.CancelledError:
            if has_begun or scope["type"] != "http":
                raise
            _log.warning("%s %s is not answered: %s", scope["method"], scope["path"], _TOLD)
            await _refuse(send)


async def _refuse(send: Send) -> None:
    headers = [(b"content-type", PROBLEM_TYPE.encode()), (b"retry-after", _RETRY_AFTER)]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": problem(503, _TOLD)})
