"""Sends what is due to one channel, at its pace: nothing is lost, and what can be is not doubled.

Before a message is sent its id is noted; the note goes when it is known what became of it. A
message whose note is found (the daemon died, the answer was lost) is looked for by the channel
before it is sent again. Where nobody may look, it is sent again after the wait that follows each
failure, and says of itself that it may be there twice.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from ds4watch.alerting.grouping import Group, GroupSettings, Why, decide
from ds4watch.model.errors import EdgeError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.notify.group_channel import ChannelError, Digest, Fault, GroupChannel, Telling
from ds4watch.telemetry.metrics import ProcessMetrics

log = logging.getLogger(__name__)

_IDLE_SECONDS = 5.0
_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 300.0
_ACCESS_WAIT_SECONDS = 60.0
"""A renewed token is noticed after this."""
_DIGEST_AFTER_SECONDS = 300.0
_DIGEST_FROM = 3
Sent = TypeVar("Sent", Telling, Digest)


class Due(Protocol):
    """A group as a channel has it."""

    @property
    def group(self) -> Group:
        """The group."""
        ...

    @property
    def handle(self) -> Mapping[str, Any]:
        """By what its message is found."""
        ...

    @property
    def trying(self) -> str:
        """The message that may have been sent."""
        ...


class GroupStore(Protocol):
    """Where groups are kept."""

    async def due_groups(
        self, channel: str, at: UnixSeconds, settings: GroupSettings
    ) -> Sequence[Due]:
        """Return the groups that are to be told by now."""
        ...

    async def begin_group(self, channel: str, key: str, trying: str) -> None:
        """Note that a message is about to be sent."""
        ...

    async def keep_handle(self, channel: str, key: str, handle: Mapping[str, Any]) -> None:
        """Note by what the message is found."""
        ...

    async def group_failed(self, channel: str, key: str, error: str, *, unsure: bool) -> None:
        """Note that it was not sent, or that nobody knows."""
        ...

    async def group_told(
        self, channel: str, sent: Group, at: UnixSeconds, settings: GroupSettings
    ) -> None:
        """Note that it was sent."""
        ...

    async def keep_value(self, name: str, value: Any) -> None:
        """Keep a JSON value by name."""
        ...

    async def kept_values(self) -> Mapping[str, Any]:
        """Return what is kept by name."""
        ...


class GroupSender:
    """The loop of one channel."""

    def __init__(
        self,
        store: GroupStore,
        channel: GroupChannel,
        settings: GroupSettings,
        *,
        metrics: ProcessMetrics,
        clock: Clock,
    ) -> None:
        self._store = store
        self._channel = channel
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._wake = asyncio.Event()
        self._failures = 0
        self._closed_until = -math.inf
        """Of the monotonic clock: one that is set back must not close a channel for an hour."""
        self._outage: dict[str, Any] | None = None
        """Since when the channel is not reached, kept over a restart. None: not looked up yet."""
        metrics.notify_up.labels(channel.name).set(1)

    def wake(self) -> None:
        """Say that something may be due."""
        self._wake.set()

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            try:
                await self.turn()
            except EdgeError as error:
                log.warning("messages to %s wait: %s", self._channel.name, error)
            try:
                async with asyncio.timeout(self._wait_seconds()):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

    def _wait_seconds(self) -> float:
        left = self._closed_until - self._clock.monotonic()
        return min(_IDLE_SECONDS, left) if left > 0 else _IDLE_SECONDS

    async def turn(self) -> None:
        """Send all that is due, unless the channel asked for a pause or is not reached."""
        if self._clock.monotonic() < self._closed_until:
            return
        if self._outage is None:
            self._outage = (await self._store.kept_values()).get(self._kept_name) or {}
        now = self._clock.now()
        due = await self._store.due_groups(self._channel.name, now, self._settings)
        for stored in await self._after_outage(due, now):
            why = decide(stored.group, now, self._settings)
            if why is not None and not await self._send(stored, why):
                return

    @property
    def _kept_name(self) -> str:
        return f"notify_outage:{self._channel.name}"

    async def _after_outage(self, due: Sequence[Due], now: UnixSeconds) -> Sequence[Due]:
        """Send the digest if there was an outage; return what is to be told beside it."""
        outage = self._outage or {}
        since = outage.get("since")
        if since is None or now - since < _DIGEST_AFTER_SECONDS or len(due) < _DIGEST_FROM:
            return due
        id_ = f"digest-{since:.3f}"
        groups = tuple(it.group for it in due)
        digest = Digest(
            id_, since, now, groups, outage.get("error", ""), unsure=outage.get("trying") == id_
        )
        await self._keep_outage({**outage, "trying": id_})
        try:
            await self._or_doubled(digest, self._channel.digest)
        except ChannelError as error:
            if error.fault is not Fault.MESSAGE:
                await self._closed(error)
                if not (error.unsure or digest.unsure):
                    await self._keep_outage({**outage, "trying": ""})
                return ()
            log.warning("%s refuses the digest: %s", self._channel.name, error)
        self._count("digest")
        left = []
        for it in due:
            group = it.group
            if group.firing or group.notes or group.sent_at is not None or it.trying:
                left.append(it)
            else:  # It came and went meanwhile: the digest is all there is to say.
                await self._note_told(group)
        await self._opened()
        return left

    async def _send(self, stored: Due, why: Why) -> bool:
        """Tell of one group; return whether the channel takes more."""
        name, group = self._channel.name, stored.group
        telling = Telling(
            group, why, self._clock.now(), stored.handle, unsure=stored.trying == group.id
        )
        await self._store.begin_group(name, group.key, group.id)
        keep = partial(self._store.keep_handle, name, group.key)
        try:
            await self._or_doubled(telling, lambda it: self._channel.tell(it, keep))
        except ChannelError as error:
            return await self._failed(group, error, unsure=error.unsure or telling.unsure)
        await self._note_told(group)
        self._count("sent")
        await self._opened()
        await asyncio.sleep(self._channel.gap_seconds)
        return True

    async def _note_told(self, group: Group) -> None:
        await self._store.group_told(self._channel.name, group, self._clock.now(), self._settings)

    async def _or_doubled(self, it: Sent, send: Callable[[Sent], Awaitable[None]]) -> None:
        """Send; what may be there already and cannot be looked for is sent with a word of it."""
        try:
            await send(it)
        except ChannelError as error:
            if error.fault is not Fault.BLIND or it.doubled:
                raise
            log.warning("a message to %s may be there twice: %s", self._channel.name, error)
            await send(replace(it, doubled=True))
            self._count("maybe_twice")

    async def _failed(self, group: Group, error: ChannelError, *, unsure: bool) -> bool:
        if error.fault is Fault.MESSAGE:
            log.error("%s refuses a message, it is given up: %s", self._channel.name, error)
            self._count("given_up")
            await self._note_told(group)
            return True
        # It stays due, and so is the first to be tried again.
        await self._store.group_failed(self._channel.name, group.key, str(error), unsure=unsure)
        await self._closed(error)
        return False

    async def _closed(self, error: ChannelError) -> None:
        """Send nothing for a while."""
        ticks, name = self._clock.monotonic(), self._channel.name
        self._count(error.fault.value)
        if error.fault is Fault.BUSY:
            self._closed_until = ticks + max(_FIRST_WAIT_SECONDS, error.wait_seconds)
            return
        if error.fault is Fault.ACCESS:
            wait_seconds = _ACCESS_WAIT_SECONDS
        else:
            grown = _FIRST_WAIT_SECONDS * 2.0 ** min(self._failures, 20)
            wait_seconds = max(min(_LONGEST_WAIT_SECONDS, grown), error.wait_seconds)
        self._failures += 1
        self._closed_until = ticks + wait_seconds
        self._metrics.notify_up.labels(name).set(0)
        if not (self._outage or {}).get("since"):
            log.error("%s does not take messages, they wait: %s", name, error)
            await self._keep_outage({"since": self._clock.now(), "error": str(error)})

    async def _opened(self) -> None:
        self._failures = 0
        self._metrics.notify_up.labels(self._channel.name).set(1)
        if self._outage:
            log.warning("%s takes messages again", self._channel.name)
            await self._keep_outage({})

    async def _keep_outage(self, outage: dict[str, Any]) -> None:
        self._outage = outage
        await self._store.keep_value(self._kept_name, outage)

    def _count(self, outcome: str) -> None:
        self._metrics.notifications.labels(self._channel.name, outcome).inc()
