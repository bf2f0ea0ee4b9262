"""Messages with a question: their buttons go once it is answered, wherever that was, or expires.

What is open is kept in the database, so that a daemon which was away settles it, too.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from ds4watch.model.errors import EdgeError
from ds4watch.model.ports import UnixSeconds
from ds4watch.notify.group_channel import ChannelError, Fault
from ds4watch.notify.slack_pressed import settled

log = logging.getLogger(__name__)

_KEPT = "slack_questions"
_VERB = "approve"
_MOST_MESSAGES = 100
_LOOK_SECONDS = 2.0
_WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a question: in words, by whom (empty: by nobody), when, why."""

    told: str
    who: str
    at: UnixSeconds
    why: str = ""


class Decisions(Protocol):
    """Where it is known what became of questions."""

    async def decision(self, action: str) -> Decision | None:
        """Return it; None: it waits still."""
        ...


class ValueStore(Protocol):
    """Where values are kept by name."""

    async def keep_value(self, name: str, value: Any) -> None:
        """Keep a JSON value."""
        ...

    async def kept_values(self) -> Mapping[str, Any]:
        """Return all that are kept."""
        ...


@dataclass(frozen=True, slots=True)
class Shown:
    """A message as it stands in Slack."""

    channel: str
    ts: str
    text: str
    attachments: Sequence[Mapping[str, Any]]

    @property
    def open(self) -> dict[str, str]:
        """The actions that it asks about, each with what its buttons carry."""
        found = {}
        for attachment in self.attachments:
            for block in attachment.get("blocks", ()):
                for it in block.get("elements", ()):
                    if it.get("action_id") == _VERB and (action := _action_of(it)):
                        found[action] = str(it["value"])
        return found


Edit = Callable[[Shown], Awaitable[None]]
"""Shows a message anew. Raises ChannelError."""


class OpenQuestions:
    """Knows which messages have a question, and settles them."""

    def __init__(
        self, store: ValueStore, decisions: Decisions, *, look_seconds: float = _LOOK_SECONDS
    ) -> None:
        self._store = store
        self._decisions = decisions
        self._look_seconds = look_seconds
        self._shown: dict[str, Shown] | None = None

    async def note(self, message: Shown) -> None:
        """Take a message that was posted or edited. Raises StoreError."""
        shown = await self._loaded()
        if not message.open and message.ts not in shown:
            return
        shown.pop(message.ts, None)
        if message.open:
            shown[message.ts] = message
        while len(shown) > _MOST_MESSAGES:
            shown.pop(next(iter(shown)))
        await self._keep(shown)

    async def run(self, edit: Edit) -> None:
        """Settle until cancelled."""
        while True:
            wait_seconds = self._look_seconds
            try:
                await self.look(edit)
            except ChannelError as error:
                log.warning("buttons of answered questions stay for now: %s", error)
                wait_seconds = max(error.wait_seconds, _WAIT_SECONDS)
            except EdgeError as error:
                log.warning("buttons of answered questions stay for now: %s", error)
                wait_seconds = _WAIT_SECONDS
            await asyncio.sleep(wait_seconds)

    async def look(self, edit: Edit) -> None:
        """Put answers in the place of buttons. Raises EdgeError: it is to be tried again."""
        for message in list((await self._loaded()).values()):
            after = await self._answered(message)
            if after is message:
                continue
            try:
                await edit(after)
            except ChannelError as error:
                if error.fault is not Fault.MESSAGE:
                    raise
                log.warning("buttons of an answered question stay: %s", error)
                after = Shown(message.channel, message.ts, message.text, ())
            await self.note(after)

    async def _answered(self, message: Shown) -> Shown:
        """Return the message with the answers that there are; itself, if there are none."""
        for action, value in message.open.items():
            decision = await self._decisions.decision(action)
            if decision is None:
                continue
            after = settled(message.attachments, _VERB, value, _told(decision))
            if after is not None:
                message = Shown(message.channel, message.ts, message.text, after)
        return message

    async def _loaded(self) -> dict[str, Shown]:
        if self._shown is None:
            found = (await self._store.kept_values()).get(_KEPT) or []
            self._shown = {it["ts"]: Shown(**it) for it in found}
        return self._shown

    async def _keep(self, shown: Mapping[str, Shown]) -> None:
        rows = [
            {"channel": it.channel, "ts": it.ts, "text": it.text, "attachments": it.attachments}
            for it in shown.values()
        ]
        await self._store.keep_value(_KEPT, rows)


def decided(told: str, who: str, at: UnixSeconds) -> str:
    """Return what was decided, by whom and when, as text without markup."""
    by = f" (by {who})" if who else ""
    return f"{told}{by}, {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S UTC}"


def _told(decision: Decision) -> str:
    return decided(decision.told, decision.who, decision.at) + (
        f": {decision.why}" if decision.why else ""
    )


def _action_of(button: Mapping[str, Any]) -> str:
    try:
        found = json.loads(button["value"])
    except (KeyError, TypeError, ValueError):
        return ""
    return str(found.get("action", "")) if isinstance(found, dict) else ""
