"""What becomes of workers, noted where people look."""

from __future__ import annotations

import asyncio
import logging

from ds4watch.history.rows import AuditEntry, AuditKind, StartTime
from ds4watch.history.state import StateStore
from ds4watch.model.errors import StoreError
from ds4watch.model.ports import Clock
from ds4watch.model.worker import WorkerPhase, WorkerView

log = logging.getLogger(__name__)


class WorkerJournal:
    """Notes what becomes of workers: a log line, an audit row, a row of the workers' table."""

    def __init__(self, state: StateStore, *, wake: asyncio.Event, clock: Clock) -> None:
        """Set `wake` at each change, for the gateways route by what the next tick tells them."""
        self._state = state
        self._wake = wake
        self._clock = clock

    async def worker_changed(self, view: WorkerView, old: WorkerPhase) -> None:
        """Note the change; a database that fails costs the row, not the worker."""
        told = f"{old.value} → {view.phase.value}" + (f": {view.reason}" if view.reason else "")
        log.info("%s %s", view.id, told)
        self._wake.set()
        entry = AuditEntry(self._clock.now(), AuditKind.WORKER, view.id, told, {"url": view.url})
        try:
            await self._state.add_audit(entry)
        except StoreError as error:
            log.warning("the audit row of %s is lost: %s", view.id, error)

    async def worker_came_up(self, view: WorkerView, took_seconds: float) -> None:
        """Note how long a start took; what is lost costs a figure, not the worker."""
        start = StartTime(self._clock.now(), view.profile, view.id, took_seconds)
        try:
            await self._state.add_start_time(start)
        except StoreError as error:
            log.warning("the start-up time of %s is lost: %s", view.id, error)
