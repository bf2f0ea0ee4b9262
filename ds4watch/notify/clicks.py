"""Buttons that were pressed: by whom, whether they may, and what is written because of it.

Nothing is done here. A command is a row and a wake-up; who pressed is the row's author.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qs

from ds4watch.alerting.grouping import GroupSettings, Note
from ds4watch.model.errors import Ds4watchError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.notify.secret import Secret
from ds4watch.notify.slack_message import SILENCE_SECONDS
from ds4watch.notify.slack_pressed import settled
from ds4watch.notify.slack_questions import decided
from ds4watch.telemetry.metrics import ProcessMetrics

log = logging.getLogger(__name__)

_WINDOW_SECONDS = 300
_REMEMBERED = 1000
_HOLD_SECONDS = 3600
_ONCE = frozenset({"approve", "refuse", "undo"})
"""Buttons that nobody needs to see once one of them was pressed."""


@dataclass(frozen=True, slots=True)
class Given:
    """What is told of a command. is_done: it was carried out, and does not wait still."""

    told: str
    is_done: bool = True


class Orders(Protocol):
    """Where commands are written."""

    async def give(self, kind: str, fields: Mapping[str, Any], *, who: str) -> Given:
        """Write a command; return what came of it. Raises Ds4watchError if it was refused."""
        ...


class Thread(Protocol):
    """Where what a person did is told to the others."""

    async def say_in_group(
        self,
        channel: str,
        key: str,
        note: Note,
        *,
        acknowledged_by: str | None,
        settings: GroupSettings,
    ) -> bool:
        """Add it to a group; False if there is no such group any more."""
        ...


class Whisper(Protocol):
    """A way to answer who pressed."""

    async def whisper(self, channel: str, user: str, text: str) -> None:
        """Tell them alone. Raises NotifyError."""
        ...

    async def settle(
        self, channel: str, ts: str, text: str, attachments: Sequence[Mapping[str, Any]]
    ) -> None:
        """Show a message anew. Raises NotifyError."""
        ...


@dataclass(frozen=True, slots=True)
class Click:
    """A button that somebody pressed. `id` is the same if it is told twice.

    carried: the value as the button has it. message: where the button stands, as Slack tells it.
    """

    id: str
    verb: str
    value: Mapping[str, str]
    user: str
    user_name: str
    channel: str
    carried: str = ""
    message: Mapping[str, Any] = field(default_factory=dict)


class BadClickError(Ds4watchError):
    """What came is not a click of Slack's."""


def signature_of(secret: str, timestamp: str, body: bytes) -> str:
    """Return Slack's signature, version 0."""
    base = b"v0:" + timestamp.encode() + b":" + body
    return "v0=" + hmac.new(secret.encode(), base, hashlib.sha256).hexdigest()


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, now: UnixSeconds) -> bool:
    """Return whether Slack sent this within the last five minutes. Names in lower case."""
    timestamp = headers.get("x-slack-request-timestamp", "")
    if not timestamp.isascii() or not timestamp.isdecimal() or len(timestamp) > 12:
        return False
    if not secret or abs(now - int(timestamp)) > _WINDOW_SECONDS:
        return False
    wanted = signature_of(secret, timestamp, body)
    given = headers.get("x-slack-signature", "")
    return hmac.compare_digest(wanted.encode(), given.encode())


def clicks_in_form(body: bytes) -> list[Click]:
    """Return the clicks of a callback's body. Raises BadClickError."""
    try:
        fields = parse_qs(body.decode(), max_num_fields=20)
        document = json.loads(fields["payload"][0])
    except (ValueError, KeyError, RecursionError) as error:
        message = "the body has no payload of an interaction"
        raise BadClickError(message) from error
    return clicks_of(document)


def clicks_of(document: Any) -> list[Click]:
    """Return the clicks of an interaction; of other kinds none. Raises BadClickError."""
    try:
        if document.get("type") != "block_actions":
            return []
        user, channel = document["user"], document["channel"]["id"]
        message = document.get("message")
        name = user.get("username") or user.get("name") or user["id"]
        return [
            Click(
                id=f"{user['id']}:{it.get('action_ts', '')}:{it['action_id']}",
                verb=str(it["action_id"]),
                value=_value_of(it.get("value", "")),
                user=str(user["id"]),
                user_name=str(name)[:100],
                channel=str(channel),
                carried=str(it.get("value", "")),
                message=message if isinstance(message, dict) else {},
            )
            for it in document["actions"][:10]
        ]
    except (AttributeError, KeyError, TypeError) as error:
        message = "the interaction lacks a part"
        raise BadClickError(message) from error


