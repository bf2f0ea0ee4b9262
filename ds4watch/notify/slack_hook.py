"""Slack by an incoming webhook: the simple form, without edits, threads, buttons or pictures."""

from __future__ import annotations

import aiohttp

from ds4watch.notify.group_channel import ChannelError, Digest, Fault, Keep, Telling
from ds4watch.notify.secret import Secret
from ds4watch.notify.slack import NoViews, Views
from ds4watch.notify.slack_errors import error_of, mapped
from ds4watch.notify.slack_message import Links, Message, digest_message, message_of, notes_message

_TIMEOUT = aiohttp.ClientTimeout(total=15.0)
_MAX_ANSWER = 200


class SlackHook:
    """Posts a new message each time. After an unclear end it may be twice, and says so."""

    name = "slack_webhook"
    gap_seconds = 1.0

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: Secret,
        links: Links,
        views: Views | None = None,
    ) -> None:
        self._session = session
        self._url = url
        self._links = links
        self.views: Views = views or NoViews()

    async def tell(self, telling: Telling, keep: Keep) -> None:
        """Post the group as it stands. Raises ChannelError."""
        del keep
        if telling.unsure and not telling.doubled:
            raise _blind()
        await self._post(message_of(telling, self._links, self.views.threshold, buttons=False))
        if telling.group.members and telling.group.notes:
            await self._post(notes_message(telling, buttons=False))

    async def digest(self, digest: Digest) -> None:
        """Post what came up during an outage. Raises ChannelError."""
        if digest.unsure and not digest.doubled:
            raise _blind()
        await self._post(digest_message(digest))

    async def _post(self, message: Message) -> None:
        body = {"text": message.text, "attachments": message.attachments}
        async with (
            mapped(),
            self._session.post(
                self._url.read(), json=body, timeout=_TIMEOUT, allow_redirects=False
            ) as answer,
        ):
            status = answer.status
            said = (await answer.content.read(_MAX_ANSWER)).decode(errors="replace").strip()
            retry_after = answer.headers.get("Retry-After", "")
        if status != 200:
            code = said if said.replace("_", "").isalnum() else ""
            raise error_of(status, code, retry_after)


def _blind() -> ChannelError:
    return ChannelError("a webhook shows no messages", fault=Fault.BLIND, unsure=True)
