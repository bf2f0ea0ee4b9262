"""What rows of a pool hold in a window of time: the newest sample, both ends, or all of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ds4watch.history.live_pool import ABSENT, BoolArray, IndexArray, Pool, is_real
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray


class Rows(NamedTuple):
    """Rows of a pool, and the source of each."""

    pool: Pool
    rows: IndexArray
    sources: IndexArray


class RowEnds(NamedTuple):
    """As promql.storage.Ends, for every row; where `counts` is 0 the rest means nothing."""

    first_times: FloatArray
    first_values: FloatArray
    last_times: FloatArray
    last_values: FloatArray
    counts: IndexArray
    drops: FloatArray


class RowWindows(NamedTuple):
    """As promql.storage.Windows, for every row; `counts` may be 0."""

    times: FloatArray
    values: FloatArray
    counts: IndexArray


class Edges(NamedTuple):
    """Where a window begins and ends for the sources of some rows. Shared: not to be written to.

    first, last: slots. The other three as in RowEnds, where no sample is missing; `none` is zero.
    """

    sources: IndexArray
    first: IndexArray
    last: IndexArray
    first_times: FloatArray
    last_times: FloatArray
    counts: IndexArray
    none: FloatArray


class Spans:
    """Which columns of each source lie in a window; found once for all rows of a pool."""

    def __init__(self, pool: Pool, start: UnixSeconds, end: UnixSeconds) -> None:
        later = np.count_nonzero(pool.times > end, axis=1)
        from_start = np.count_nonzero(pool.times > start, axis=1)
        self.low: IndexArray = pool.columns - from_start
        self.high: IndexArray = pool.columns - later
        self._pool = pool
        self._edges: dict[int, Edges] = {}

    def edges(self, sources: IndexArray) -> Edges:
        """Return the edges for rows of these sources; metrics of the same targets share them."""
        found = self._edges.get(id(sources))  # kept alive by what is found
        if found is None:
            pool = self._pool
            low, high = self.low[sources], self.high[sources]
            first, last = low % pool.slots, (high - 1) % pool.slots
            found = self._edges[id(sources)] = Edges(
                sources,
                first,
                last,
                first_times=pool.times[sources, first],
                last_times=pool.times[sources, last],
                counts=high - low,
                none=np.zeros(len(low)),
            )
        return found


def newest(rows: Rows, start: UnixSeconds, end: UnixSeconds) -> tuple[FloatArray, FloatArray]:
    """Return times and cells of the newest column in (start, end]; ABSENT where there is none."""
    pool = rows.pool
    times = pool.newest_at[rows.sources]
    cells = pool.last[rows.rows]
    if (times > end).any():
        return _newest_before(rows, start, end)
    old = times <= start
    if old.any():
        cells[old] = ABSENT
    return times, cells


def ends(rows: Rows, spans: Spans) -> RowEnds:
    """Return the ends of each row in a window; not to be written to."""
    pool = rows.pool
    edges = spans.edges(rows.sources)
    first_values = pool.values[rows.rows, edges.first]
    last_values = pool.values[rows.rows, edges.last]
    first_times, last_times, counts = edges.first_times, edges.last_times, edges.counts
    broken = pool.gap_at[rows.rows] >= first_times
    broken |= pool.drop_at[rows.rows] > first_times
    broken &= counts > 0
    if not broken.any():
        return RowEnds(first_times, first_values, last_times, last_values, counts, edges.none)
    found = RowEnds(
        first_times.copy(),
        first_values,
        last_times.copy(),
        last_values,
        counts.copy(),
        edges.none.copy(),
    )
    _look_into(rows, spans, np.flatnonzero(broken), found)
    return found


def windows(rows: Rows, spans: Spans) -> RowWindows:
    """Return all samples of each row in a window, packed to the left, NaN behind them."""
    low, high = spans.low[rows.sources], spans.high[rows.sources]
    times, values = _columns(rows, low, high)
    wide = high - low == values.shape[1]
    real = is_real(values)
    if wide.all() and real.all():
        return RowWindows(times, values, high - low)
    inside = np.arange(values.shape[1]) < (high - low)[:, None]
    real &= inside
    counts = np.count_nonzero(real, axis=1)
    if not (real == inside).all():
        order = np.argsort(~real, axis=1, kind="stable")
        values = np.take_along_axis(values, order, axis=1)
        times = np.take_along_axis(times, order, axis=1)
    beyond = _beyond(counts, values.shape[1])
    values[beyond] = np.nan
    times[beyond] = np.nan
    return RowWindows(times, values, counts)


def _columns(rows: Rows, low: IndexArray, high: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Return times and cells of the columns from `low` on, as many of each row as of the widest."""
    pool = rows.pool
    width = int((high - low).max(initial=0))
    if not (low == low[:1]).all():
        slots = (low[:, None] + np.arange(width)) % pool.slots
        return pool.times[rows.sources[:, None], slots], pool.values[rows.rows[:, None], slots]
    # Targets that were always scraped together: their columns stand in the same slots, in a row.
    first = int(low[0]) % pool.slots if len(low) else 0
    return (
        _run(pool.times, rows.sources, first, width),
        _run(pool.values, rows.rows, first, width),
    )


def _run(cells: FloatArray, rows: IndexArray, first: int, width: int) -> FloatArray:
    """Return `width` slots of each row from `first` on; behind the last slot comes the first."""
    beyond = first + width - cells.shape[1]
    if beyond <= 0:
        return cells[rows, first : first + width]
    found: FloatArray = np.concatenate((cells[rows, first:], cells[rows, :beyond]), axis=1)
    return found


def _newest_before(
    rows: Rows, start: UnixSeconds, end: UnixSeconds
) -> tuple[FloatArray, FloatArray]:
    """Look a window up that ends before the newest column.

    A cell that holds nothing follows a marker, or nothing at all: the series was not there.
    """
    pool = rows.pool
    spans = Spans(pool, start, end)
    low, high = spans.low[rows.sources], spans.high[rows.sources]
    slots = (high - 1) % pool.slots
    cells = pool.values[rows.rows, slots]
    cells[high <= low] = ABSENT
    return pool.times[rows.sources, slots], cells


def _look_into(rows: Rows, spans: Spans, places: IndexArray, found: RowEnds) -> None:
    """Correct the ends of rows with gaps or resets, by looking at all of their samples."""
    part = Rows(rows.pool, rows.rows[places], rows.sources[places])
    times, values, counts = windows(part, spans)
    found.counts[places] = counts
    some = counts > 0
    kept, last = np.flatnonzero(some), counts[some] - 1
    at = places[some]
    found.first_times[at], found.first_values[at] = times[kept, 0], values[kept, 0]
    found.last_times[at], found.last_values[at] = times[kept, last], values[kept, last]
    before, after = values[:, :-1], values[:, 1:]
    found.drops[places] = np.where(after < before, before, 0.0).sum(axis=1)


def _beyond(counts: IndexArray, width: int) -> BoolArray:
    beyond: BoolArray = np.arange(width) >= counts[:, None]
    return beyond
