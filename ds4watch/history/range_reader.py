"""The store as range queries see it: columns of the series wanted, read only.

Chunks are decoded in slabs of six hours a target and kept; what has become of them on disk is
seen from the index alone, so that a second query on the same series reads next to nothing.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from ds4watch.history.chunk_reading import Reading
from ds4watch.history.database import home_of
from ds4watch.history.line import Line, Tuning
from ds4watch.history.migrate import Which
from ds4watch.history.place import Place
from ds4watch.history.range_blocks import Source, block_of, without_twins
from ds4watch.history.range_choice import Choice, choice_of
from ds4watch.history.range_pieces import SLAB_MS, read_slabs, stored_pieces
from ds4watch.history.range_series import pages_shown, series_shown
from ds4watch.history.range_slabs import Piece, Slab, SlabCache
from ds4watch.history.sample_models import schemas as schemas_table
from ds4watch.history.sample_models import targets
from ds4watch.history.sample_rows import (
    milliseconds,
    stored_schemas,
    stored_targets,
)
from ds4watch.model.errors import EdgeReason, QueryError, QueryTimeoutError, StoreError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.scrape import Target
from ds4watch.model.series import Labels, Schema
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.storage import Block, Matcher, SeriesMatrix

_log = logging.getLogger(__name__)

_KEPT_CHOICES = 64
_KEPT_COLUMNS = 64
_TUNING = Tuning(
    durable=False, busy_timeout_seconds=5.0, answer_timeout_seconds=60.0, mapped_bytes=1 << 40
)

_STATE = select(
    select(func.count()).select_from(targets).scalar_subquery(),
    select(func.max(targets.c.id)).scalar_subquery(),
    select(func.count()).select_from(schemas_table).scalar_subquery(),
    select(func.max(schemas_table.c.id)).scalar_subquery(),
)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What one selector may read, how long that may take, and what is kept of it."""

    series: int = 50_000
    samples: int = 50_000_000
    seconds: float = 20.0
    kept_bytes: int = 256 << 20


@dataclass(slots=True)
class _Known:
    """What the tables of targets and schemas held when they were last read."""

    state: tuple[Any, ...] = ()
    targets: dict[int, Target] = field(default_factory=dict)
    schemas: dict[int, Schema] = field(default_factory=dict)
    choices: OrderedDict[tuple[Matcher, ...], Choice] = field(default_factory=OrderedDict)
    pieces_key: tuple[Any, ...] = ()
    pieces: dict[int, list[Piece]] = field(default_factory=dict)


