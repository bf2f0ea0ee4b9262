"""All the others (mail, Teams, Discord, PagerDuty, ntfy …) through apprise."""

from __future__ import annotations

import asyncio

import apprise

from ds4watch.alerting.grouping import Group
from ds4watch.model.alert import Tier
from ds4watch.notify.group_channel import ChannelError, Digest, Fault, Keep, Telling
from ds4watch.notify.plain_text import digest_lines, plain_message
from ds4watch.notify.secret import Secret
from ds4watch.notify.slack import NoViews, Views
from ds4watch.notify.slack_message import Links, title_of
from ds4watch.notify.slack_report import report_text, report_title

_NOWHERE = Links()
_TIMEOUT_SECONDS = 60.0
_KINDS = {
    Tier.CRITICAL: apprise.NotifyType.FAILURE,
    Tier.WARNING: apprise.NotifyType.WARNING,
    Tier.INFO: apprise.NotifyType.INFO,
    Tier.NONE: apprise.NotifyType.INFO,
}


class Apprise:
    """One address of apprise's. Which message it was that failed it does not say, nor why."""

    gap_seconds = 1.0

    def __init__(
        self,
        name: str,
        url: Secret,
        links: Links = _NOWHERE,
        views: Views | None = None,
    ) -> None:
        self.name = name
        self._url = url
        self._links = links
        self.views: Views = views or NoViews()

    async def tell(self, telling: Telling, keep: Keep) -> None:
        """Send the group as text, or what is new beside its alerts. Raises ChannelError."""
        del keep
        group = telling.group
        if group.members or any(it.kind != "report" for it in group.notes):
            title, body = plain_message(telling, self._links, self.views.threshold)
            await self._send(title, body, _kind_of(group))
        for note in group.notes:
            if note.kind == "report":
                await self._send(
                    report_title(note.payload), report_text(note.payload), apprise.NotifyType.INFO
                )

    async def digest(self, digest: Digest) -> None:
        """Send what came up during an outage. Raises ChannelError."""
        listed = [title_of(it) for it in digest.groups if it.members]
        minutes = (digest.until - digest.since) / 60
        title = f"Messages could not be delivered for {minutes:.0f} min"
        await self._send(title, digest_lines(listed), apprise.NotifyType.WARNING)

    async def _send(self, title: str, text: str, kind: apprise.NotifyType) -> None:
        sender = apprise.Apprise()
        # It loads a hundred modules at its first address.
        if not await asyncio.to_thread(sender.add, self._url.read()):
            message = f"{self.name} is no address that apprise knows"
            raise ChannelError(message, fault=Fault.ACCESS)
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                sent = await sender.async_notify(body=text, title=title, notify_type=kind)
        except TimeoutError as error:
            message = f"{self.name} did not answer in time"
            raise ChannelError(message, fault=Fault.OUTAGE, unsure=True) from error
        if not sent:
            message = f"{self.name} could not be told"
            raise ChannelError(message, fault=Fault.OUTAGE, unsure=True)


def _kind_of(group: Group) -> apprise.NotifyType:
    if group.firing:
        return _KINDS[group.tier]
    return apprise.NotifyType.SUCCESS if group.members else apprise.NotifyType.INFO
