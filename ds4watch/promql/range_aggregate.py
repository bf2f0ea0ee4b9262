"""Aggregations over a range of steps: all steps of a group at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from ds4watch.model.errors import QueryError
from ds4watch.model.series import FloatArray
from ds4watch.promql.aggregate import CHOOSING, Groups, aggregate, groups_of
from ds4watch.promql.ast import Aggregate
from ds4watch.promql.columns import BoolArray, IndexArray
from ds4watch.promql.grid import Grid, stepwise
from ds4watch.promql.numbers import exact_mean, exact_sum, quantile, quantiles

_CANCELLED = 1e-3
_FEW_FOR_EXACT = 2
_Param = FloatArray | str | None


def aggregate_range(node: Aggregate, grid: Grid, param: _Param) -> Grid:
    """Aggregate the vector at each step. Raises QueryError on an impossible parameter."""
    if node.op == "count_values":
        return stepwise(grid, lambda vector: aggregate(node, vector, str(param)))
    if node.op in CHOOSING:
        return _chosen(node, grid, _numbers(param))
    if not len(grid.labels):
        return grid
    groups = groups_of(node, grid.labels)
    ordered = grid.rows(groups.order) if groups.order is not None else grid
    some: BoolArray = np.logical_or.reduceat(ordered.there, groups.starts, axis=0)
    if node.op == "quantile":
        values = _quantiles(groups, ordered, _numbers(param))
    else:
        values = _REDUCERS[node.op](groups, ordered)
    return Grid(groups.labels, values, some)


def _numbers(param: _Param) -> FloatArray:
    assert isinstance(param, np.ndarray)
    return param


def _counts(groups: Groups, grid: Grid) -> FloatArray:
    counts: FloatArray = np.add.reduceat(grid.there, groups.starts, axis=0, dtype=np.float64)
    return counts


def _sum(groups: Groups, grid: Grid) -> FloatArray:
    filled = grid.values if grid.there.all() else np.where(grid.there, grid.values, 0.0)
    sums: FloatArray = np.add.reduceat(filled, groups.starts, axis=0)
    if not (filled < 0).any():
        return sums
    terms = np.add.reduceat(np.abs(filled), groups.starts, axis=0)
    doubtful = np.abs(sums) < terms * _CANCELLED
    doubtful[groups.sizes <= _FEW_FOR_EXACT] = False
    for group, step in np.argwhere(doubtful).tolist():
        start = int(groups.starts[group])
        sums[group, step] = exact_sum(filled[start : start + int(groups.sizes[group]), step])
    return sums


def _mean(groups: Groups, grid: Grid) -> FloatArray:
    means = _sum(groups, grid) / _counts(groups, grid)
    for group, step in np.argwhere(np.isinf(means)).tolist():
        rows = slice(int(groups.starts[group]), int(groups.starts[group] + groups.sizes[group]))
        means[group, step] = exact_mean(grid.values[rows, step][grid.there[rows, step]])
    return means


def _variance(groups: Groups, grid: Grid) -> FloatArray:
    """Return the population variance; the shift makes it exactly 0 for equal values."""
    found = np.full((len(groups.labels), grid.values.shape[1]), np.nan)
    for group, (values, there) in enumerate(_parts(groups, grid)):
        counts = np.count_nonzero(there, axis=0)
        first = values[np.argmax(there, axis=0), np.arange(values.shape[1])]
        shifted = np.where(there, values - first, 0.0)
        means = shifted.sum(axis=0) / counts
        found[group] = np.where(there, (shifted - means) ** 2, 0.0).sum(axis=0) / counts
    return found


def _parts(groups: Groups, grid: Grid) -> Iterator[tuple[FloatArray, BoolArray]]:
    for start, size in zip(groups.starts.tolist(), groups.sizes.tolist(), strict=True):
        yield grid.values[start : start + size], grid.there[start : start + size]


def _quantiles(groups: Groups, grid: Grid, q: FloatArray) -> FloatArray:
    same = bool((q == q[0]).all())
    found = np.full((len(groups.labels), grid.values.shape[1]), np.nan)
    for group, (values, there) in enumerate(_parts(groups, grid)):
        for step in [] if same else np.flatnonzero(there.any(axis=0)).tolist():
            found[group, step] = quantile(float(q[step]), values[there[:, step], step])
        if same:
            counts = np.count_nonzero(there, axis=0)
            rows = np.where(there, values, np.nan).T
            found[group] = quantiles(float(q[0]), rows, np.maximum(counts, 1))
    return found


def _extreme(ufunc: np.ufunc) -> Callable[[Groups, Grid], FloatArray]:
    def extreme(groups: Groups, grid: Grid) -> FloatArray:
        values = np.where(grid.there, grid.values, np.nan)
        found: FloatArray = ufunc.reduceat(values, groups.starts, axis=0)
        return found

    return extreme


_REDUCERS: dict[str, Callable[[Groups, Grid], FloatArray]] = {
    "sum": _sum,
    "avg": _mean,
    "min": _extreme(np.fmin),
    "max": _extreme(np.fmax),
    "count": _counts,
    "group": lambda groups, grid: np.ones((len(groups.labels), grid.values.shape[1])),
    "stdvar": _variance,
    "stddev": lambda groups, grid: np.sqrt(_variance(groups, grid)),
}


def _chosen(node: Aggregate, grid: Grid, param: FloatArray) -> Grid:
    """Return whole series where they are among the first of their group at a step."""
    if np.isnan(param).any():
        raise QueryError("Parameter value is NaN")
    if not len(grid.labels):
        return grid
    groups = groups_of(node, grid.labels)
    members = np.arange(len(grid.labels)) if groups.order is None else groups.order
    limits = np.floor(np.clip(param, 0.0, len(grid.labels)))
    chosen = np.zeros(grid.there.shape, dtype=np.bool_)
    for rows in np.split(members, groups.starts[1:]):
        chosen[rows] = _ranks(node.op, grid.values[rows], grid.there[rows]) < limits
    return grid.where(chosen).present()


def _ranks(op: str, values: FloatArray, there: BoolArray) -> IndexArray:
    """Return the place of each series among those there at a step: NaN last, in doubt as it was."""
    if op == "limitk":
        ranks: IndexArray = np.cumsum(there, axis=0) - 1
        return ranks
    keys = -values if op == "topk" else values
    kinds = np.where(there, np.isnan(keys), 2)
    order = np.lexsort((np.where(np.isnan(keys), math.inf, keys).T, kinds.T), axis=-1).T
    places = np.empty(order.shape, dtype=np.intp)
    np.put_along_axis(places, order, np.arange(len(order))[:, np.newaxis], axis=0)
    return places
