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


class Spans:
    """Which columns of each source lie in a window; found once for all rows of a pool."""

    def __init__(self, pool: Pool, start: UnixSeconds, end: UnixSeconds) -> None:
        later = np.count_nonzero(pool.times > end, axis=1)
        from_start = np.count_nonzero(pool.times > start, axis=1)
        self.low: IndexArray = pool.columns - from_start
        self.high: IndexArray = pool.columns - later


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
    """Return the ends of each row in a window."""
    pool = rows.pool
    low, high = spans.low[rows.sources], spans.high[rows.sources]
    first, last = low % pool.slots, (high - 1) % pool.slots
    first_times = pool.times[rows.sources, first]
    found = RowEnds(
        first_times=first_times,
        first_values=pool.values[rows.rows, first],
        last_times=pool.times[rows.sources, last],
        last_values=pool.values[rows.rows, last],
        counts=high - low,
        drops=np.zeros(len(low)),
    )
    broken = pool.gap_at[rows.rows] >= first_times
    broken |= pool.drop_at[rows.rows] > first_times
    broken &= found.counts > 0
    if broken.any():
        _look_into(rows, spans, np.flatnonzero(broken), found)
    return found


def windows(rows: Rows, spans: Spans) -> RowWindows:
    """Return all samples of each row in a window, packed to the left, NaN behind them."""
    pool = rows.pool
    low, high = spans.low[rows.sources], spans.high[rows.sources]
    numbers = low[:, None] + np.arange(int((high - low).max(initial=0)))
    slots = numbers % pool.slots
    values = pool.values[rows.rows[:, None], slots]
    times = pool.times[rows.sources[:, None], slots]
    inside = numbers < high[:, None]
    real = inside & is_real(values)
    counts = np.count_nonzero(real, axis=1)
    if not (real == inside).all():
        order = np.argsort(~real, axis=1, kind="stable")
        values = np.take_along_axis(values, order, axis=1)
        times = np.take_along_axis(times, order, axis=1)
    beyond = _beyond(counts, values.shape[1])
    values[beyond] = np.nan
    times[beyond] = np.nan
    return RowWindows(times, values, counts)


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
