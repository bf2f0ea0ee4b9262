"""What a rule sees at an instant: the values of its parts, and how far they are from firing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ds4watch.alerting.lint.conditions import Comparison, comparison_of
from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Labels
from ds4watch.promql.ast import (
    Binary,
    Expr,
    Number,
    Subquery,
    Text,
    ValueType,
    children_of,
    value_type,
)
from ds4watch.promql.evaluate import evaluate
from ds4watch.promql.render import render
from ds4watch.promql.result import QueryResult
from ds4watch.promql.storage import Storage

MAX_PARTS: Final = 60
MAX_VALUES: Final = 10


@dataclass(frozen=True, slots=True)
class PartValue:
    """One value of a part; of a range, its newest."""

    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an expression, `depth` below the whole, and its first values, largest first.

    count: values that there are; of a range, its samples.
    """

    depth: int
    expression: str
    kind: ValueType
    count: int = 0
    values: tuple[PartValue, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Near:
    """A value and how far it is beyond the threshold; below zero: not there yet."""

    labels: Labels
    value: float
    beyond: float
    holds: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with a number, and the values nearest to passing it, or furthest beyond.

    unless: it has to fail, standing behind `unless`.
    """

    expression: str
    op: str
    threshold: float
    unless: bool
    count: int
    nearest: tuple[Near, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What an expression gives, condition by condition and part by part."""

    elements: int
    error: str | None
    conditions: tuple[Condition, ...]
    parts: tuple[Part, ...]


def explain(expr: Expr, storage: Storage, now: UnixSeconds) -> Explanation:
    """Evaluate an expression and all its parts; never raises for a failed query."""
    whole = _part(expr, 0, storage, now)
    conditions = conditions_of(expr, storage, now)
    parts: list[Part] = []
    for child, depth in _below(expr, 0):
        if len(parts) == MAX_PARTS:
            break
        parts.append(_part(child, depth, storage, now))
    return Explanation(whole.count, whole.error, conditions, tuple(parts))


def conditions_of(expr: Expr, storage: Storage, now: UnixSeconds) -> tuple[Condition, ...]:
    """Return the comparisons with numbers in an expression, as written, without those that fail."""
    found = _comparisons(expr, unless=False)
    conditions = (_condition(it, storage, now, unless=unless) for it, unless in found)
    return tuple(it for it in conditions if it is not None)


def _below(expr: Expr, depth: int) -> Iterator[tuple[Expr, int]]:
    """Yield the parts of `expr` that are not plain numbers and texts."""
    for child in children_of(expr):
        if not isinstance(child, Number | Text):
            yield child, depth + 1
            # The parts of a subquery are evaluated at other instants than now.
            if not isinstance(child, Subquery):
                yield from _below(child, depth + 1)


def _part(expr: Expr, depth: int, storage: Storage, now: UnixSeconds) -> Part:
    text, kind = render(expr), value_type(expr)
    try:
        result = evaluate(expr, storage, now)
    except QueryError as error:
        return Part(depth, text, kind, error=str(error))
    values = _values(result)
    count = len(values)
    if result.windows is not None:
        count = int(result.windows.counts.sum())
    largest = sorted(values, key=lambda it: _largest_first(it.value))
    return Part(depth, text, kind, count, tuple(largest[:MAX_VALUES]))


def _largest_first(value: float) -> tuple[bool, float]:
    """Return what to sort by; NaN comes last."""
    return math.isnan(value), -value


def _values(result: QueryResult) -> list[PartValue]:
    if result.kind is ValueType.SCALAR:
        return [PartValue((), result.scalar)]
    if result.windows is not None:
        windows = result.windows
        newest = [float(windows.values[row, count - 1]) for row, count in enumerate(windows.counts)]
        return [PartValue(*pair) for pair in zip(windows.labels, newest, strict=True)]
    pairs = zip(result.vector.labels, result.vector.values.tolist(), strict=True)
    return [PartValue(*pair) for pair in pairs]


def _comparisons(expr: Expr, *, unless: bool) -> Iterator[tuple[Comparison, bool]]:
    found = comparison_of(expr)
    if found is not None:
        yield found, unless
    elif isinstance(expr, Binary) and expr.op == "unless":
        yield from _comparisons(expr.lhs, unless=unless)
        yield from _comparisons(expr.rhs, unless=not unless)
    elif not isinstance(expr, Subquery):
        for child in children_of(expr):
            yield from _comparisons(child, unless=unless)


def _condition(
    compared: Comparison, storage: Storage, now: UnixSeconds, *, unless: bool
) -> Condition | None:
    try:
        values = _values(evaluate(compared.expr, storage, now))
    except QueryError:
        return None  # the part says why
    near = [_near(compared, it) for it in values]
    near.sort(key=lambda it: _largest_first(it.beyond))
    return Condition(
        render(compared.expr),
        compared.op,
        compared.threshold,
        unless,
        len(near),
        tuple(near[:MAX_VALUES]),
    )


def _near(compared: Comparison, it: PartValue) -> Near:
    beyond = it.value - compared.threshold
    if compared.op in ("<", "<="):
        beyond = -beyond
    elif compared.op == "==":
        beyond = -abs(beyond)
    elif compared.op == "!=":
        beyond = abs(beyond)
    return Near(it.labels, it.value, beyond + 0.0, compared.holds_for(it.value))
