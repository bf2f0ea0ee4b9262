"""All the others (mail, Teams, Discord, PagerDuty, ntfy …) through apprise."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import apprise

from ds4watch.alerting.grouping import Group, ranked
from ds4watch.model.alert import Tier
from ds4watch.notify.group_channel import ChannelError, Digest, Fault, Keep, Telling
from ds4watch.notify.secret import Secret
from ds4watch.notify.slack_message import title_of
from ds4watch.notify.slack_report import report_text, report_title

_MOST_LISTED = 20
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

    def __init__(self, name: str, url: Secret) -> None:
        self.name = name
        self._url = url

    async def tell(self, telling: Telling, keep: Keep) -> None:
        """Send the group as text. Raises ChannelError."""
        del keep
        group = telling.group
        kind = _KINDS[group.tier] if group.firing else apprise.NotifyType.SUCCESS
        if group.members:
            await self._send(title_of(group), group_text(group), kind)
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
        await self._send(title, _lines(listed), apprise.NotifyType.WARNING)

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


def group_text(group: Group) -> str:
    """Return a group as lines of text."""
    lines = []
    for it in ranked(group.members):
        labels = dict(it.news.labels)
        where = ", ".join(f"{k} {v}" for k, v in sorted(labels.items()) if k != "alertname")
        summary = dict(it.news.annotations).get("summary") or it.news.reason
        state = "firing" if it.news.firing else "over"
        lines.append(f"{state}: {it.news.name} ({where}): {summary}, value {it.news.value}")
    return _lines(lines)


def _lines(lines: Sequence[str]) -> str:
    hidden = len(lines) - _MOST_LISTED
    return "\n".join([*lines[:_MOST_LISTED], *([f"… and {hidden} more"] if hidden > 0 else [])])
