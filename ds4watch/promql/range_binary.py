"""Binary operators over a range of steps."""

from __future__ import annotations

import numpy as np

from ds4watch.model.errors import QueryError
from ds4watch.model.series import FloatArray, Labels
from ds4watch.promql.ast import Binary, Cardinality
from ds4watch.promql.binary import ARITHMETIC, COMPARISONS, SET_OPERATORS
from ds4watch.promql.columns import BoolArray, LabelColumn
from ds4watch.promql.grid import Grid, merged, nameless, nothing, patterns, united
from ds4watch.promql.matching import pairs, signatures


def binary_range(node: Binary, lhs: FloatArray | Grid, rhs: FloatArray | Grid) -> FloatArray | Grid:
    """Apply the operator at each step. Raises QueryError if series cannot be matched as asked."""
    if isinstance(lhs, Grid) and isinstance(rhs, Grid):
        if node.op in SET_OPERATORS:
            return merged(_set_operation(node, lhs, rhs))
        return merged(_vectors(node, lhs, rhs))
    if isinstance(lhs, Grid):
        assert isinstance(rhs, np.ndarray)
        return _one_vector(node, lhs, lhs.values, rhs)
    if isinstance(rhs, Grid):
        return _one_vector(node, rhs, lhs, rhs.values)
    operation = ARITHMETIC.get(node.op) or COMPARISONS[node.op]
    return operation(lhs, rhs).astype(np.float64)


def _one_vector(node: Binary, grid: Grid, left: FloatArray, right: FloatArray) -> Grid:
    """Combine a vector and a scalar; a comparison keeps the vector's values, on either side."""
    if node.op in ARITHMETIC:
        return nameless(Grid(grid.labels, ARITHMETIC[node.op](left, right), grid.there))
    holds = COMPARISONS[node.op](left, right)
    if node.return_bool:
        return nameless(Grid(grid.labels, holds.astype(np.float64), grid.there))
    return grid.where(holds).present()


def _vectors(node: Binary, lhs: Grid, rhs: Grid) -> Grid:
    """Match all series at once; where that cannot be, those that are there at the same steps."""
    try:
        return _paired(node, lhs, rhs)
    except QueryError:
        steps = list(patterns(lhs, rhs))
        if len(steps) == 1 and lhs.there.all() and rhs.there.all():
            raise
    parts = [(some, _paired(node, lhs.at_steps(some), rhs.at_steps(some))) for some in steps]
    return united(parts, lhs.there.shape[1])


def _paired(node: Binary, lhs: Grid, rhs: Grid) -> Grid:
    swapped = node.matching.cardinality is Cardinality.ONE_TO_MANY
    many, single = (rhs, lhs) if swapped else (lhs, rhs)
    if not len(many.labels) or not len(single.labels):
        return nothing(lhs.there.shape[1])
    bare = node.op in ARITHMETIC or node.return_bool
    found = pairs(node.matching, many.labels, single.labels, nameless=bare)
    many, single = many.rows(found.many), single.rows(found.single)
    left, right = (single.values, many.values) if swapped else (many.values, single.values)
    there = many.there & single.there
    if node.op in ARITHMETIC:
        return Grid(found.labels, ARITHMETIC[node.op](left, right), there)
    holds = COMPARISONS[node.op](left, right)
    if node.return_bool:
        return Grid(found.labels, holds.astype(np.float64), there)
    return Grid(found.labels, left, there & holds)


def _set_operation(node: Binary, lhs: Grid, rhs: Grid) -> Grid:
    if not len(lhs.labels) or not len(rhs.labels):
        if node.op == "or":
            return lhs if len(lhs.labels) else rhs
        return lhs if node.op == "unless" else nothing(lhs.there.shape[1])
    if node.op == "or":
        more = rhs.where(~_partnered(node, rhs, lhs)).present()
        return Grid(
            LabelColumn(lhs.labels.sets + more.labels.sets),
            np.concatenate([lhs.values, more.values]),
            np.concatenate([lhs.there, more.there]),
        )
    partnered = _partnered(node, lhs, rhs)
    return lhs.where(partnered if node.op == "and" else ~partnered).present()


def _partnered(node: Binary, grid: Grid, others: Grid) -> BoolArray:
    """Return where a partner of each series is there."""
    numbers: dict[Labels, int] = {}
    theirs = [
        numbers.setdefault(one, len(numbers)) for one in signatures(node.matching, others.labels)
    ]
    some = np.zeros((len(numbers) + 1, others.there.shape[1]), dtype=np.bool_)
    np.logical_or.at(some, np.array(theirs, dtype=np.intp), others.there)
    mine = [numbers.get(one, len(numbers)) for one in signatures(node.matching, grid.labels)]
    partnered: BoolArray = some[np.array(mine, dtype=np.intp)]
    return partnered
