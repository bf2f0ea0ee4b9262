"""Sends what the outbox holds: claimed before it is sent, tried again with growing waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Protocol

from ds4watch.model.errors import EdgeError, NotifyError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.telemetry.metrics import ProcessMetrics

log = logging.getLogger(__name__)

_IDLE_SECONDS = 5.0
_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 300.0


class Notification(Protocol):
    """A row of the outbox."""

    @property
    def id(self) -> int:
        """Row id."""
        ...

    @property
    def attempts(self) -> int:
        """How often it was tried, this time included."""
        ...

    @property
    def payload(self) -> Mapping[str, Any]:
        """What is to be told."""
        ...


class Outbox(Protocol):
    """Where notifications wait."""

    async def claim_notification(self, at: UnixSeconds) -> Notification | None:
        """Take the oldest one that is due; None if there is none."""
        ...

    async def finish_notification(
        self,
        notification_id: int,
        *,
        at: UnixSeconds,
        error: str | None = None,
        retry_at: UnixSeconds | None = None,
    ) -> None:
        """Write how it went: sent, to be tried again at `retry_at`, or given up."""
        ...


class Channel(Protocol):
    """A way to tell people; `name` is its metric label."""

    name: str

    async def send(self, payload: Mapping[str, Any]) -> None:
        """Tell them. Raises NotifyError."""
        ...


class Dispatcher:
    """The loop from the outbox to the channel."""

    def __init__(
        self, outbox: Outbox, channel: Channel, *, metrics: ProcessMetrics, clock: Clock
    ) -> None:
        self._outbox = outbox
        self._channel = channel
        self._metrics = metrics
        self._clock = clock
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Say that something may be in the outbox."""
        self._wake.set()

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            try:
                await self._drain()
                async with asyncio.timeout(_IDLE_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                pass
            except EdgeError as error:
                log.warning("notifications wait: %s", error)
                await asyncio.sleep(_IDLE_SECONDS)
            self._wake.clear()

    async def _drain(self) -> None:
        while (row := await self._outbox.claim_notification(self._clock.now())) is not None:
            try:
                await self._channel.send(row.payload)
            except NotifyError as error:
                await self._failed(row, error)
            else:
                await self._outbox.finish_notification(row.id, at=self._clock.now())
                self._count("sent")

    async def _failed(self, row: Notification, error: NotifyError) -> None:
        self._count("failed" if error.retryable else "given_up")
        now = self._clock.now()
        tried = min(max(row.attempts, 1), 30)
        wait = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2 ** (tried - 1))
        retry_at = now + wait if error.retryable else None
        if tried == 1 or retry_at is None:
            log.warning("notification %s not delivered: %s", row.id, error)
        await self._outbox.finish_notification(row.id, at=now, error=str(error), retry_at=retry_at)

    def _count(self, outcome: str) -> None:
        self._metrics.notifications.labels(self._channel.name, outcome).inc()
