"""The store of scrapes: one row a scrape, every bit of every value kept."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import Connection

from ds4watch.history import sample_rows
from ds4watch.history.codec import ColumnState, PackedRow, pack_row
from ds4watch.history.database import Database
from ds4watch.history.errors import CorruptError
from ds4watch.history.line import SetAside, Tuning
from ds4watch.history.migrate import Which
from ds4watch.history.place import Place
from ds4watch.history.schemas import SchemaTable
from ds4watch.model.errors import ConfigError, StoreError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.scrape import ScrapeResult, Target
from ds4watch.model.series import Schema, SeriesKey

_log = logging.getLogger(__name__)

BUSY_TIMEOUT_SECONDS = 0.4
"""Under the scrape interval: a locked file makes samples wait, not the scrape loop."""
ANSWER_TIMEOUT_SECONDS = 1.0
WAITING_RESULTS = 20_000
_ROWS_PER_TRANSACTION = 200
"""Keeps a transaction under 50 ms even if each row is a keyframe of a new target."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one transaction changes in memory once it is on disk."""

    target_ids: dict[Target, int]
    columns: dict[int, ColumnState]
    schemas: list[Schema]


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the file knew when it was opened."""

    schemas: list[Schema]
    target_ids: dict[Target, int]


class SampleStore:
    """Scrapes on disk. Open it with `open`; every method may be called from the event loop.

    While the file cannot be written, up to `waiting_results` scrapes wait in memory; then the
    oldest are dropped and counted in `lost_rows`.
    """

    def __init__(
        self,
        database: Database,
        *,
        stored: _Stored,
        waiting_results: int = WAITING_RESULTS,
    ) -> None:
        self.lost_rows = 0
        self._database = database
        self._schemas = SchemaTable(stored.schemas)
        self._waiting: deque[ScrapeResult] = deque()
        self._waiting_results = waiting_results
        self._failing = False
        self._target_ids = stored.target_ids
        self._columns: dict[int, ColumnState] = {}

    @classmethod
    def open(
        cls,
        place: Place,
        clock: Clock,
        *,
        busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS,
        waiting_results: int = WAITING_RESULTS,
    ) -> SampleStore:
        """Open or make the database; a corrupt file is set aside with a warning.

        Raises what Database does.
        """
        tuning = Tuning(
            durable=False,
            busy_timeout_seconds=busy_timeout_seconds,
            answer_timeout_seconds=ANSWER_TIMEOUT_SECONDS,
        )
        database, stored = _opened(place, tuning, clock)
        return cls(database, stored=stored, waiting_results=waiting_results)

    def intern(self, series: tuple[SeriesKey, ...]) -> Schema:
        """Return the schema of a page. Its number outlives restarts once it was appended."""
        return self._schemas.intern(series)

    def schema(self, schema_id: int) -> Schema:
        """Return a schema by its number. Raises KeyError if there is none."""
        return self._schemas.get(schema_id)

    @property
    def waiting_rows(self) -> int:
        """Scrapes that wait for the file to be writable again."""
        return len(self._waiting)

    @property
    def set_aside(self) -> SetAside | None:
        """The corrupt file that was set aside last, if any was."""
        return self._database.set_aside

    async def append(self, results: Sequence[ScrapeResult]) -> None:
        """Store scrapes; on disk when this returns, or waiting if the database fails."""
        await self._database.in_writer(self._append, tuple(results))

    async def read(
        self, target: str, start_at: UnixSeconds, end_at: UnixSeconds
    ) -> list[ScrapeResult]:
        """Return the scrapes of a target with start_at <= at <= end_at, oldest first."""
        return await self._database.read(sample_rows.read_scrapes, target, start_at, end_at)

    async def last(self, target: str) -> ScrapeResult | None:
        """Return the newest scrape of a target, failed ones included."""
        return await self._database.read(sample_rows.last_scrape, target)

    async def targets(self) -> list[str]:
        """Return the names of all targets that have scrapes."""
        found = await self._database.read(sample_rows.stored_targets)
        return sorted({target.name for target in found.values()})

    async def prune(self, before_at: UnixSeconds) -> int:
        """Delete scrapes older than `before_at` and return how many.

        In slices, so that appends go between. Up to a minute of older rows stays, where younger
        ones are told apart from them.
        """
        deleted = 0
        for target_id in await self._database.read(sample_rows.target_ids):
            cut_id, everything = await self._database.in_writer(self._cut, target_id, before_at)
            while gone := await self._database.write(sample_rows.delete_slice, target_id, cut_id):
                deleted += gone
            if everything:
                await self._database.in_writer(self._drop_if_empty, target_id)
        return deleted

    async def close(self) -> None:
        """Store what waits, if it can be, and close the file."""
        if self._waiting:
            await self.append(())
        await self._database.close()

    def _append(self, results: Sequence[ScrapeResult]) -> None:
        self._waiting.extend(results)
        try:
            self._store_waiting()
        except CorruptError as error:
            self._start_anew(error)
        except (StoreError, ConfigError) as error:
            self._note_failure(error)
        else:
            self._note_success()
        self._drop_overflow()

    def _store_waiting(self) -> None:
        if not self._database.is_open:
            self._database.connect()
        while self._waiting:
            results = list(islice(self._waiting, _ROWS_PER_TRANSACTION))
            with self._database.writing() as connection:
                batch = self._store(connection, results)
            self._remember(batch)
            for _ in results:
                self._waiting.popleft()

    def _store(self, connection: Connection, results: list[ScrapeResult]) -> _Batch:
        batch = _Batch({}, {}, self._schemas.unsaved())
        sample_rows.insert_schemas(connection, batch.schemas)
        rows = []
        for result in results:
            target_id = self._target_id(connection, result.target, batch)
            packed = None
            if result.failure is None:
                packed = self._pack(target_id, result, batch)
            rows.append(sample_rows.scrape_row(result, target_id, packed))
        sample_rows.insert_scrapes(connection, rows)
        return batch

    def _target_id(self, connection: Connection, target: Target, batch: _Batch) -> int:
        known = self._target_ids.get(target) or batch.target_ids.get(target)
        if known is None:
            known = batch.target_ids[target] = sample_rows.insert_target(connection, target)
        return known

    def _pack(self, target_id: int, result: ScrapeResult, batch: _Batch) -> PackedRow:
        state = batch.columns.get(target_id) or self._columns.get(target_id)
        row, batch.columns[target_id] = pack_row(result.schema_id, result.values, state)
        return row

    def _remember(self, batch: _Batch) -> None:
        self._target_ids.update(batch.target_ids)
        self._columns.update(batch.columns)
        self._schemas.saved(batch.schemas)

    def _cut(self, target_id: int, before_at: UnixSeconds) -> tuple[int, bool]:
        with self._database.writing() as connection:
            cut_id, everything = sample_rows.expired_before(connection, target_id, before_at)
        if everything:
            # A scrape that comes in meanwhile must not be told apart from a deleted row.
            self._columns.pop(target_id, None)
        return cut_id, everything

    def _drop_if_empty(self, target_id: int) -> None:
        with self._database.writing() as connection:
            gone = sample_rows.delete_target_if_empty(connection, target_id)
        if gone:
            self._columns.pop(target_id, None)
            self._target_ids = {
                target: number for target, number in self._target_ids.items() if number != target_id
            }

    def _drop_overflow(self) -> None:
        while len(self._waiting) > self._waiting_results:
            self._waiting.popleft()
            self.lost_rows += 1

    def _note_failure(self, error: Exception) -> None:
        if not self._failing:
            _log.warning("%s: samples wait in memory: %s", self._database.label, error)
        self._failing = True

    def _note_success(self) -> None:
        if self._failing:
            _log.warning(
                "%s: can be written again, %s scrapes lost so far",
                self._database.label,
                self.lost_rows,
            )
        self._failing = False

    def _start_anew(self, error: CorruptError) -> None:
        """Set a file aside that went bad under our hands; what waits goes into the next one."""
        try:
            self._database.start_anew(error)
            self._target_ids.clear()
            self._columns.clear()
            self._schemas.forget_saved()
            self._store_waiting()
        except (StoreError, ConfigError) as next_error:
            self._note_failure(next_error)


def _opened(place: Place, tuning: Tuning, clock: Clock) -> tuple[Database, _Stored]:
    database = Database(place, Which.SAMPLES, tuning, clock)
    return database, database.first_read(_stored)


def _stored(connection: Connection) -> _Stored:
    schemas = sample_rows.stored_schemas(connection)
    targets = sample_rows.stored_targets(connection)
    return _Stored(schemas, {target: number for number, target in targets.items()})
