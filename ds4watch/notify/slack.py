"""Slack by its Web API: one message a group, edited in place; what is new goes into its thread.

Each message carries its id as metadata. After an unclear end (a time-out, a daemon that died) it
is looked for by that, and sent again only if it is not there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from ds4watch.alerting.grouping import News, ranked
from ds4watch.model.ports import UnixSeconds
from ds4watch.notify.group_channel import ChannelError, Digest, Keep, Telling
from ds4watch.notify.picture import sparkline
from ds4watch.notify.secret import Secret
from ds4watch.notify.slack_errors import looking, mapped
from ds4watch.notify.slack_message import (
    Links,
    Message,
    digest_message,
    follow_up,
    message_of,
    notes_message,
    title_of,
)
from ds4watch.notify.slack_questions import OpenQuestions, Shown
from ds4watch.notify.slack_report import report_picture, report_title

log = logging.getLogger(__name__)

_EVENT = "ds4watch"
_TIMEOUT_SECONDS = 15
_LOOK_BACK = 200
_GONE = frozenset({"Slack refuses the message: message_not_found"})


class Views(Protocol):
    """What of an alert is shown beside its value."""

    def threshold(self, news: News) -> str:
        """Return the condition that it passed, as `> 50`; empty if it is not known."""
        ...

    async def past(self, news: News, at: UnixSeconds) -> Sequence[tuple[UnixSeconds, float]]:
        """Return the last hour of what the rule looks at; empty if it is not known."""
        ...


class NoViews:
    """Knows nothing beside the value."""

    def threshold(self, news: News) -> str:
        """Return nothing."""
        del news
        return ""

    async def past(self, news: News, at: UnixSeconds) -> Sequence[tuple[UnixSeconds, float]]:
        """Return nothing."""
        del news, at
        return ()


@dataclass(frozen=True, slots=True)
class SlackPlace:
    """Where and how to post. buttons: whether somebody would hear them being pressed."""

    token: Secret
    channel: str
    api_url: str = "https://slack.com/api/"
    buttons: bool = False
    pictures: bool = True
    timeout_seconds: int = _TIMEOUT_SECONDS
    gap_seconds: float = 1.0


class Slack:
    """One channel of Slack."""

    name = "slack"

    def __init__(
        self,
        session: aiohttp.ClientSession,
        place: SlackPlace,
        links: Links,
        views: Views | None = None,
        questions: OpenQuestions | None = None,
    ) -> None:
        """`questions`: where those that are asked are noted; without, their buttons stay."""
        self.gap_seconds = place.gap_seconds
        self.views: Views = views or NoViews()
        self._questions = questions
        self._session = session
        self._place = place
        self._links = links

    async def tell(self, telling: Telling, keep: Keep) -> None:
        """Post or edit the group's message; say in its thread what is new. Raises ChannelError."""
        group, handle = telling.group, dict(telling.handle)
        message = self._message(telling)
        stands = handle.get("ts") and handle.get("begun") == group.first_at
        if stands and group.members and not await self._edited(handle, message):
            stands = False
        if not stands:
            handle = await self._posted(telling, message)
            await keep(handle)
            await self._said_beside(telling, handle)
        elif handle.get("posted") != group.id:
            await self._said(telling, handle)
        else:  # It failed behind the message itself.
            await self._said_beside(telling, handle)
        if self._place.pictures and not handle.get("picture"):
            # Marked first: a picture too few is better than one too many.
            await keep({**handle, "picture": True})
            await self._draw(telling, handle)

    async def digest(self, digest: Digest) -> None:
        """Post what came up during an outage. Raises ChannelError."""
        unsure = digest.unsure and not digest.doubled
        await self._once(digest.id, digest_message(digest), unsure=unsure)

    async def whisper(self, channel: str, user: str, text: str) -> None:
        """Tell one person something that the others do not see. Raises ChannelError."""
        async with mapped():
            await self._client().chat_postEphemeral(channel=channel, user=user, text=text)

    async def settle(
        self, channel: str, ts: str, text: str, attachments: Sequence[Mapping[str, Any]]
    ) -> None:
        """Show a message anew: its buttons were pressed. Raises ChannelError."""
        async with mapped():
            await self._client().chat_update(
                channel=channel, ts=ts, text=text, attachments=[dict(it) for it in attachments]
            )
        await self._noted(Shown(channel, ts, text, attachments))

    async def show(self, shown: Shown) -> None:
        """Show a message anew. Raises ChannelError."""
        await self.settle(shown.channel, shown.ts, shown.text, shown.attachments)

    async def _noted(self, shown: Shown) -> None:
        if self._questions is not None:
            await self._questions.note(shown)

    def _message(self, telling: Telling) -> Message:
        return message_of(telling, self._links, self.views.threshold, buttons=self._place.buttons)

    async def _posted(self, telling: Telling, message: Message) -> dict[str, Any]:
        group = telling.group
        unsure = telling.unsure and not telling.doubled
        found = await self._once(group.id, message, unsure=unsure)
        return {**found, "begun": group.first_at, "posted": group.id}

    async def _edited(self, handle: Mapping[str, Any], message: Message) -> bool:
        """Edit the message; False if somebody deleted it."""
        try:
            async with mapped():
                await self._client().chat_update(
                    channel=handle["channel"],
                    ts=handle["ts"],
                    text=message.text,
                    attachments=message.attachments,
                )
        except ChannelError as error:
            if str(error) in _GONE:
                return False
            raise
        return True

    async def _said(self, telling: Telling, handle: Mapping[str, Any]) -> None:
        message = follow_up(telling, self.views.threshold, buttons=self._place.buttons)
        if message is not None:
            await self._in_thread(telling.group.id, message, telling, handle)

    async def _said_beside(self, telling: Telling, handle: Mapping[str, Any]) -> None:
        """Say in the thread of a message that is new what came with its alerts: questions, too."""
        if telling.group.members and telling.group.notes:
            message = notes_message(telling, buttons=self._place.buttons)
            await self._in_thread(f"{telling.group.id}-notes", message, telling, handle)

    async def _in_thread(
        self, id_: str, message: Message, telling: Telling, handle: Mapping[str, Any]
    ) -> None:
        await self._once(
            id_,
            message,
            unsure=telling.unsure and not telling.doubled,
            channel=handle["channel"],
            thread=handle["ts"],
        )

    async def _once(
        self,
        id_: str,
        message: Message,
        *,
        unsure: bool,
        channel: str = "",
        thread: str | None = None,
    ) -> dict[str, Any]:
        """Post unless it is there already; return where it is."""
        channel = channel or self._place.channel
        if unsure:
            ts = await self._find(id_, channel, thread)
            if ts is not None:
                await self._noted(Shown(channel, ts, message.text, message.attachments))
                return {"channel": channel, "ts": ts}
        async with mapped():
            answer = await self._client().chat_postMessage(
                channel=channel,
                text=message.text,
                attachments=message.attachments,
                thread_ts=thread,
                unfurl_links=False,
                unfurl_media=False,
                metadata={"event_type": _EVENT, "event_payload": {"id": id_}},
            )
        channel, ts = str(answer.get("channel") or channel), str(answer["ts"])
        await self._noted(Shown(channel, ts, message.text, message.attachments))
        return {"channel": channel, "ts": ts}

    async def _find(self, id_: str, channel: str, thread: str | None) -> str | None:
        """Return the `ts` of the message with this id, if it is among the last ones.

        Raises ChannelError: of BLIND if the bot may not look.
        """
        client = self._client()
        async with looking(), mapped():
            if thread is not None:
                answer = await client.conversations_replies(
                    channel=channel, ts=thread, limit=_LOOK_BACK, include_all_metadata=True
                )
            else:
                answer = await client.conversations_history(
                    channel=channel, limit=_LOOK_BACK, include_all_metadata=True
                )
        messages: list[dict[str, Any]] = answer.get("messages") or []
        for found in messages:
            payload = (found.get("metadata") or {}).get("event_payload") or {}
            if payload.get("id") == id_:
                return str(found["ts"])
        return None

    async def _draw(self, telling: Telling, handle: Mapping[str, Any]) -> None:
        """Put the picture into the thread; without one the message is good enough."""
        try:
            picture, title = await self._picture(telling)
            if picture is None:
                return
            async with mapped():
                await self._client().files_upload_v2(
                    content=picture,
                    filename="chart.png",
                    title=title,
                    alt_txt=title[:1000],
                    channel=handle["channel"],
                    thread_ts=handle["ts"],
                )
        except ChannelError as error:
            log.warning("a picture for Slack was left out: %s", error)

    async def _picture(self, telling: Telling) -> tuple[bytes | None, str]:
        group = telling.group
        for note in group.notes:
            if note.kind == "report":
                return report_picture(note.payload), report_title(note.payload)
        if not group.firing:
            return None, ""
        worst = ranked(group.members)[0].news
        points = await self.views.past(worst, telling.at)
        limit = _limit(self.views.threshold(worst))
        return sparkline(points, threshold=limit), f"{title_of(group)}, the last hour"

    def _client(self) -> AsyncWebClient:
        # No handlers: a retry of the library's own would post twice.
        return AsyncWebClient(
            token=self._place.token.read(),
            base_url=self._place.api_url,
            timeout=self._place.timeout_seconds,
            session=self._session,
            retry_handlers=[],
        )


def _limit(threshold: str) -> float | None:
    try:
        return float(threshold.rsplit(maxsplit=1)[-1])
    except (IndexError, ValueError):
        return None
