"""Alerts that an Alertmanager handed us; kept over a restart, held until they are repeated."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from ds4watch.alerting.external import current, merged, read_webhook, restored, stored
from ds4watch.model.alert import AlertState
from ds4watch.model.ports import Clock, UnixSeconds

log = logging.getLogger(__name__)

KEPT = "external_alerts"


class Keeper(Protocol):
    """Where they are kept."""

    async def keep_value(self, name: str, value: Any) -> None:
        """Keep a JSON value by name."""
        ...


class ExternalAlerts:
    """What others say fires."""

    def __init__(self, keeper: Keeper, kept: Any, clock: Clock, *, fresh_seconds: float) -> None:
        self._keeper = keeper
        self._known = restored(kept or ())
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._turn = asyncio.Lock()

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
            known = merged(self._known, handed)
            await self._keeper.keep_value(KEPT, stored(known.values()))
            self._known = known
        for fault in handed.faults[:3]:
            log.warning("an alert of Alertmanager's was left out: %s", fault)
        return {
            "firing": len(handed.firing),
            "resolved": len(handed.over),
            "refused": list(handed.faults[:20]),
            "known": len(known),
        }
