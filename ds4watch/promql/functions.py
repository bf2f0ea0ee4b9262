"""Every function that can be called, by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ds4watch.promql.elementwise import ELEMENTWISE
from ds4watch.promql.histogram import histogram_fraction, histogram_quantile
from ds4watch.promql.over_time import OVER_TIME
from ds4watch.promql.relabel import label_join, label_replace
from ds4watch.promql.vectors import Vector


def _sort(vector: Vector) -> Vector:
    return vector.take(np.argsort(vector.values, kind="stable").tolist())


def _sort_desc(vector: Vector) -> Vector:
    return vector.take(np.argsort(-vector.values, kind="stable").tolist())


WHOLE_VECTOR: dict[str, Callable[..., Vector]] = {
    "histogram_fraction": histogram_fraction,
    "histogram_quantile": histogram_quantile,
    "label_replace": label_replace,
    "label_join": label_join,
    "sort": _sort,
    "sort_desc": _sort_desc,
}
"""Plain functions of evaluated arguments."""

OF_THE_EVALUATION = frozenset(
    {"time", "timestamp", "vector", "scalar", "absent", "absent_over_time", "pi"}
)
"""Functions that need to see the instant, or the expression in their argument."""

FUNCTIONS: frozenset[str] = (
    frozenset(OVER_TIME) | frozenset(ELEMENTWISE) | frozenset(WHOLE_VECTOR) | OF_THE_EVALUATION
)
