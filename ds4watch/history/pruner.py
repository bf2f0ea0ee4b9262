"""Deletes what is older than it is kept, in slices, so that appends go between.

The file keeps its size: SQLite puts new rows on the pages that became free. Retention is steady,
so that is all of them within a day; giving them back to the file system (auto_vacuum) would cost a
page map on every write, and scatter the rest. `VACUUM`, with ds4watch stopped, makes it smaller.
"""

from __future__ import annotations

from collections.abc import Callable

from ds4watch.history import chunk_rows, sample_rows
from ds4watch.history.appender import Appender
from ds4watch.history.database import Database
from ds4watch.history.sample_rows import milliseconds
from ds4watch.history.schemas import SchemaTable
from ds4watch.history.sweep import sweep
from ds4watch.model.ports import UnixSeconds


class Pruner:
    """Deletes scrapes and roll-ups, and what they leave unused."""

    def __init__(
        self,
        database: Database,
        appender: Appender,
        schemas: SchemaTable,
        *,
        forget: Callable[[int], None],
    ) -> None:
        """`forget` is called with the number of a target of which nothing is left."""
        self._forget = forget
        self._database = database
        self._appender = appender
        self._schemas = schemas

    async def prune(self, before_at: UnixSeconds) -> int:
        """Delete scrapes older than `before_at`, folded or not, and return how many."""
        deleted = 0
        for target_id in await self._database.read(sample_rows.target_ids):
            while gone := await self._database.write(
                chunk_rows.chunks_before, target_id, milliseconds(before_at)
            ):
                deleted += gone
            deleted += await self._database.in_writer(self._expire, target_id, before_at)
        await sweep(self._database)
        await self._drop_targets()
        await self._drop_schemas()
        return deleted

    async def prune_rollups(self, resolution_seconds: int, before_at: UnixSeconds) -> int:
        """Delete buckets older than `before_at` and return how many."""
        deleted = 0
        for target_id in await self._database.read(sample_rows.target_ids):
            while gone := await self._database.write(
                chunk_rows.rollups_before, target_id, resolution_seconds, milliseconds(before_at)
            ):
                deleted += gone
        await self._drop_targets()
        return deleted

    def _expire(self, target_id: int, before_at: UnixSeconds) -> int:
        with self._database.writing() as connection:
            gone, everything = sample_rows.expire(connection, target_id, before_at)
        if everything:
            # A scrape that comes in meanwhile must not be told apart from a deleted row.
            self._appender.forget_columns(target_id)
        return gone

    async def _drop_targets(self) -> None:
        for target_id in await self._database.read(sample_rows.empty_targets):
            await self._database.in_writer(self._drop_if_empty, target_id)

    def _drop_if_empty(self, target_id: int) -> None:
        with self._database.writing() as connection:
            gone = sample_rows.delete_target_if_empty(connection, target_id)
        if gone:
            self._appender.forget_target(target_id)
            self._forget(target_id)

    async def _drop_schemas(self) -> None:
        shown = await self._database.in_writer(self._appender.schemas_shown)
        idle = sorted(self._schemas.saved_ids() - shown)
        used = await self._database.read(chunk_rows.schemas_in_use, idle)
        await self._database.in_writer(self._forget_schemas, sorted(set(idle) - used))

    def _forget_schemas(self, schema_ids: list[int]) -> None:
        """Delete schemas that nothing refers to; scrapes may have come in meanwhile."""
        unused = sorted(set(schema_ids) - self._appender.schemas_shown())
        if unused:
            with self._database.writing() as connection:
                sample_rows.delete_schemas(connection, unused)
            self._schemas.forget(unused)
