"""What dead workers left on GPUs, noted where people look."""

from __future__ import annotations

import logging

from ds4watch.fleet.gpu_desk import Leftover
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.history.state import StateStore
from ds4watch.model.errors import StoreError
from ds4watch.model.ports import Clock
from ds4watch.telemetry.metrics import ProcessMetrics

log = logging.getLogger(__name__)


class GpuJournal:
    """Notes leftover memory: a figure of ours, and an audit row. The desk logs it."""

    def __init__(self, state: StateStore, metrics: ProcessMetrics, clock: Clock) -> None:
        self._state = state
        self._metrics = metrics
        self._clock = clock

    async def gpu_leftover(self, found: Leftover) -> None:
        """Note that memory was left, or is free again; a database that fails costs the row."""
        self._metrics.gpu_leftover.labels(found.device).set(found.used_bytes)
        detail = {"device": found.device, "used_bytes": found.used_bytes}
        entry = AuditEntry(self._clock.now(), AuditKind.WORKER, found.worker_id, str(found), detail)
        try:
            await self._state.add_audit(entry)
        except StoreError as error:
            log.warning("the audit row of %s is lost: %s", found.device, error)
