"""Selectors over a range of steps: windows as index arithmetic on each block's times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ds4watch.model.series import FloatArray, is_stale
from ds4watch.promql.columns import NO_LABELS, BoolArray, IndexArray
from ds4watch.promql.grid import Grid, nothing
from ds4watch.promql.numbers import row_sums
from ds4watch.promql.over_time import NEED_TWO, OF_WINDOWS
from ds4watch.promql.rates import OF_ENDS
from ds4watch.promql.storage import Block, Ends, SeriesMatrix, Windows
from ds4watch.promql.vectors import Spans

_CELLS_AT_ONCE = 1 << 21
_CANCELLED = 1e-3
"""A plain sum this small beside its terms is computed again, exactly."""

_OF_COUNTERS = frozenset({"rate", "increase"})
_NO_DROPS = np.zeros(1)


@dataclass(frozen=True, slots=True)
class _Cut:
    """A block without markers, and the windows in it: its samples `low` to before `high`."""

    block: Block
    low: IndexArray
    high: IndexArray
    at: FloatArray


def newest(matrix: SeriesMatrix, moments: FloatArray, starts: FloatArray) -> tuple[Grid, Grid]:
    """Return the values and the times of the newest samples in (start, moment]."""
    shape = len(matrix.labels), len(moments)
    values, times = np.full(shape, np.nan), np.full(shape, np.nan)
    there = np.zeros(shape, dtype=np.bool_)
    for rows, sampled, block_values in matrix.blocks:
        if not len(sampled):
            continue
        found = np.maximum(np.searchsorted(sampled, moments, side="right") - 1, 0)
        at = sampled[found]
        values[rows] = np.take(block_values, found, axis=1)
        times[rows] = at
        there[rows] = (at > starts) & (at <= moments)
    there &= ~is_stale(values)
    return Grid(matrix.labels, values, there).present(), Grid(matrix.labels, times, there).present()


def windowed(
    name: str, matrix: SeriesMatrix, spans: Spans, scalars: tuple[object, ...] = ()
) -> Grid:
    """Return what a function makes of each series' windows; names are kept."""
    if not len(matrix.labels):
        return nothing(len(spans.at))
    edges = _edges(spans)
    cuts = [_cut(block, edges, spans.at) for whole in matrix.blocks for block in _fresh(whole)]
    least = 2 if name in NEED_TWO else 1
    shape = len(matrix.labels), len(spans.at)
    values, there = np.empty(shape), np.zeros(shape, dtype=np.bool_)
    for cut in cuts:
        enough = cut.high - cut.low >= least
        steps = np.flatnonzero(enough)
        if len(steps) and name in OF_ENDS:
            values[cut.block.rows] = _ends(name, cut, spans)
            there[cut.block.rows] = enough
        elif len(steps):
            some = _Cut(cut.block, cut.low[steps], cut.high[steps], cut.at[steps])
            cells = np.ix_(cut.block.rows, steps)
            there[cells] = True
            values[cells] = _computed(name, some, scalars)
    return Grid(matrix.labels, values, there).present()


def _fresh(block: Block) -> Iterator[Block]:
    """Yield the block without its markers: series that have them at the same instants together."""
    stale = is_stale(block.values)
    if not stale.any():
        yield block
        return
    if (stale == stale[0]).all():
        fresh = np.flatnonzero(~stale[0])
        yield Block(block.rows, block.times[fresh], block.values[:, fresh])
        return
    _, kinds = np.unique(np.packbits(stale, axis=1), axis=0, return_inverse=True)
    kinds = kinds.reshape(-1)
    order = np.argsort(kinds, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(kinds[order])) + 1):
        fresh = np.flatnonzero(~stale[rows[0]])
        values = block.values[np.ix_(rows, fresh)]
        yield Block(block.rows[rows], block.times[fresh], values)


def _edges(spans: Spans) -> tuple[FloatArray, int]:
    """Return where windows begin and, so many places on, where they end.

    Most begin where an earlier one ended: each edge is then looked up once, not twice.
    """
    count = len(spans.end)
    apart = int(np.searchsorted(spans.end, spans.start[-1])) if count else 0
    apart = count - 1 - apart
    if 0 < apart < count and (spans.start[apart:] == spans.end[: count - apart]).all():
        return np.concatenate([spans.start[:apart], spans.end]), apart
    return np.concatenate([spans.start, spans.end]), count


def _cut(block: Block, edges: tuple[FloatArray, int], at: FloatArray) -> _Cut:
    where, apart = edges
    found = np.searchsorted(block.times, where, side="right")
    return _Cut(block, found[: len(at)], found[apart:], at)


def _ends(name: str, cut: _Cut, spans: Spans) -> FloatArray:
    """Return what a function makes of the ends of each window; of one without samples, nothing."""
    _, times, values = cut.block
    first, last = np.minimum(cut.low, len(times) - 1), np.maximum(cut.high - 1, 0)
    ends = Ends(
        labels=NO_LABELS,
        first_times=times[first],
        first_values=np.take(values, first, axis=1),
        last_times=times[last],
        last_values=np.take(values, last, axis=1),
        counts=cut.high - cut.low,
        drops=_drops(cut) if name in _OF_COUNTERS else _NO_DROPS,
    )
    return OF_ENDS[name](ends, spans)


