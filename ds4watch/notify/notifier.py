"""Shares out what is new to the channels that tell groups, and keeps them going."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from ds4watch.alerting.grouping import GroupSettings
from ds4watch.model.errors import EdgeError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.notify.group_sender import GroupSender
from ds4watch.telemetry.metrics import ProcessMetrics

log = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0


class NewsStore(Protocol):
    """Where news waits."""

    async def absorb_news(self, channels: Mapping[str, GroupSettings], at: UnixSeconds) -> int:
        """Put what is new into the groups of each channel; return how much it was."""
        ...

    async def groups_waiting(self, at: UnixSeconds) -> list[tuple[str, int, UnixSeconds]]:
        """Return by channel how many groups are due, and since when."""
        ...


class Notifier:
    """All channels that tell groups, and what else is to run as long as they do."""

    def __init__(
        self,
        store: NewsStore,
        senders: Mapping[str, GroupSender],
        settings: GroupSettings,
        *,
        metrics: ProcessMetrics,
        clock: Clock,
        also: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
    ) -> None:
        self._store = store
        self._senders = senders
        self._channels = dict.fromkeys(senders, settings)
        self._metrics = metrics
        self._clock = clock
        self._also = also

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for loop in (self._share_out(), *(it.run() for it in self._senders.values())):
                tasks.create_task(loop)
            for other in self._also:
                tasks.create_task(other())

    async def _share_out(self) -> None:
        while True:
            try:
                await self.look()
            except EdgeError as error:
                log.warning("news is not shared out yet: %s", error)
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Take what is new, and let the channels look whether something is due."""
        now = self._clock.now()
        while await self._store.absorb_news(self._channels, now):
            pass
        for sender in self._senders.values():
            sender.wake()
        await self._measure(now)

    async def _measure(self, now: UnixSeconds) -> None:
        found = {
            name: (count, since) for name, count, since in await self._store.groups_waiting(now)
        }
        for name in self._senders:
            count, since = found.get(name, (0, now))
            self._metrics.outbox_waiting.labels(name).set(count)
            self._metrics.outbox_oldest.labels(name).set(max(0.0, now - since))