def _value_of(text: Any) -> dict[str, str]:
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def order_of(click: Click, now: UnixSeconds) -> tuple[str, dict[str, Any]] | None:
    """Return the command that a click asks for; None: it asks for none, or lacks what it needs."""
    value, why = click.value, f"button in Slack by {click.user_name}"
    if click.verb == "hold" and value.get("pool"):
        return "hold", {"pool": value["pool"], "until": now + _HOLD_SECONDS, "why": why}
    if click.verb == "silence" and (match := _value_of(value.get("match", ""))):
        matchers = [{"name": k, "value": v, "is_regex": False} for k, v in sorted(match.items())]
        return "silence", {"matchers": matchers, "until": now + SILENCE_SECONDS, "why": why}
    if click.verb == "undo" and value.get("level") and value.get("pool"):
        return "act", {"name": value["level"], "pool": value["pool"], "why": why}
    if click.verb in ("approve", "refuse", "undo") and value.get("action"):
        return click.verb, {"action": value["action"], "why": why}
    return None


class Clicks:
    """Takes clicks from the callback and from Socket Mode alike."""

    def __init__(
        self,
        orders: Orders,
        thread: Thread,
        whisper: Whisper,
        *,
        allowed: Mapping[str, str],
        secret: Secret,
        settings: GroupSettings,
        metrics: ProcessMetrics,
        clock: Clock,
    ) -> None:
        """Take clicks of those in `allowed`, and of nobody else.

        allowed: ids of users, with who they are to the policy and the audit, or nothing. What Slack
        calls them proves nothing, for they may change it; who has no name here goes by the id too,
        and so is no approver by name.
        """
        self._orders = orders
        self._thread = thread
        self._whisper = whisper
        self._allowed = dict(allowed)
        self._secret = secret
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._seen: OrderedDict[str, None] = OrderedDict()

    async def callback(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Take a callback of Slack's; False if it is not signed. Raises BadClickError."""
        if not is_signed(self._secret.read(), headers, body, self._clock.now()):
            self._count("unsigned")
            return False
        for click in clicks_in_form(body):
            await self.take(click)
        return True

    async def interaction(self, document: Any) -> None:
        """Take what came by Socket Mode. Raises BadClickError."""
        for click in clicks_of(document):
            await self.take(click)

    async def take(self, click: Click) -> None:
        """Write what a click asks for, once, if its user may."""
        if click.id in self._seen:
            return
        self._seen[click.id] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        if click.user not in self._allowed:
            log.warning("%s (%s) may not press %s", click.user_name, click.user, click.verb)
            self._count("forbidden")
            await self._tell(click, "You are not on the list of those who may do this.")
            return
        who = self._allowed[click.user] or f"slack:{click.user_name} ({click.user})"
        try:
            given = await self._done(click, who)
        except Ds4watchError as error:
            # It may be pressed again.
            del self._seen[click.id]
            self._count("failed")
            log.warning("%s by %s could not be done: %s", click.verb, who, error)
            await self._tell(click, f"That could not be done: {error}")
            return
        if given is None:
            self._count("unknown")
            await self._tell(click, "This button means nothing (any more).")
            return
        self._count("taken")
        if given.is_done and click.verb in _ONCE:
            await self._settle(click, decided(given.told, who, self._clock.now()))
        told = f"{given.told} (by {who})"
        await self._say(click, told, by=who if click.verb == "acknowledge" else None)

    async def _done(self, click: Click, who: str) -> Given | None:
        if click.verb == "acknowledge":
            return Given("acknowledged")
        order = order_of(click, self._clock.now())
        if order is None:
            return None
        return await self._orders.give(*order, who=who)

    async def _settle(self, click: Click, told: str) -> None:
        """Put what came of a button in its place: there is no more to decide."""
        message = click.message
        shown = settled(message.get("attachments") or (), click.verb, click.carried, told)
        if shown is None or not message.get("ts"):
            return
        try:
            text = str(message.get("text") or told)
            await self._whisper.settle(click.channel, str(message["ts"]), text, shown)
        except Ds4watchError as error:
            log.warning("the buttons of %s stay: %s", click.verb, error)

    async def _say(self, click: Click, text: str, *, by: str | None) -> None:
        note = Note(f"said {click.id}", "said", self._clock.now(), {"id": click.id, "text": text})
        key = click.value.get("group", "")
        said = await self._thread.say_in_group(
            "slack", key, note, acknowledged_by=by, settings=self._settings
        )
        if not said:
            await self._tell(click, text)

    async def _tell(self, click: Click, text: str) -> None:
        try:
            await self._whisper.whisper(click.channel, click.user, text)
        except Ds4watchError as error:
            log.warning("%s was not told: %s", click.user_name, error)

    def _count(self, outcome: str) -> None:
        self._metrics.notify_commands.labels(outcome).inc()
