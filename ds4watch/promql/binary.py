"""Binary operators between scalars and vectors, and how two vectors' series are matched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ds4watch.model.errors import QueryError
from ds4watch.model.series import NAME_LABEL, FloatArray, Labels
from ds4watch.promql.ast import Binary, Cardinality, Matching
from ds4watch.promql.vectors import EMPTY, Vector, drop_names, keep, leave, with_label, without_name

Operation: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]

ARITHMETIC: dict[str, Operation] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
    "atan2": np.arctan2,
}
COMPARISONS: dict[str, Operation] = {
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
        return _one_vector(node, lhs, lhs.values, np.asarray(rhs, dtype=np.float64))
    if isinstance(rhs, Vector):
        return _one_vector(node, rhs, np.asarray(lhs, dtype=np.float64), rhs.values)
    operation = ARITHMETIC.get(node.op) or COMPARISONS[node.op]
    return float(operation(np.float64(lhs), np.float64(rhs)))  # type: ignore[arg-type]


def _one_vector(node: Binary, vector: Vector, left: FloatArray, right: FloatArray) -> Vector:
    """Combine a vector and a scalar; a comparison keeps the vector's values, on either side."""
    if node.op in ARITHMETIC:
        return drop_names(Vector(vector.labels, ARITHMETIC[node.op](left, right)))
    holds = COMPARISONS[node.op](left, right)
    if node.return_bool:
        return drop_names(Vector(vector.labels, holds.astype(np.float64)))
    return vector.take(np.flatnonzero(holds).tolist())


def _vectors(node: Binary, lhs: Vector, rhs: Vector) -> Vector:
    """Match `lhs` and `rhs`, then compute; matching errors count even where a filter drops all."""
    matching = node.matching
    swapped = matching.cardinality is Cardinality.ONE_TO_MANY
    many, single = (rhs, lhs) if swapped else (lhs, rhs)
    if not len(many) or not len(single):
        return EMPTY
    pairs = _pairs(matching, many, single)
    labels = tuple(_result_labels(node, many.labels[m], single.labels[s]) for m, s in pairs)
    _check_grouped(matching, labels)
    many_values = many.values[[m for m, _ in pairs]]
    single_values = single.values[[s for _, s in pairs]]
    left, right = (single_values, many_values) if swapped else (many_values, single_values)
    if node.op in ARITHMETIC:
        return Vector(labels, ARITHMETIC[node.op](left, right))
    holds = COMPARISONS[node.op](left, right)
    if node.return_bool:
        return Vector(labels, holds.astype(np.float64))
    return Vector(labels, left).take(np.flatnonzero(holds).tolist())


def _pairs(matching: Matching, many: Vector, single: Vector) -> list[tuple[int, int]]:
    """Return (position in many, position in single) of the series that belong together."""
    by_signature: dict[Labels, int] = {}
    for position, labels in enumerate(single.labels):
        signature = signature_of(matching, labels)
        if signature in by_signature:
            raise QueryError(
                f"found duplicate series for the match group {dict(signature)}: "
                "many-to-many matching not allowed, matching labels must be unique on one side"
            )
        by_signature[signature] = position
    signatures = [signature_of(matching, labels) for labels in many.labels]
    matched = [(at, by_signature[sig]) for at, sig in enumerate(signatures) if sig in by_signature]
    one_to_one = matching.cardinality is Cardinality.ONE_TO_ONE
    if one_to_one and len({position for _, position in matched}) != len(matched):
        raise QueryError(
            "multiple matches for labels: many-to-one matching must be explicit "
            "(group_left/group_right)"
        )
    return matched


def _check_grouped(matching: Matching, labels: tuple[Labels, ...]) -> None:
    one_to_one = matching.cardinality is Cardinality.ONE_TO_ONE
    if not one_to_one and len(set(labels)) != len(labels):
        raise QueryError("multiple matches for labels: grouping labels must ensure unique matches")


def signature_of(matching: Matching, labels: Labels) -> Labels:
    """Return the part of `labels` by which series of two vectors find each other."""
    if matching.on:
        return keep(labels, matching.labels)
    return leave(labels, (*matching.labels, NAME_LABEL))


def _result_labels(node: Binary, many: Labels, single: Labels) -> Labels:
    matching = node.matching
    labels = without_name(many) if node.op in ARITHMETIC or node.return_bool else many
    if matching.cardinality is Cardinality.ONE_TO_ONE:
        select = keep if matching.on else leave
        return select(labels, matching.labels)
    values = dict(single)
    for name in matching.include:
        labels = with_label(labels, name, values.get(name, ""))
    return labels


def _set_operation(node: Binary, lhs: Vector, rhs: Vector) -> Vector:
    left = [signature_of(node.matching, labels) for labels in lhs.labels]
    right = [signature_of(node.matching, labels) for labels in rhs.labels]
    if node.op == "or":
        known = set(left)
        added = rhs.take(at for at, signature in enumerate(right) if signature not in known)
        return Vector(lhs.labels + added.labels, np.concatenate([lhs.values, added.values]))
    known = set(right)
    wanted = node.op == "and"
    return lhs.take(at for at, signature in enumerate(left) if (signature in known) is wanted)
