"""Subqueries: vectors at many instants as the samples of a range vector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import STALE_NAN, FloatArray, Labels
from ds4watch.promql.ast import Subquery
from ds4watch.promql.columns import NO_LABELS, IndexArray, LabelColumn
from ds4watch.promql.grid import Grid
from ds4watch.promql.storage import Block, SeriesMatrix, Windows
from ds4watch.promql.vectors import Spans, Vector

SUBQUERY_STEP_SECONDS = 60.0
MAX_SUBQUERY_STEPS = 11_000
MAX_SUBQUERY_MOMENTS = 1_000_000
"""Of the windows of a range query together."""


def windows_of(moments: Sequence[UnixSeconds], vectors: Sequence[Vector]) -> Windows:
    """Return the vectors' elements, evaluated at `moments`, series by series."""
    labels = NO_LABELS
    for vector in vectors:
        labels = _united(labels, vector.labels)
    shape = len(labels), len(moments)
    values = np.full(shape, np.nan)
    there = np.zeros(shape, dtype=np.bool_)
    for step, vector in enumerate(vectors):
        rows = _rows(labels, vector.labels)
        values[rows, step] = vector.values
        there[rows, step] = True
    times = np.tile(np.array(moments, dtype=np.float64), (shape[0], 1))
    counts = np.count_nonzero(there, axis=1)
    if not there.all():
        samples_first = np.argsort(~there, axis=1, kind="stable")
        values = np.take_along_axis(values, samples_first, axis=1)
        times = np.take_along_axis(times, samples_first, axis=1)
        behind = np.arange(shape[1]) >= counts[:, np.newaxis]
        times[behind] = np.nan
    return Windows(labels, times, values, counts)


def subquery_moments(node: Subquery, spans: Spans) -> FloatArray:
    """Return the multiples of the step that lie in any of the windows."""
    step = node.step_seconds or SUBQUERY_STEP_SECONDS
    first = np.floor(np.round(spans.start / step, 6)) + 1
    last = np.floor(np.round(spans.end / step, 6))
    most = int((last - first).max()) + 1
    if most > MAX_SUBQUERY_STEPS:
        raise QueryError(f"a subquery of over {MAX_SUBQUERY_STEPS} steps")
    if most <= 0:
        return np.empty(0)
    through = last.max() - first.min() + 1
    if min(through, most * len(first)) > MAX_SUBQUERY_MOMENTS:
        raise QueryError(f"a subquery of over {MAX_SUBQUERY_MOMENTS} steps in all")
    if through < most * len(first):
        numbers = np.arange(first.min(), last.max() + 1)
    else:
        numbers = np.unique(first[:, np.newaxis] + np.arange(most))
    moments: FloatArray = np.round(numbers * step, 6)
    return moments


def samples_of(grid: Grid, moments: FloatArray) -> SeriesMatrix:
    """Return a grid as samples; a marker stands where nothing is."""
    values = np.where(grid.there, grid.values, STALE_NAN)
    return SeriesMatrix(grid.labels, (Block(np.arange(len(grid.labels)), moments, values),))


def _united(lhs: LabelColumn, rhs: LabelColumn) -> LabelColumn:
    """Return all label sets of both, those of `lhs` first; `lhs` itself if they are all."""
    if rhs is lhs or not len(rhs):
        return lhs
    if not len(lhs):
        return rhs

    def make() -> LabelColumn | None:
        known = set(lhs.sets)
        more = tuple([labels for labels in rhs.sets if labels not in known])
        return LabelColumn(lhs.sets + more) if more else None

    found = lhs.paired(rhs, "united", make)
    return lhs if found is None else found


def _rows(all_labels: LabelColumn, column: LabelColumn) -> IndexArray | slice:
    """Return where the label sets of `column` stand in `all_labels`."""
    if column is all_labels:
        return slice(None)

    def make() -> IndexArray:
        places = all_labels.derived("places", _places)
        return np.array([places[labels] for labels in column.sets], dtype=np.intp)

    return all_labels.paired(column, "rows", make) if len(column) else slice(0, 0)


def _places(sets: tuple[Labels, ...]) -> dict[Labels, int]:
    return {labels: place for place, labels in enumerate(sets)}
