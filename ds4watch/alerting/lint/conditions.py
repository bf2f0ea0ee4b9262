"""What has to hold for what: comparisons, and the conditions that stand beside them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ds4watch.model.series import NAME_LABEL
from ds4watch.promql.ast import Binary, Call, Expr, Number, Selector, When, children_of, walk
from ds4watch.promql.selection import selectors_of
from ds4watch.promql.storage import MatchOp

_COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_TURNED: Final = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "==": "==", "!=": "!="}
_PARTS_OF_ALL: Final = ("err", "fail", "miss", "hit", "retr", "abort", "reject", "drop")
_RATES: Final = ("rate", "irate", "increase", "delta", "idelta")


@dataclass(frozen=True, slots=True)
class Placed:
    """A part of an expression, and the conditions that have to hold beside it."""

    expr: Expr
    beside: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`expr op threshold`, the number always on the right."""

    expr: Expr
    op: str
    threshold: float

    def holds_for(self, value: float) -> bool:
        """Return whether a value passes."""
        return _COMPARE[self.op](value, self.threshold)

    @property
    def wants_at_least(self) -> bool:
        """Return whether it asks for more than some positive number: for traffic, say."""
        return self.op in (">", ">=") and self.threshold > 0


def placed(expr: Expr, beside: tuple[Expr, ...] = ()) -> Iterator[Placed]:
    """Yield every part of `expr` with what stands beside it."""
    yield Placed(expr, beside)
    if isinstance(expr, Binary) and expr.op == "and":
        yield from placed(expr.lhs, (*beside, *conditions(expr.rhs)))
        yield from placed(expr.rhs, (*beside, *conditions(expr.lhs)))
        return
    for child in children_of(expr):
        yield from placed(child, beside)


def conditions(expr: Expr) -> tuple[Expr, ...]:
    """Return what all has to hold for `expr` to have an element."""
    if isinstance(expr, Binary) and expr.op == "and":
        return (*conditions(expr.lhs), *conditions(expr.rhs))
    if isinstance(expr, Binary) and expr.op == "unless":
        return conditions(expr.lhs)
    return (expr,)


def comparison_of(expr: Expr) -> Comparison | None:
    """Return a comparison with a number, if `expr` is one that filters."""
    if not isinstance(expr, Binary) or expr.op not in _COMPARE or expr.return_bool:
        return None
    right, left = number_of(expr.rhs), number_of(expr.lhs)
    if right is not None:
        return Comparison(expr.lhs, expr.op, right)
    return None if left is None else Comparison(expr.rhs, _TURNED[expr.op], left)


def number_of(expr: Expr) -> float | None:
    """Return the value of a number as written, `50 / 100` among them."""
    if isinstance(expr, Number):
        return expr.value
    if isinstance(expr, Binary) and expr.op in ("*", "/"):
        left, right = number_of(expr.lhs), number_of(expr.rhs)
        if left is None or right is None or (expr.op == "/" and right == 0):
            return None
        return left * right if expr.op == "*" else left / right
    return None


def names_in(expr: Expr) -> frozenset[str]:
    """Return the metric names that `expr` selects by equality."""
    found = (name_of(selector) for selector in selectors_of(expr))
    return frozenset(name for name in found if name)


def name_of(selector: Selector) -> str | None:
    """Return the metric name that a selector asks for, if it is one."""
    for matcher in selector.matchers:
        if matcher.name == NAME_LABEL and matcher.op is MatchOp.EQUAL:
            return matcher.value
    return None


def is_part_of_all(quotient: Binary) -> bool:
    """Return whether a quotient is a share by its names, as errors of requests are.

    Others can be anything: seconds for each read, say.
    """
    upper, lower = names_in(quotient.lhs), names_in(quotient.rhs)
    named = any(word in name for name in upper for word in _PARTS_OF_ALL)
    rates = has_rate(quotient.lhs) and has_rate(quotient.rhs)
    same = rates and upper <= lower and _windows(quotient.lhs) == _windows(quotient.rhs)
    return bool(upper) and bool(lower) and (named or same)


def _windows(expr: Expr) -> set[tuple[float, When]]:
    found = selectors_of(expr)
    return {(getattr(it, "range_seconds", 0.0), it.when) for it in found}


def has_rate(expr: Expr) -> bool:
    """Return whether `expr` is made of rates."""
    return any(isinstance(node, Call) and node.function in _RATES for node in walk(expr))


def own_parts(expr: Expr) -> Iterator[Expr]:
    """Yield `expr` and what its value is made of, not what only filters it."""
    yield expr
    inside = comparison_of(expr)
    if inside is not None:
        yield from own_parts(inside.expr)
    elif isinstance(expr, Binary) and expr.op in ("and", "unless"):
        yield from own_parts(expr.lhs)
    else:
        for child in children_of(expr):
            yield from own_parts(child)