class StoredRanges:
    """Range queries' view of samples.db at `place`; for one thread. Implements RangeStorage.

    Raises StoreError where the database cannot be read. What is damaged is left out, and told
    once in the log.
    """

    def __init__(
        self,
        place: Place,
        limits: ReadLimits = ReadLimits(),
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place = place
        self._monotonic = monotonic
        self._limits = limits
        self._cache = SlabCache(limits.kept_bytes)
        self._columns: OrderedDict[Hashable, LabelColumn] = OrderedDict()
        self._known = _Known()
        self._line: Line | None = None
        self._inode: int | None = None
        self._damage_told = False

    def columns(
        self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds
    ) -> SeriesMatrix:
        """Return the samples of each matching series in (start, end], and some around it."""
        with self._opened().begin() as connection:
            self._refresh(connection)
            choice = self._choice(tuple(matchers))
            sources = self._sources(choice)
            pieces = self._pieces_of(connection, milliseconds(start), milliseconds(end))
            blocks = self._blocks(connection, choice, sources, pieces)
        return self._matrix(choice, sources, blocks)

    def series(
        self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds
    ) -> set[Labels]:
        """Return the labels of each matching series that pages of that time have."""
        with self._opened().begin() as connection:
            self._refresh(connection)
            shown = pages_shown(connection, milliseconds(start), milliseconds(end))
            choice, known = self._choice(tuple(matchers)), self._known
            return set(series_shown(shown, choice, known.targets, known.schemas))

    def close(self) -> None:
        """Close the database."""
        if self._line is not None:
            self._line.dispose()
            self._line = None

    def _opened(self) -> Line:
        """Return the connection; anew where another file has taken the place."""
        inode = _inode(self._place)
        if inode != self._inode:
            self.close()
            self._cache.clear()
            self._known = _Known()
            self._inode = inode
        if self._line is None:
            self._line = home_of(self._place, Which.SAMPLES, _TUNING).line(read_only=True)
        return self._line

    def _pieces_of(
        self, connection: Connection, start_ms: int, end_ms: int
    ) -> dict[int, list[Piece]]:
        """Return the pieces; the selectors of one query ask for the same again."""
        key = (_writes_seen(connection), start_ms // SLAB_MS, end_ms)
        if key[0] is None or key != self._known.pieces_key:
            self._known.pieces = stored_pieces(connection, start_ms, end_ms)
            self._known.pieces_key = key
        return self._known.pieces

    def _refresh(self, connection: Connection) -> None:
        state = tuple(connection.execute(_STATE).one())
        if state != self._known.state:
            schemas = {schema.id: schema for _, schema in stored_schemas(connection)}
            self._known = _Known(state, stored_targets(connection), schemas)

    def _choice(self, matchers: tuple[Matcher, ...]) -> Choice:
        choices = self._known.choices
        choice = choices.get(matchers)
        if choice is None:
            stored = self._known.targets.values()
            names = {name for target in stored for name, _ in target.labels}
            choice = choices[matchers] = choice_of(matchers, names)
            if len(choices) > _KEPT_CHOICES:
                choices.popitem(last=False)
        choices.move_to_end(matchers)
        return choice

    def _sources(self, choice: Choice) -> list[Source]:
        """Return the targets that may have series, those of equal labels as one."""
        alike: dict[tuple[str, Labels], list[int]] = {}
        for target_id, target in self._known.targets.items():
            if choice.wants(target):
                # What one rule does not write has not ended what another one writes.
                page = "" if target.is_scraped else target.name
                alike.setdefault((page, target.labels), []).append(target_id)
        return [Source(self._known.targets[ids[0]], tuple(ids), choice) for ids in alike.values()]

    def _blocks(
        self,
        connection: Connection,
        choice: Choice,
        sources: Sequence[Source],
        pieces: dict[int, list[Piece]],
    ) -> list[Block]:
        wanted = [
            piece
            for source in sources
            for target_id in source.target_ids
            for piece in pieces.get(target_id, ())
        ]
        slabs = self._slabs(connection, choice, wanted)
        blocks: list[Block] = []
        series = samples = 0
        for source in sources:
            mine = [
                slabs[piece]
                for target_id in source.target_ids
                for piece in pieces.get(target_id, ())
            ]
            block = block_of(source, mine)
            series += len(block.values)
            samples += block.values.size
            if series > self._limits.series:
                raise _too_much("series", self._limits.series)
            if samples > self._limits.samples:
                raise _too_much("samples", self._limits.samples)
            blocks.append(block)
        return blocks

    def _slabs(
        self, connection: Connection, choice: Choice, wanted: Sequence[Piece]
    ) -> dict[Piece, Slab]:
        """Return what was kept, and read the rest; as far as it came, that is kept, too."""
        slabs: dict[Piece, Slab] = {}
        missing: list[Piece] = []
        for piece in wanted:
            kept = self._cache.get(self._key(choice, piece), piece.version)
            if kept is None:
                missing.append(piece)
            else:
                slabs[piece] = kept
        until = self._monotonic() + self._limits.seconds
        reading = Reading(
            self._known.schemas.__getitem__,
            choice.pick,
            self._note_damage,
            times_only=not choice.own,
            partly=True,
        )
        for piece, slab in read_slabs(connection, missing, reading):
            slabs[piece] = slab
            self._cache.keep(self._key(choice, piece), piece.version, slab)
            if self._monotonic() > until:
                raise _took_too_long(self._limits.seconds)
        return slabs

    @staticmethod
    def _key(choice: Choice, piece: Piece) -> Hashable:
        return choice.picking, piece.target_id, piece.slot

    def _matrix(
        self, choice: Choice, sources: Sequence[Source], blocks: Sequence[Block]
    ) -> SeriesMatrix:
        key = (choice.matchers, tuple((one.target_ids, one.pages) for one in sources))
        column = self._columns.get(key)
        if column is None:
            column = LabelColumn(tuple(one for source in sources for one in source.labels))
            self._columns[key] = column
            if len(self._columns) > _KEPT_COLUMNS:
                self._columns.popitem(last=False)
        self._columns.move_to_end(key)
        placed, row = [], 0
        for block in blocks:
            count = len(block.values)
            if count:
                placed.append(block._replace(rows=np.arange(row, row + count)))
            row += count
        if sum(not source.is_scraped for source in sources) < 2:
            return SeriesMatrix(column, tuple(placed))
        return without_twins(SeriesMatrix(column, tuple(placed)))

    def _note_damage(self, what: str) -> None:
        if not self._damage_told:
            _log.warning("%s: %s; `ds4watch history verify` lists all", self._place, what)
        self._damage_told = True


def _writes_seen(connection: Connection) -> int | None:
    """Return a number that is the same as long as nobody wrote; None where there is none."""
    if connection.dialect.name != "sqlite":
        return None
    return int(connection.exec_driver_sql("PRAGMA data_version").scalar_one())


def _inode(place: Place) -> int | None:
    if not isinstance(place, Path):
        return 0
    try:
        return place.stat().st_ino
    except OSError as error:
        # SQLite would make an empty file.
        message = f"{place} cannot be read: {error.strerror}"
        raise StoreError(message, reason=EdgeReason.GONE, retryable=True) from error


def _too_much(what: str, most: int) -> QueryError:
    return QueryError(f"a selector of over {most} {what}: select fewer, or a shorter time")


def _took_too_long(seconds: float) -> QueryTimeoutError:
    return QueryTimeoutError(f"reading took over {seconds:g} s: what was read is kept, ask again")
