"""Aggregations: sum, topk and the like."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ds4watch.model.errors import QueryError
from ds4watch.model.series import NAME_LABEL, FloatArray, Labels
from ds4watch.promql.ast import Aggregate
from ds4watch.promql.numbers import exact_mean, exact_sum, plain, quantile, variance
from ds4watch.promql.relabel import check_label_name
from ds4watch.promql.vectors import EMPTY, Vector, keep, leave, vector_of, with_label

REDUCERS: dict[str, Callable[[FloatArray], float]] = {
    "sum": exact_sum,
    "avg": exact_mean,
    "min": lambda values: float(np.fmin.reduce(values)),
    "max": lambda values: float(np.fmax.reduce(values)),
    "count": lambda values: float(len(values)),
    "group": lambda _values: 1.0,
    "stdvar": variance,
    "stddev": lambda values: math.sqrt(variance(values)),
}
AGGREGATIONS = frozenset(REDUCERS) | {"topk", "bottomk", "quantile", "count_values"}


def aggregate(node: Aggregate, vector: Vector, param: float | str | None) -> Vector:
    """Aggregate `vector` as `node` says. Raises QueryError on an impossible parameter."""
    if node.op == "count_values":
        return _count_values(node, vector, str(param))
    if node.op in ("topk", "bottomk"):
        return _extremes(node, vector, float(param or 0.0))
    groups = _groups(node, vector.labels)
    if node.op == "quantile":
        q = float(param or 0.0)
        return _reduce(groups, vector.values, lambda values: quantile(q, values))
    return _reduce(groups, vector.values, REDUCERS[node.op])


def _groups(node: Aggregate, labels: Sequence[Labels]) -> Mapping[Labels, list[int]]:
    groups: dict[Labels, list[int]] = defaultdict(list)
    for position, one in enumerate(labels):
        groups[_key(node, one)].append(position)
    return groups


def _key(node: Aggregate, labels: Labels) -> Labels:
    if node.without:
        return leave(labels, (*node.labels, NAME_LABEL))
    return keep(labels, node.labels)


def _reduce(
    groups: Mapping[Labels, list[int]],
    values: FloatArray,
    reducer: Callable[[FloatArray], float],
) -> Vector:
    return vector_of(list(groups), [reducer(values[members]) for members in groups.values()])


def _extremes(node: Aggregate, vector: Vector, param: float) -> Vector:
    """`topk` and `bottomk`: whole series, best first within each group, NaN last."""
    if math.isnan(param):
        raise QueryError("Parameter value is NaN")
    if param < 1 or not len(vector):
        return EMPTY
    limit = int(min(param, len(vector)))
    sign = -1.0 if node.op == "topk" else 1.0
    chosen: list[int] = []
    for members in _groups(node, vector.labels).values():
        values = sign * vector.values[members]
        order = np.argsort(values, kind="stable")  # numpy, too, sorts NaN to the end
        chosen += [members[position] for position in order[:limit]]
    return vector.take(chosen)


def _count_values(node: Aggregate, vector: Vector, label: str) -> Vector:
    check_label_name(label)
    counts: dict[Labels, int] = defaultdict(int)
    for labels, value in zip(vector.labels, vector.values, strict=True):
        counts[with_label(_key(node, labels), label, plain(float(value)))] += 1
    return vector_of(list(counts), counts.values())
