"""Buttons by Socket Mode: for who has no address that Slack could call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from ds4watch.model.errors import Ds4watchError
from ds4watch.notify.group_channel import ChannelError
from ds4watch.notify.secret import Secret
from ds4watch.notify.slack_errors import mapped

log = logging.getLogger(__name__)

_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 300.0


async def listen(app_token: Secret, api_url: str, take: Callable[[Any], Awaitable[None]]) -> None:
    """Take interactions until cancelled; a connection that fails is made anew, in growing waits.

    An envelope is acknowledged once it was taken: Slack sends it again if we die before.
    """
    failures = 0
    while True:
        try:
            await _connected(app_token, api_url, take)
            failures = 0
        except ChannelError as error:
            if not failures:
                log.warning("buttons in Slack do nothing for now: %s", error)
            failures += 1
            wait = _FIRST_WAIT_SECONDS * 2.0 ** min(failures, 20)
            await asyncio.sleep(max(error.wait_seconds, min(_LONGEST_WAIT_SECONDS, wait)))


async def _connected(
    app_token: Secret, api_url: str, take: Callable[[Any], Awaitable[None]]
) -> None:
    """Serve one client; it reconnects by itself as long as Slack lets it."""
    token = app_token.read()
    web = AsyncWebClient(base_url=api_url, retry_handlers=[])
    client = SocketModeClient(app_token=token, web_client=web, logger=_quiet())

    async def on_request(_: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        if request.type == "interactive":
            try:
                await take(request.payload)
            except Ds4watchError as error:
                log.warning("an interaction from Slack was left out: %s", error)
        await client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))

    client.socket_mode_request_listeners.append(on_request)
    try:
        async with mapped():
            await client.connect()  # type: ignore[no-untyped-call] # theirs
        log.info("buttons in Slack are listened to")
        await asyncio.Event().wait()
    finally:
        await client.close()  # type: ignore[no-untyped-call] # theirs


def _quiet() -> logging.Logger:
    # Its messages hold the address of the socket, with its ticket.
    logger = logging.getLogger("slack_sdk.socket_mode.ds4watch")
    logger.setLevel(logging.CRITICAL)
    return logger
