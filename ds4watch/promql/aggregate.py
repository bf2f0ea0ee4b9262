"""Aggregations: sum, topk and the like. Groups are told once per label column."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ds4watch.model.errors import QueryError
from ds4watch.model.series import NAME_LABEL, FloatArray, Labels
from ds4watch.promql.ast import Aggregate
from ds4watch.promql.columns import IndexArray, LabelColumn
from ds4watch.promql.numbers import exact_mean, exact_sum, plain, quantile, variance
from ds4watch.promql.relabel import check_label_name
from ds4watch.promql.vectors import (
    EMPTY,
    LabelsChange,
    Vector,
    keeping,
    leaving,
    vector_of,
    with_label,
)


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of a label column.

    order: the elements' positions, group by group; None if they stand so already.
    starts, sizes: where each group begins in that order, and how many it has.
    """

    labels: LabelColumn
    order: IndexArray | None
    starts: IndexArray
    sizes: IndexArray

    def sorted(self, values: FloatArray) -> FloatArray:
        """Return `values` group by group."""
        return values if self.order is None else values[self.order]

    def each(self, of: Callable[[FloatArray], float], values: FloatArray) -> FloatArray:
        """Return `of` each group's values, which come group by group."""
        return np.array([of(part) for part in np.split(values, self.starts[1:])])


Reducer = Callable[[Groups, FloatArray], FloatArray]
"""(groups, values group by group) -> one value a group."""


def _sum(groups: Groups, values: FloatArray) -> FloatArray:
    """Sum exactly; of one or two numbers the plain sum is exact already."""
    sums: FloatArray = np.add.reduceat(values, groups.starts)
    numbers: list[float] | None = None
    for group in np.flatnonzero(groups.sizes > 2).tolist():
        if numbers is None:
            numbers = values.tolist()
        start = int(groups.starts[group])
        sums[group] = exact_sum(numbers[start : start + int(groups.sizes[group])])
    return sums


def _mean(groups: Groups, values: FloatArray) -> FloatArray:
    sums = _sum(groups, values)
    if np.isinf(sums).any():
        return groups.each(exact_mean, values)
    means: FloatArray = sums / groups.sizes
    return means


def _each(of: Callable[[FloatArray], float]) -> Reducer:
    return lambda groups, values: groups.each(of, values)


REDUCERS: dict[str, Reducer] = {
    "sum": _sum,
    "avg": _mean,
    "min": lambda groups, values: np.fmin.reduceat(values, groups.starts),
    "max": lambda groups, values: np.fmax.reduceat(values, groups.starts),
    "count": lambda groups, _values: groups.sizes.astype(np.float64),
    "group": lambda groups, _values: np.ones(len(groups.labels)),
    "stdvar": _each(variance),
    "stddev": _each(lambda values: math.sqrt(variance(values))),
}
CHOOSING = frozenset({"topk", "bottomk", "limitk"})
AGGREGATIONS = frozenset(REDUCERS) | CHOOSING | {"quantile", "count_values"}


def aggregate(node: Aggregate, vector: Vector, param: float | str | None) -> Vector:
    """Aggregate `vector` as `node` says. Raises QueryError on an impossible parameter."""
    if node.op == "count_values":
        return _count_values(node, vector, str(param))
    if node.op in CHOOSING:
        return _chosen(node, vector, float(param or 0.0))
    if not len(vector):
        return EMPTY
    groups = groups_of(node, vector.labels)
    values = groups.sorted(vector.values)
    if node.op == "quantile":
        q = float(param or 0.0)
        return Vector(groups.labels, groups.each(lambda part: quantile(q, part), values))
    return Vector(groups.labels, REDUCERS[node.op](groups, values))


def groups_of(node: Aggregate, column: LabelColumn) -> Groups:
    """Return the groups that `node` asks for; at least one series must be there."""

    def make(sets: tuple[Labels, ...]) -> Groups:
        return _group(map(_key(node), sets))

    return column.derived(("groups", node.without, node.labels), make)


def _group(keys: Iterable[Labels]) -> Groups:
    numbers: dict[Labels, int] = {}
    ids = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)
    sizes = np.bincount(ids)
    in_order = bool((ids[1:] >= ids[:-1]).all())
    order = None if in_order else np.argsort(ids, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return Groups(LabelColumn(tuple(numbers)), order, starts, sizes)


def _key(node: Aggregate) -> LabelsChange:
    return leaving((*node.labels, NAME_LABEL)) if node.without else keeping(node.labels)


def _chosen(node: Aggregate, vector: Vector, param: float) -> Vector:
    """Return whole series: `topk` and `bottomk` the best of each group first, NaN last."""
    if math.isnan(param):
        raise QueryError("Parameter value is NaN")
    if param < 1 or not len(vector):
        return EMPTY
    limit = int(min(param, len(vector)))
    groups = groups_of(node, vector.labels)
    members = np.arange(len(vector)) if groups.order is None else groups.order
    chosen = [
        part[_ranking(node.op, vector.values[part])[:limit]]
        for part in np.split(members, groups.starts[1:])
    ]
    return vector.take(np.concatenate(chosen))


def _ranking(op: str, values: FloatArray) -> IndexArray:
    if op == "limitk":
        return np.arange(len(values))
    # numpy, too, sorts NaN to the end.
    return np.argsort(-values if op == "topk" else values, kind="stable")


def _count_values(node: Aggregate, vector: Vector, label: str) -> Vector:
    check_label_name(label)
    counts: dict[Labels, int] = defaultdict(int)
    key = _key(node)
    for labels, value in zip(vector.labels, vector.values.tolist(), strict=True):
        counts[with_label(key(labels), label, plain(value))] += 1
    return vector_of(counts, list(counts.values()))
