"""Binary operators between scalars and vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ds4watch.model.series import FloatArray
from ds4watch.promql.ast import Binary, Cardinality
from ds4watch.promql.columns import BoolArray
from ds4watch.promql.matching import added, is_matched, pairs
from ds4watch.promql.vectors import EMPTY, Vector, drop_names

Operation: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
Comparison: TypeAlias = Callable[[FloatArray, FloatArray], BoolArray]


def power(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return C's pow: where an exponent is the same for all, numpy takes roots, which differ.

    (The square root of -Inf is NaN, that of -0 is -0; their powers of 0.5 are +Inf and 0.)
    """
    shape = np.broadcast_shapes(np.shape(left), np.shape(right))
    exponents = np.empty((2, *shape))
    exponents[...] = right
    exponents[1] = 1.0  # no stride of zero, not even for a single number
    powers: FloatArray = np.power(np.broadcast_to(left, exponents.shape), exponents)[0]
    return powers


ARITHMETIC: dict[str, Operation] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": power,
    "atan2": np.arctan2,
}
COMPARISONS: dict[str, Comparison] = {
    "==": np.equal,
    "!=": np.not_equal,
    ">": np.greater,
    "<": np.less,
    ">=": np.greater_equal,
    "<=": np.less_equal,
}
SET_OPERATORS = frozenset({"and", "or", "unless"})
OPERATORS = frozenset(ARITHMETIC) | frozenset(COMPARISONS) | SET_OPERATORS


def binary(node: Binary, lhs: float | Vector, rhs: float | Vector) -> float | Vector:
    """Apply the operator of `node`. Raises QueryError if series cannot be matched as asked."""
    if isinstance(lhs, Vector) and isinstance(rhs, Vector):
        if node.op in SET_OPERATORS:
            return _set_operation(node, lhs, rhs)
        return _vectors(node, lhs, rhs)
    if isinstance(lhs, Vector):
        return _one_vector(node, lhs, lhs.values, np.float64(rhs))  # type: ignore[arg-type]
    if isinstance(rhs, Vector):
        return _one_vector(node, rhs, np.float64(lhs), rhs.values)  # type: ignore[arg-type]
    operation = ARITHMETIC.get(node.op) or COMPARISONS[node.op]
    return float(operation(np.float64(lhs), np.float64(rhs)))  # type: ignore[arg-type]


def _one_vector(node: Binary, vector: Vector, left: FloatArray, right: FloatArray) -> Vector:
    """Combine a vector and a scalar; a comparison keeps the vector's values, on either side."""
    if node.op in ARITHMETIC:
        return drop_names(Vector(vector.labels, ARITHMETIC[node.op](left, right)))
    holds = COMPARISONS[node.op](left, right)
    if node.return_bool:
        return drop_names(Vector(vector.labels, holds.astype(np.float64)))
    return vector.where(holds)


def _vectors(node: Binary, lhs: Vector, rhs: Vector) -> Vector:
    """Match `lhs` and `rhs`, then compute; matching errors count even where a filter drops all."""
    swapped = node.matching.cardinality is Cardinality.ONE_TO_MANY
    many, single = (rhs, lhs) if swapped else (lhs, rhs)
    if not len(many) or not len(single):
        return EMPTY
    nameless = node.op in ARITHMETIC or node.return_bool
    found = pairs(node.matching, many.labels, single.labels, nameless=nameless)
    many_values = many.values if found.many is None else many.values[found.many]
    single_values = single.values if found.single is None else single.values[found.single]
    left, right = (single_values, many_values) if swapped else (many_values, single_values)
    if node.op in ARITHMETIC:
        return Vector(found.labels, ARITHMETIC[node.op](left, right))
    holds = COMPARISONS[node.op](left, right)
    if node.return_bool:
        return Vector(found.labels, holds.astype(np.float64))
    return Vector(found.labels, left).where(holds)


def _set_operation(node: Binary, lhs: Vector, rhs: Vector) -> Vector:
    if not len(lhs):
        return rhs if node.op == "or" else EMPTY
    if not len(rhs):
        return EMPTY if node.op == "and" else lhs
    if node.op == "or":
        more = added(node.matching, lhs.labels, rhs.labels)
        if more.labels is None:
            return lhs
        return Vector(more.labels, np.concatenate([lhs.values, rhs.values[more.positions]]))
    matched = is_matched(node.matching, lhs.labels, rhs.labels)
    return lhs.where(matched if node.op == "and" else ~matched)
