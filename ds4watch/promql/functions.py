"""Every function that can be called, by name."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from ds4watch.model.series import Labels
from ds4watch.promql.columns import IndexArray
from ds4watch.promql.elementwise import ELEMENTWISE
from ds4watch.promql.histogram import histogram_fraction, histogram_quantile, histogram_quantiles
from ds4watch.promql.over_time import OVER_TIME
from ds4watch.promql.relabel import label_join, label_replace
from ds4watch.promql.vectors import Vector

_DIGITS = re.compile(r"(\d+)")


def _sort(vector: Vector) -> Vector:
    return vector.take(np.argsort(vector.values, kind="stable"))


def _sort_desc(vector: Vector) -> Vector:
    return vector.take(np.argsort(-vector.values, kind="stable"))


def _sort_by_label(vector: Vector, *names: str) -> Vector:
    """Sort by the labels named, then by all; digits in them count as numbers."""
    return vector.take(_label_order(vector, names))


def _sort_by_label_desc(vector: Vector, *names: str) -> Vector:
    return vector.take(_label_order(vector, names)[::-1])


def _label_order(vector: Vector, names: tuple[str, ...]) -> IndexArray:
    def order(sets: tuple[Labels, ...]) -> IndexArray:
        def rank(position: int) -> tuple[list[list[tuple[int, int | str]]], Labels]:
            values = dict(sets[position])
            return [_natural(values.get(name, "")) for name in names], sets[position]

        return np.array(sorted(range(len(sets)), key=rank), dtype=np.intp)

    return vector.labels.derived(("label order", names), order)


def _natural(text: str) -> list[tuple[int, int | str]]:
    parts = _DIGITS.split(text)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]


WHOLE_VECTOR: dict[str, Callable[..., Vector]] = {
    "histogram_fraction": histogram_fraction,
    "histogram_quantile": histogram_quantile,
    "histogram_quantiles": histogram_quantiles,
    "label_replace": label_replace,
    "label_join": label_join,
    "sort": _sort,
    "sort_desc": _sort_desc,
    "sort_by_label": _sort_by_label,
    "sort_by_label_desc": _sort_by_label_desc,
}
"""Plain functions of evaluated arguments."""

SCALARS: dict[str, Callable[[float, float], float]] = {
    "min_of": lambda left, right: float(np.minimum(left, right)),
    "max_of": lambda left, right: float(np.maximum(left, right)),
}
"""Plain functions of two numbers."""

OF_THE_EVALUATION = frozenset(
    {
        "time",
        "timestamp",
        "vector",
        "scalar",
        "absent",
        "absent_over_time",
        "pi",
        "start",
        "end",
        "step",
        "range",
    }
)
"""Functions that need to see the instant, or the expression in their argument."""

FUNCTIONS: frozenset[str] = (
    frozenset(OVER_TIME)
    | frozenset(ELEMENTWISE)
    | frozenset(WHOLE_VECTOR)
    | frozenset(SCALARS)
    | OF_THE_EVALUATION
)
