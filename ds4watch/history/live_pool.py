"""Rings of samples: a row for each series, a column for each scrape of its source."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import STALE_NAN, STALE_NAN_BITS, FloatArray, Labels

IndexArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]
T = TypeVar("T")
_T = TypeVar("_T", bound=np.generic)

ABSENT_BITS = 0x7FF8_6473_3477_0001
"""Fills the cells of a column in which a series has no sample; a NaN that no page can spell."""
ABSENT: float = np.array([ABSENT_BITS], dtype=np.uint64).view(np.float64)[0]
FEWEST_SLOTS = 8
_FIRST_ROWS = 64
_FIRST_SOURCES = 16
_ROWS_AT_ONCE = 4096
_REMEMBERED = 64
_NEVER = -np.inf


class Batch(NamedTuple):
    """A column for each of several sources.

    sources, at: (n,). rows, values: (N,), one cell each, for every row of these sources. owners:
    (N,), for each cell the place of its source in `sources`.
    """

    sources: IndexArray
    at: FloatArray
    rows: IndexArray
    owners: IndexArray
    values: FloatArray


def is_real(values: FloatArray) -> BoolArray:
    """Return, elementwise, whether a cell holds a sample: neither nothing nor a marker."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    real: BoolArray = (bits != ABSENT_BITS) & (bits != STALE_NAN_BITS)
    return real


