"""Columns of samples as instant evaluation sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray, is_stale
from ds4watch.promql.columns import IndexArray
from ds4watch.promql.storage import (
    Block,
    Ends,
    Latest,
    Matcher,
    RangeStorage,
    SeriesMatrix,
    Windows,
)


class _Read(NamedTuple):
    """What has been read of a selector: its samples in (start, end]."""

    start: UnixSeconds
    end: UnixSeconds
    matrix: SeriesMatrix


class InstantStorage:
    """A RangeStorage as the Storage of one instant query at `at`.

    What was read once is not asked for again: a subquery looks at a window step by step.
    """

    def __init__(self, storage: RangeStorage, at: UnixSeconds) -> None:
        self._storage = storage
        self._at = at
        self._read: dict[tuple[Matcher, ...], _Read] = {}

    def latest(self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds) -> Latest:
        """Return the newest sample of each matching series, unless it is a marker."""
        matrix = self._columns(matchers, start, end)
        points = np.full((2, len(matrix.labels)), np.nan)
        live = np.zeros(len(matrix.labels), dtype=np.bool_)
        for block in matrix.blocks:
            last = int(np.searchsorted(block.times, end, side="right")) - 1
            if last >= 0 and block.times[last] > start:
                points[0, block.rows] = block.times[last]
                points[1, block.rows] = block.values[:, last]
                live[block.rows] = ~is_stale(block.values[:, last])
        return Latest(matrix.labels.where(live), points[0, live], points[1, live])

    def ends(self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds) -> Ends:
        """Return the ends of each matching series."""
        found = self.windows(matchers, start, end)
        rows, last = np.arange(len(found.counts)), found.counts - 1
        before, after = found.values[:, :-1], found.values[:, 1:]
        drops = np.where(after < before, before, 0.0).sum(axis=1)
        if not len(rows):
            nothing = np.empty(0)
            return Ends(found.labels, nothing, nothing, nothing, nothing, found.counts, drops)
        return Ends(
            found.labels,
            found.times[:, 0],
            found.values[:, 0],
            found.times[rows, last],
            found.values[rows, last],
            found.counts,
            drops,
        )

    def windows(self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds) -> Windows:
        """Return all samples of each matching series."""
        matrix = self._columns(matchers, start, end)
        parts = [_fresh(block, start, end) for block in matrix.blocks]
        counts = np.zeros(len(matrix.labels), dtype=np.intp)
        for part in parts:
            counts[part.rows] = part.counts
        table = np.full((2, len(counts), int(counts.max(initial=0))), np.nan)
        for part in parts:
            width = part.values.shape[1]
            table[0, part.rows, :width] = part.times
            table[1, part.rows, :width] = part.values
        live = counts > 0
        return Windows(matrix.labels.where(live), table[0, live], table[1, live], counts[live])

    def _columns(
        self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds
    ) -> SeriesMatrix:
        key = tuple(matchers)
        known = self._read.get(key)
        if known is not None and known.start <= start and end <= known.end:
            return known.matrix
        until = end
        if known is not None and known.start <= start <= known.end:
            # Who goes on step by step is given twice what was read before.
            until = max(end, min(self._at, known.end + (known.end - known.start)))
            start = known.start
        matrix = self._storage.columns(key, start, until)
        self._read[key] = _Read(start, until, matrix)
        return matrix


class _Samples(NamedTuple):
    """Samples without markers, oldest first: `counts` of each row, behind these NaN."""

    rows: IndexArray
    times: FloatArray
    values: FloatArray
    counts: IndexArray


def _fresh(block: Block, start: UnixSeconds, end: UnixSeconds) -> _Samples:
    low, high = np.searchsorted(block.times, (start, end), side="right")
    times, values = block.times[low:high], block.values[:, low:high]
    stale = is_stale(values)
    counts = len(times) - np.count_nonzero(stale, axis=1)
    spread = np.broadcast_to(times, values.shape)
    if stale.any():
        samples_first = np.argsort(stale, axis=1, kind="stable")[:, : int(counts.max(initial=0))]
        behind = np.arange(samples_first.shape[1]) >= counts[:, np.newaxis]
        values = np.where(behind, np.nan, np.take_along_axis(values, samples_first, axis=1))
        spread = np.where(behind, np.nan, np.take_along_axis(spread, samples_first, axis=1))
    return _Samples(block.rows, spread, values, counts)
