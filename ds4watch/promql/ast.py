"""Our own expression tree: what `parse` returns and everything else works on.

Parentheses are gone, unary plus is gone, durations are seconds, and every selector carries its
metric name as a matcher on `__name__`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ds4watch.model.ports import UnixSeconds
from ds4watch.promql.storage import Matcher


class ValueType(StrEnum):
    """What an expression evaluates to, in the words of the Prometheus API."""

    SCALAR = "scalar"
    STRING = "string"
    VECTOR = "vector"
    MATRIX = "matrix"


class AtEdge(StrEnum):
    """`@ start()` and `@ end()`; in an instant query both are the instant."""

    START = "start"
    END = "end"


class Cardinality(StrEnum):
    """How many series of either side may share one matching label set."""

    ONE_TO_ONE = "one_to_one"
    MANY_TO_ONE = "many_to_one"
    ONE_TO_MANY = "one_to_many"
    MANY_TO_MANY = "many_to_many"


@dataclass(frozen=True, slots=True)
class Number:
    """A number, or a duration used as one."""

    value: float


@dataclass(frozen=True, slots=True)
class Text:
    """A string."""

    value: str


@dataclass(frozen=True, slots=True)
class When:
    """Where a selector looks: `offset_seconds` back from `at`, or from the evaluation's instant."""

    offset_seconds: float = 0.0
    at: UnixSeconds | AtEdge | None = None


@dataclass(frozen=True, slots=True)
class InstantSelector:
    """`name{matchers}`."""

    matchers: tuple[Matcher, ...]
    when: When = When()


@dataclass(frozen=True, slots=True)
class RangeSelector:
    """`name{matchers}[range]`."""

    matchers: tuple[Matcher, ...]
    range_seconds: float
    when: When = When()


@dataclass(frozen=True, slots=True)
class Subquery:
    """`expr[range:step]`; without a step the evaluator's default holds."""

    expr: Expr
    range_seconds: float
    step_seconds: float | None
    when: When = When()


@dataclass(frozen=True, slots=True)
class Call:
    """`function(args)`."""

    function: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`op by (labels) (param, expr)`; `without` turns the meaning of `labels` around."""

    op: str
    expr: Expr
    param: Expr | None = None
    labels: tuple[str, ...] = ()
    without: bool = False


@dataclass(frozen=True, slots=True)
class Matching:
    """How the series of two vectors find each other."""

    cardinality: Cardinality = Cardinality.ONE_TO_ONE
    on: bool = False
    labels: tuple[str, ...] = ()
    include: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Binary:
    """`lhs op rhs`."""

    op: str
    lhs: Expr
    rhs: Expr
    matching: Matching = Matching()
    return_bool: bool = False


@dataclass(frozen=True, slots=True)
class Negate:
    """`-expr`."""

    expr: Expr


Expr: TypeAlias = (
    Number | Text | InstantSelector | RangeSelector | Subquery | Call | Aggregate | Binary | Negate
)
Selector: TypeAlias = InstantSelector | RangeSelector


def children_of(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct sub-expressions."""
    if isinstance(expr, Call):
        return expr.args
    if isinstance(expr, Binary):
        return (expr.lhs, expr.rhs)
    if isinstance(expr, Aggregate):
        return (expr.expr,) if expr.param is None else (expr.param, expr.expr)
    if isinstance(expr, Subquery | Negate):
        return (expr.expr,)
    return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield `expr` and everything below it, parents first."""
    yield expr
    for child in children_of(expr):
        yield from walk(child)


def value_type(expr: Expr) -> ValueType:
    """Return what `expr` evaluates to."""
    if isinstance(expr, Number):
        return ValueType.SCALAR
    if isinstance(expr, Text):
        return ValueType.STRING
    if isinstance(expr, RangeSelector | Subquery):
        return ValueType.MATRIX
    if isinstance(expr, Call):
        scalar = expr.function in SCALAR_FUNCTIONS
        return ValueType.SCALAR if scalar else ValueType.VECTOR
    if isinstance(expr, Negate | Binary):
        types = {value_type(child) for child in children_of(expr)}
        return ValueType.SCALAR if types == {ValueType.SCALAR} else ValueType.VECTOR
    return ValueType.VECTOR


SCALAR_FUNCTIONS = frozenset(
    {"time", "scalar", "pi", "start", "end", "step", "range", "min_of", "max_of"}
)