class Pool:
    """Series that are kept equally long. Row i of `values` belongs to source `source_of[i]`.

    Column number c of a source stands in slot c % slots; `columns` is how many it ever had.
    last: the newest cell of each row. present: whether that is a sample. left_at: when it last
    ceased to be one. gap_at: the time of the newest column without a sample; a window that begins
    later has no gap. drop_at: of the newest sample that was smaller than the one before.
    expected: rows of a failed source that its last good scrape had.
    """

    def __init__(self, keep_seconds: float, slots: int) -> None:
        slots = max(FEWEST_SLOTS, slots)
        self.keep_seconds = keep_seconds
        self.labels: list[Labels] = []
        self.source_of: IndexArray = np.empty(0, dtype=np.intp)
        self.values: FloatArray = np.empty((0, slots))
        self.last: FloatArray = np.empty(0)
        self.present: BoolArray = np.empty(0, dtype=np.bool_)
        self.expected: BoolArray = np.empty(0, dtype=np.bool_)
        self.left_at: FloatArray = np.empty(0)
        self.gap_at: FloatArray = np.empty(0)
        self.drop_at: FloatArray = np.empty(0)
        self.times: FloatArray = np.empty((0, slots))
        self.newest_at: FloatArray = np.empty(0)
        self.columns: IndexArray = np.empty(0, dtype=np.intp)
        self.failed: BoolArray = np.empty(0, dtype=np.bool_)
        self._remembered: dict[Hashable, Any] = {}
        self._rows_of: list[list[int]] = []
        self._free: list[int] = []

    @property
    def slots(self) -> int:
        """Columns that are kept of each source."""
        return int(self.values.shape[1])

    @property
    def size_bytes(self) -> int:
        """Memory of the samples; room that was never written to takes none."""
        return 8 * self.slots * (len(self.labels) + len(self._rows_of))

    def add_source(self) -> int:
        """Return the number of a new source."""
        if self._free:
            return self._free.pop()
        number = len(self._rows_of)
        if number == len(self.columns):
            self._make_room_for_sources(max(_FIRST_SOURCES, 2 * number))
        self._rows_of.append([])
        return number

    def free_source(self, source: int) -> None:
        """Take back a number whose rows are gone."""
        self.columns[source] = 0
        self.newest_at[source] = _NEVER
        self.failed[source] = False
        self.times[source] = _NEVER
        self._free.append(source)

    def add_rows(self, source: int, labels: Sequence[Labels], at: UnixSeconds) -> IndexArray:
        """Give a source rows for more series; they have a gap up to its newest column.

        at: now, for rows that get no sample are dropped after a time too.
        """
        first, after = len(self.labels), len(self.labels) + len(labels)
        if after > len(self.last):
            self._make_room_for_rows(max(_FIRST_ROWS, 2 * after))
        self.labels += labels
        self._rows_of[source] += range(first, after)
        if self.columns[source]:
            self.values[first:after] = ABSENT
        self.source_of[first:after] = source
        self.last[first:after] = ABSENT
        self.present[first:after] = False
        self.expected[first:after] = False
        self.left_at[first:after] = at
        self.gap_at[first:after] = self.newest_at[source]
        self.drop_at[first:after] = _NEVER
        return np.arange(first, after)

    def rows_of(self, source: int) -> IndexArray:
        """Return all rows of a source."""
        return np.array(self._rows_of[source], dtype=np.intp)

    def row_count(self, source: int) -> int:
        """Return how many rows a source has."""
        return len(self._rows_of[source])

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` made for `key`, made anew once samples have come in."""
        found = self._remembered.get(key)
        if found is None:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            found = self._remembered[key] = make()
        answer: T = found
        return answer

    def overwrites(self, batch: Batch) -> int:
        """Return how many columns a batch would overwrite that are still to be kept."""
        full = batch.sources[self.columns[batch.sources] >= self.slots]
        oldest = self.times[full, self.columns[full] % self.slots]
        return int(np.count_nonzero(oldest > batch.at.max(initial=_NEVER) - self.keep_seconds))

    def put(self, batch: Batch) -> None:
        """Add a column to each source."""
        slots = self.columns[batch.sources] % self.slots
        self.times[batch.sources, slots] = batch.at
        self.columns[batch.sources] += 1
        self.newest_at[batch.sources] = batch.at
        self.failed[batch.sources] = False
        self._put_cells(batch, slots[batch.owners])
        self._remembered.clear()

    def fail(self, source: int, times: FloatArray) -> None:
        """Add columns in which every series of a source goes stale, for want of an answer."""
        rows = self.rows_of(source)
        expected = self.expected[rows] if self.failed[source] else self.present[rows]
        if len(times) == 1:
            self.end(source, float(times[0]))
        else:
            self.fill(source, times, rows, np.full((len(rows), len(times)), STALE_NAN))
        self.expected[rows] = expected
        self.failed[source] = True

    def doubt(self, source: int, at: UnixSeconds, *, again: bool) -> None:
        """Note that what a source's column of `at` left out is missing for want of an answer.

        again: so it was of the column before; what was missing then is still waited for.
        """
        rows = self.rows_of(source)
        waited_for = (self.left_at[rows] == at) | (self.expected[rows] & again)
        self.expected[rows] = waited_for & ~self.present[rows]
        self.failed[source] = True

    def end(self, source: int, at: UnixSeconds) -> None:
        """Add a column in which every series of a source goes stale."""
        rows = self.rows_of(source)
        owners = np.zeros(len(rows), dtype=np.intp)
        values = np.full(len(rows), STALE_NAN)
        self.put(Batch(np.array([source]), np.array([at], dtype=np.float64), rows, owners, values))

    def fill(self, source: int, times: FloatArray, rows: IndexArray, values: FloatArray) -> None:
        """Add many columns to one source at once. values: (rows, times), STALE_NAN for nothing."""
        if self.row_count(source) > len(rows):
            others = np.setdiff1d(self.rows_of(source), rows)
            rows = np.concatenate([rows, others])
            nothing = np.full((len(others), len(times)), STALE_NAN)
            values = np.concatenate([values, nothing])
        real = is_real(values)
        cells = values
        if not real.all():
            had = np.concatenate([self.present[rows][:, None], real[:, :-1]], axis=1)
            cells = np.where(real, values, np.where(had, STALE_NAN, ABSENT))
            _note_newest(self.gap_at, rows, ~real, times)
            _note_newest(self.left_at, rows, had & ~real, times)
        fell = np.empty(values.shape, dtype=np.bool_)
        fell[:, 0] = values[:, 0] < self.last[rows]
        np.less(values[:, 1:], values[:, :-1], out=fell[:, 1:])
        _note_newest(self.drop_at, rows, fell, times)
        kept = min(len(times), self.slots)
        slots = (self.columns[source] + len(times) - kept + np.arange(kept)) % self.slots
        self.times[source, slots] = times[-kept:]
        self.values[rows[:, None], slots] = cells[:, -kept:]
        self.last[rows], self.present[rows] = cells[:, -1], real[:, -1]
        self.columns[source] += len(times)
        self.newest_at[source] = times[-1]
        self.failed[source] = False
        self._remembered.clear()

    def resize(self, slots: int) -> None:
        """Keep `slots` columns of each source from now on, the newest of those there are."""
        slots = max(FEWEST_SLOTS, slots)
        owners = self.source_of[: len(self.labels)]
        everyone = np.arange(len(self._rows_of), dtype=np.intp)
        self.values = self._moved(self.values, owners, slots)
        self.times = self._moved(self.times, everyone, slots)
        self._remembered.clear()

    def compact(self, before_at: UnixSeconds) -> IndexArray | None:
        """Drop rows that have had no sample since `before_at`; the others move.

        Returns for each old row its new place, -1 if it is gone; None if nothing was dropped.
        """
        count = len(self.labels)
        owners = self.source_of[:count]
        waited_for = self.expected[:count] & self.failed[owners]
        dead = ~self.present[:count] & ~waited_for & (self.left_at[:count] < before_at)
        if not dead.any():
            return None
        kept = np.flatnonzero(~dead)
        moved = np.full(count, -1, dtype=np.intp)
        moved[kept] = np.arange(len(kept))
        self.labels = [self.labels[row] for row in kept.tolist()]
        self._keep_rows(kept)
        self._rows_of = [[] for _ in self._rows_of]
        for row, source in enumerate(self.source_of.tolist()):
            self._rows_of[source].append(row)
        self._remembered.clear()
        return moved

    def _put_cells(self, batch: Batch, slots: IndexArray) -> None:
        rows, values = batch.rows, batch.values
        real = is_real(values)
        if not real.all():
            gone = np.flatnonzero(~real)
            values = values.copy()
            values[gone] = self._leave(rows[gone], batch.at[batch.owners[gone]])
        fell = np.flatnonzero(values < self.last[rows])
        if len(fell):
            self.drop_at[rows[fell]] = batch.at[batch.owners[fell]]
        self.values[rows, slots] = values
        self.last[rows] = values
        self.present[rows] = real

    def _leave(self, rows: IndexArray, at: FloatArray) -> FloatArray:
        """Note that rows have no sample; return their cells: a marker only where it is news."""
        had = self.present[rows]
        self.left_at[rows[had]] = at[had]
        self.gap_at[rows] = at
        return np.where(had, STALE_NAN, ABSENT)

    def _moved(self, old: FloatArray, owners: IndexArray, slots: int) -> FloatArray:
        """Return `old` with its columns in the slots that they have among `slots`."""
        new = np.empty((len(old), slots))
        kept = min(old.shape[1], slots)
        back = np.arange(1, kept + 1)
        for first in range(0, len(owners), _ROWS_AT_ONCE):
            part = slice(first, min(first + _ROWS_AT_ONCE, len(owners)))
            numbers = self.columns[owners[part], None] - back
            cells = np.take_along_axis(old[part], numbers % old.shape[1], axis=1)
            if old is self.times:
                cells[numbers < 0] = _NEVER
                new[part] = _NEVER
            np.put_along_axis(new[part], numbers % slots, cells, axis=1)
        return new

    def _keep_rows(self, kept: IndexArray) -> None:
        self.source_of, self.values = self.source_of[kept], self.values[kept]
        self.last, self.present = self.last[kept], self.present[kept]
        self.expected, self.left_at = self.expected[kept], self.left_at[kept]
        self.gap_at, self.drop_at = self.gap_at[kept], self.drop_at[kept]

    def _make_room_for_rows(self, capacity: int) -> None:
        self.values = _longer(self.values, capacity)
        self.source_of, self.last = _longer(self.source_of, capacity), _longer(self.last, capacity)
        self.present = _longer(self.present, capacity)
        self.expected = _longer(self.expected, capacity)
        self.left_at, self.gap_at = _longer(self.left_at, capacity), _longer(self.gap_at, capacity)
        self.drop_at = _longer(self.drop_at, capacity)

    def _make_room_for_sources(self, capacity: int) -> None:
        before = len(self.columns)
        self.times = _longer(self.times, capacity)
        self.newest_at = _longer(self.newest_at, capacity)
        self.columns = _longer(self.columns, capacity)
        self.failed = _longer(self.failed, capacity)
        self.times[before:], self.newest_at[before:] = _NEVER, _NEVER
        self.columns[before:], self.failed[before:] = 0, False


def _note_newest(noted: FloatArray, rows: IndexArray, where: BoolArray, times: FloatArray) -> None:
    """Put into `noted`, for each row with a true cell, the time of the newest such cell."""
    some = where.any(axis=1)
    newest = where.shape[1] - 1 - np.argmax(where[:, ::-1], axis=1)
    noted[rows[some]] = times[newest[some]]


def _longer(array: NDArray[_T], length: int) -> NDArray[_T]:
    longer = np.empty((length, *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer
