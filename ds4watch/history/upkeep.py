"""What is done to stored scrapes in the background: folding, joining, pruning; one at a time.

Loaded when it is first called for: the first evaluation after a start does not wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ds4watch.history.appender import Appender
from ds4watch.history.database import Database
from ds4watch.history.fold import FoldReport
from ds4watch.history.folder import Folder
from ds4watch.history.pace import Pace
from ds4watch.history.pruner import Pruner
from ds4watch.history.schemas import SchemaTable
from ds4watch.model.ports import UnixSeconds


class Upkeep:
    """The upkeep of one store."""

    def __init__(
        self,
        database: Database,
        pace: Pace,
        appender: Appender,
        schemas: SchemaTable,
        *,
        damaged: Callable[[str], None],
    ) -> None:
        """`damaged` is called for each part that had to be left out."""
        self._one_at_a_time = asyncio.Lock()
        self._folder = Folder(database, pace, appender, schemas.get, damaged=damaged)
        self._pruner = Pruner(database, pace, appender, schemas, forget=self._folder.forget_target)

    def start_anew(self) -> None:
        """Forget everything about the file."""
        self._folder.start_anew()

    async def fold(self, now: UnixSeconds, *, spread_seconds: float) -> FoldReport:
        """Fold what is due; see `SampleStore.fold`."""
        async with self._one_at_a_time:
            return await self._folder.fold(now, spread_seconds=spread_seconds)

    async def prune(self, before_at: UnixSeconds) -> int:
        """Delete old scrapes; see `SampleStore.prune`."""
        async with self._one_at_a_time:
            return await self._pruner.prune(before_at)

    async def prune_rollups(self, resolution_seconds: int, before_at: UnixSeconds) -> int:
        """Delete old roll-ups; see `SampleStore.prune_rollups`."""
        async with self._one_at_a_time:
            return await self._pruner.prune_rollups(resolution_seconds, before_at)
