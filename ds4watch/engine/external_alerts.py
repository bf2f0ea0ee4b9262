"""Alerts that an Alertmanager handed us; kept over a restart, held until they are repeated."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from ds4watch.alerting.external import (
    MAX_ALERTS,
    current,
    merged,
    read_webhook,
    restored,
    stored,
)
from ds4watch.model.alert import AlertState
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.telemetry.metrics import ProcessMetrics

log = logging.getLogger(__name__)

KEPT = "external_alerts"


class Keeper(Protocol):
    """Where they are kept."""

    async def keep_value(self, name: str, value: Any) -> None:
        """Keep a JSON value by name."""
        ...


class ExternalAlerts:
    """What others say fires."""

    def __init__(
        self,
        keeper: Keeper,
        kept: Any,
        clock: Clock,
        *,
        fresh_seconds: float,
        metrics: ProcessMetrics,
    ) -> None:
        self._keeper = keeper
        self._known = restored(kept or ())
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._metrics = metrics
        self._turn = asyncio.Lock()
        self._is_full = False

    def alerts(self, now: UnixSeconds) -> tuple[AlertState, ...]:
        """Return them as ours are; those that were not repeated in time are held."""
        if not self._known:
            return ()
        return current(self._known.values(), now, fresh_seconds=self._fresh_seconds)

    async def take(self, document: Any) -> dict[str, Any]:
        """Take what Alertmanager's webhook says. Raises RefusedError if it is none of its."""
        handed = read_webhook(document, self._clock.now())
        # One at a time: an Alertmanager posts its groups side by side, and none may undo another.
        async with self._turn:
            known, left_out = merged(self._known, handed)
            await self._keeper.keep_value(KEPT, stored(known.values()))
            self._known = known
        self._say_full(left_out, len(known))
        for fault in handed.faults[:3]:
            log.warning("an alert of Alertmanager's was left out: %s", fault)
        return {
            "firing": len(handed.firing),
            "resolved": len(handed.over),
            "refused": list(handed.faults[:20]),
            "left_out": left_out,
            "known": len(known),
        }

    def _say_full(self, left_out: int, known: int) -> None:
        """Say that there is no room for more, and that there is again; each once."""
        self._metrics.external_left_out.inc(left_out)
        if left_out and not self._is_full:
            log.error(
                "%d alerts of Alertmanager's had no room: %d are the most; they lead to nothing",
                left_out,
                MAX_ALERTS,
            )
            self._is_full = True
        elif self._is_full and known < MAX_ALERTS:
            log.warning("there is room for alerts of Alertmanager's again: %d are known", known)
            self._is_full = False
