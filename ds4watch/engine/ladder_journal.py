"""Where memory ladders are kept and told: in the state, in the audit, in the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ds4watch.fleet.memory_ladder import Ladder
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.history.state import StateStore
from ds4watch.model.errors import StoreError
from ds4watch.model.ports import Clock

log = logging.getLogger(__name__)

LADDERS = "memory_ladders"


class StateLadders:
    """Keeps ladders in the state (fleet.ladders.LadderJournal)."""

    def __init__(self, state: StateStore, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    async def ladder_changed(
        self, worker_id: str, told: str, ladders: Mapping[str, Ladder]
    ) -> None:
        """Keep them; a database that fails costs the row: the step holds for this daemon."""
        log.warning("%s: %s", worker_id, told)
        ladder = ladders.get(worker_id, Ladder())
        entry = AuditEntry(
            self._clock.now(), AuditKind.WORKER, worker_id, told, {"ladder": ladder.as_json()}
        )
        try:
            await self._state.keep_value(
                LADDERS, {name: it.as_json() for name, it in ladders.items()}
            )
            await self._state.add_audit(entry)
        except StoreError as error:
            log.warning("the memory ladder of %s is not kept: %s", worker_id, error)


def kept_ladders(values: Mapping[str, Any]) -> dict[str, Ladder]:
    """Return the ladders among kept values; one that cannot be read is left out, and told."""
    kept = values.get(LADDERS)
    found: dict[str, Ladder] = {}
    for name, data in kept.items() if isinstance(kept, Mapping) else ():
        try:
            found[name] = Ladder.from_json(data)
        except (KeyError, TypeError, ValueError) as error:
            log.warning("the memory ladder of %s cannot be read: %s", name, error)
    return found
