"""Changes of who is let in, noted in the audit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.history.state import StateStore
from ds4watch.model.errors import StoreError
from ds4watch.model.ports import Clock

log = logging.getLogger(__name__)


class TokenJournal:
    """Stores what became of tokens, beside the request that showed it."""

    def __init__(self, state: StateStore, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self._storing: set[asyncio.Task[None]] = set()

    def note(self, told: Sequence[str]) -> None:
        """Store what became of each token; a database that fails costs the rows."""
        task = asyncio.get_running_loop().create_task(self._store(told))
        self._storing.add(task)
        task.add_done_callback(self._storing.discard)

    async def _store(self, told: Sequence[str]) -> None:
        now = self._clock.now()
        entries = [
            AuditEntry(now, AuditKind.ACCESS, "tokens", f"admin API: {it}", who="tokens file")
            for it in told
        ]
        try:
            await self._state.add_audit(*entries)
        except StoreError as error:
            log.warning("audit rows of tokens are lost: %s", error)
