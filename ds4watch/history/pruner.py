"""Deletes what is older than it is kept, in slices, so that appends go between.

The file keeps its size: SQLite puts new rows on the pages that became free. Retention is steady,
so that is all of them within a day; giving them back to the file system (auto_vacuum) would cost a
page map on every write, and scatter the rest. `VACUUM`, with ds4watch stopped, makes it smaller.
"""

from __future__ import annotations

from collections.abc import Callable

from ds4watch.history import prune_rows, sample_rows
from ds4watch.history.appender import Appender
from ds4watch.history.database import Database
from ds4watch.history.pace import Pace
from ds4watch.history.prune_rows import Expiry, Kind
from ds4watch.history.sample_rows import milliseconds
from ds4watch.history.schemas import SchemaTable
from ds4watch.history.sweep import sweep
from ds4watch.model.ports import UnixSeconds


class Pruner:
    """Deletes scrapes and roll-ups, and what they leave unused."""

    def __init__(
        self,
        database: Database,
        pace: Pace,
        appender: Appender,
        schemas: SchemaTable,
        *,
        forget: Callable[[int], None],
    ) -> None:
        """`forget` is called with the number of a target of which nothing is left."""
        self._forget = forget
        self._database = database
        self._pace = pace
        self._appender = appender
        self._schemas = schemas

    async def prune(self, before_at: UnixSeconds) -> int:
        """Delete scrapes older than `before_at`, folded or not, and return how many."""
        before_ms = milliseconds(before_at)
        deleted = await self._delete(prune_rows.CHUNKS, before_ms)
        for target_id in await self._database.read(sample_rows.oldest_ms, before_ms):
            deleted += await self._expire(target_id, before_ms)
        await sweep(self._pace)
        await self._drop_targets()
        await self._drop_schemas()
        return deleted

    async def prune_rollups(self, resolution_seconds: int, before_at: UnixSeconds) -> int:
        """Delete buckets older than `before_at` and return how many."""
        kind = prune_rows.rollups_of(resolution_seconds)
        deleted = await self._delete(kind, milliseconds(before_at))
        await self._drop_targets()
        return deleted

    async def _delete(self, kind: Kind, before_ms: int) -> int:
        deleted = 0
        for target_id in await self._database.read(prune_rows.targets_with_old, kind, before_ms):
            while gone := await self._pace.write(prune_rows.delete_old, kind, target_id, before_ms):
                deleted += gone
        return deleted

    async def _expire(self, target_id: int, before_ms: int) -> int:
        while True:
            found = await self._pace.read(prune_rows.expiry, target_id, before_ms)
            if await self._pace.in_writer(self._store_expiry, found):
                return found.rows

    def _store_expiry(self, found: Expiry) -> bool:
        with self._database.writing() as connection:
            done = prune_rows.expire(connection, found)
        if done and found.newest_id is not None:
            # A scrape that comes in meanwhile must not be told apart from a deleted row.
            self._appender.forget_columns(found.target_id)
        return done

    async def _drop_targets(self) -> None:
        for target_id in await self._database.read(prune_rows.empty_targets):
            await self._database.in_writer(self._drop_if_empty, target_id)

    def _drop_if_empty(self, target_id: int) -> None:
        with self._database.writing() as connection:
            gone = prune_rows.delete_target_if_empty(connection, target_id)
        if gone:
            self._appender.forget_target(target_id)
            self._forget(target_id)

    async def _drop_schemas(self) -> None:
        shown = await self._database.in_writer(self._appender.schemas_shown)
        idle = sorted(self._schemas.saved_ids() - shown)
        if not idle:
            return
        used = await self._database.read(prune_rows.folded_schemas, idle)
        for span in await self._database.read(sample_rows.spans) if set(idle) - used else ():
            used |= await self._pace.read(prune_rows.raw_schemas, span)
        await self._database.in_writer(self._forget_schemas, sorted(set(idle) - used))

    def _forget_schemas(self, schema_ids: list[int]) -> None:
        """Delete schemas that nothing refers to; scrapes may have come in meanwhile."""
        unused = sorted(set(schema_ids) - self._appender.schemas_shown())
        if unused:
            with self._database.writing() as connection:
                prune_rows.delete_schemas(connection, unused)
            self._schemas.forget(unused)
