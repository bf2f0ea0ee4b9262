"""Scrapes on their way to the disk: packed, written, or waiting until they can be."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from sqlalchemy import Connection

from ds4watch.history import sample_rows
from ds4watch.history.codec import ColumnState, NewRow, PackedRow, pack_rows
from ds4watch.history.database import Database
from ds4watch.history.errors import CorruptError
from ds4watch.history.schemas import SchemaTable
from ds4watch.model.errors import ConfigError, StoreError
from ds4watch.model.scrape import ScrapeResult, Target
from ds4watch.model.series import Schema

_log = logging.getLogger(__name__)

_ROWS_PER_TRANSACTION = 200
"""Keeps a transaction under 50 ms even if each row is a keyframe of a new target."""


@dataclass(slots=True)
class _Batch:
    """What one transaction changes in memory once it is on disk."""

    schemas: list[tuple[str, Schema]]
    target_ids: dict[Target, int] = field(default_factory=dict)
    columns: dict[int, ColumnState] = field(default_factory=dict)
    bytes: Counter[int] = field(default_factory=Counter)


class Appender:
    """Everything here but the counts is for the writer's thread alone.

    While the file cannot be written, up to `waiting_results` scrapes wait; then the oldest are
    dropped and counted in `lost_rows`. `raw_bytes` counts what each target has stored.
    `started_anew` is called when a corrupt file was set aside.
    """

    def __init__(
        self,
        database: Database,
        schemas: SchemaTable,
        *,
        target_ids: dict[Target, int],
        waiting_results: int,
        started_anew: Callable[[], None],
    ) -> None:
        self.lost_rows = 0
        self.raw_bytes: Counter[int] = Counter()
        self._database = database
        self._schemas = schemas
        self._target_ids = target_ids
        self._waiting: deque[ScrapeResult] = deque()
        self._waiting_results = waiting_results
        self._started_anew = started_anew
        self._failing = False
        self._columns: dict[int, ColumnState] = {}

    @property
    def waiting_rows(self) -> int:
        """Scrapes that wait for the file to be writable again."""
        return len(self._waiting)

    def append(self, results: Sequence[ScrapeResult]) -> None:
        """Store scrapes after those that wait, or let them wait."""
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

    def count_raw(self, sizes: Mapping[int, int]) -> None:
        """Take over what is stored of some targets, where that was not all appended here."""
        self.raw_bytes |= Counter(sizes)

    def over(self, size: int) -> list[int]:
        """Return the targets that have more bytes of raw scrapes than `size`."""
        return [target_id for target_id, stored in self.raw_bytes.copy().items() if stored > size]

    def forget_columns(self, target_id: int) -> None:
        """Begin with a keyframe: the row that the next one would be told apart from is gone."""
        self._columns.pop(target_id, None)

    def forget_target(self, target_id: int) -> None:
        """Note that a target is no longer stored."""
        self.forget_columns(target_id)
        self.raw_bytes.pop(target_id, None)
        self._target_ids = {
            target: number for target, number in self._target_ids.items() if number != target_id
        }

    def schemas_shown(self) -> set[int]:
        """Return the schemas that the newest scrapes have."""
        return {state.schema_id for state in self._columns.values()}

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
        shown = {result.schema_id for result in results if result.failure is None}
        batch = _Batch(self._schemas.unsaved(shown))
        sample_rows.insert_schemas(connection, batch.schemas)
        ids = [self._target_id(connection, result.target, batch) for result in results]
        packed = self._pack(ids, results, batch)
        rows = [
            sample_rows.scrape_row(result, target_id, row)
            for result, target_id, row in zip(results, ids, packed, strict=True)
        ]
        sample_rows.insert_scrapes(connection, rows)
        return batch

    def _target_id(self, connection: Connection, target: Target, batch: _Batch) -> int:
        known = self._target_ids.get(target) or batch.target_ids.get(target)
        if known is None:
            known = batch.target_ids[target] = sample_rows.insert_target(connection, target)
        return known

    def _pack(
        self, ids: Sequence[int], results: Sequence[ScrapeResult], batch: _Batch
    ) -> list[PackedRow | None]:
        packed: list[PackedRow | None] = [None] * len(results)
        for wave in _waves(ids, results):
            rows = [
                NewRow(
                    results[place].schema_id,
                    sample_rows.milliseconds(results[place].at),
                    results[place].values,
                    batch.columns.get(ids[place]) or self._columns.get(ids[place]),
                )
                for place in wave
            ]
            for place, (row, state) in zip(wave, pack_rows(rows), strict=True):
                packed[place] = row
                batch.columns[ids[place]] = state
                batch.bytes[ids[place]] += len(row.payload)
        return packed

    def _remember(self, batch: _Batch) -> None:
        self._target_ids.update(batch.target_ids)
        self._columns.update(batch.columns)
        self.raw_bytes.update(batch.bytes)
        self._schemas.saved(batch.schemas)

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
            self.raw_bytes.clear()
            self._schemas.forget_saved()
            self._started_anew()
            self._store_waiting()
        except (StoreError, ConfigError) as next_error:
            self._note_failure(next_error)


def _waves(ids: Sequence[int], results: Sequence[ScrapeResult]) -> Iterator[list[int]]:
    """Yield the places of good scrapes, in order, with no target twice in one list."""
    wave: dict[int, int] = {}
    for place, (target_id, result) in enumerate(zip(ids, results, strict=True)):
        if result.failure is not None:
            continue
        if target_id in wave:
            yield list(wave.values())
            wave = {}
        wave[target_id] = place
    if wave:
        yield list(wave.values())