def _drops(cut: _Cut) -> FloatArray:
    """Return the sums of the values that a smaller one followed within each window."""
    values = cut.block.values
    fell = values[:, 1:] < values[:, :-1]
    if not fell.any():
        return _NO_DROPS
    dropped = np.where(fell, values[:, :-1], 0.0)
    # Drop j lies between samples j and j + 1.
    return _reduced(np.add, dropped, cut.low, np.maximum(cut.high - 1, cut.low), empty=0.0)


def _reduced(
    ufunc: np.ufunc, values: FloatArray, low: IndexArray, high: IndexArray, *, empty: float
) -> FloatArray:
    """Reduce columns low to before high of each row, window by window."""
    padded = np.concatenate([values, np.full((len(values), 1), empty)], axis=1)
    last = padded.shape[1] - 1
    bounds = np.stack([np.minimum(low, last), np.minimum(high, last)], axis=1).reshape(-1)
    found: FloatArray = ufunc.reduceat(padded, bounds, axis=1)[:, ::2]
    return np.where(high > low, found, empty)


def _computed(name: str, cut: _Cut, scalars: tuple[object, ...]) -> FloatArray:
    by_index = _BY_INDEX.get(name)
    if by_index is not None:
        return by_index(cut)
    return _gathered(name, cut, scalars)


def _gathered(name: str, cut: _Cut, scalars: tuple[object, ...]) -> FloatArray:
    """Lay out the windows one by one, as many at once as fit, for functions of whole windows."""
    rows, steps = len(cut.block.rows), len(cut.low)
    result = np.empty((rows, steps))
    width = int((cut.high - cut.low).max())
    at_once = max(1, _CELLS_AT_ONCE // (width * rows))
    for start in range(0, steps, at_once):
        part = slice(start, start + at_once)
        windows = _laid_out(cut, part)
        at = np.tile(cut.at[part], rows)[:, np.newaxis]
        found = OF_WINDOWS[name](windows, Spans(at, at, at), *scalars)
        result[:, part] = found.reshape(rows, -1)
    return result


def _laid_out(cut: _Cut, part: slice) -> Windows:
    low, counts = cut.low[part], (cut.high - cut.low)[part]
    places = np.arange(counts.max())
    behind = places >= counts[:, np.newaxis]
    picked = np.where(behind, 0, low[:, np.newaxis] + places)
    times = np.where(behind, np.nan, cut.block.times[picked])
    values = np.where(behind, np.nan, cut.block.values[:, picked])
    rows = len(cut.block.rows)
    return Windows(
        labels=NO_LABELS,
        times=np.tile(times, (rows, 1)),
        values=values.reshape(-1, len(places)),
        counts=np.tile(counts, rows),
    )


def _sums(cut: _Cut) -> FloatArray:
    values = cut.block.values
    sums = _reduced(np.add, values, cut.low, cut.high, empty=0.0)
    if not (values < 0).any():
        return sums
    terms = _reduced(np.add, np.abs(values), cut.low, cut.high, empty=0.0)
    return _exactly(sums, np.abs(sums) < terms * _CANCELLED, cut)


def _exactly(sums: FloatArray, doubtful: BoolArray, cut: _Cut) -> FloatArray:
    for step in np.flatnonzero(doubtful.any(axis=0)).tolist():
        rows = np.flatnonzero(doubtful[:, step])
        sums[rows, step] = row_sums(cut.block.values[rows, cut.low[step] : cut.high[step]])
    return sums


def _means(cut: _Cut) -> FloatArray:
    sums = _sums(cut)
    if np.isinf(sums).any():
        return _gathered("avg_over_time", cut, ())
    means: FloatArray = sums / (cut.high - cut.low)
    return means


def _lowest(cut: _Cut) -> FloatArray:
    return _reduced(np.fmin, cut.block.values, cut.low, cut.high, empty=np.nan)


def _highest(cut: _Cut) -> FloatArray:
    return _reduced(np.fmax, cut.block.values, cut.low, cut.high, empty=np.nan)


def _last_two(cut: _Cut) -> tuple[FloatArray, FloatArray]:
    values = cut.block.values
    return np.take(values, cut.high - 2, axis=1), np.take(values, cut.high - 1, axis=1)


def _irate(cut: _Cut) -> FloatArray:
    before, last = _last_two(cut)
    growth = np.where(last < before, last, last - before)
    times = cut.block.times
    rate: FloatArray = growth / (times[cut.high - 1] - times[cut.high - 2])
    return rate


def _idelta(cut: _Cut) -> FloatArray:
    before, last = _last_two(cut)
    return last - before


def _counted(cut: _Cut, events: BoolArray) -> FloatArray:
    """Count events, of which number j lies between samples j and j + 1."""
    until = np.zeros((len(events), events.shape[1] + 1))
    np.cumsum(events, axis=1, out=until[:, 1:])
    found: FloatArray = until[:, cut.high - 1] - until[:, cut.low]
    return found


def _changes(cut: _Cut) -> FloatArray:
    before, after = cut.block.values[:, :-1], cut.block.values[:, 1:]
    return _counted(cut, (before != after) & ~(np.isnan(before) & np.isnan(after)))


def _resets(cut: _Cut) -> FloatArray:
    return _counted(cut, cut.block.values[:, 1:] < cut.block.values[:, :-1])


_OfCut: TypeAlias = Callable[[_Cut], FloatArray]

_BY_INDEX: dict[str, _OfCut] = {
    "sum_over_time": _sums,
    "avg_over_time": _means,
    "min_over_time": _lowest,
    "max_over_time": _highest,
    "irate": _irate,
    "idelta": _idelta,
    "changes": _changes,
    "resets": _resets,
}
"""Functions whose windows need not be laid out."""
