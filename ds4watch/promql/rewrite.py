"""A tree with some of its parts replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ds4watch.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Expr,
    InstantSelector,
    Negate,
    RangeSelector,
    Selector,
    Subquery,
)
from ds4watch.promql.storage import Matcher


def replace_selectors(expr: Expr, change: Callable[[Selector], Expr]) -> Expr:
    """Return `expr` with `change` applied to each selector, and the rest as it is."""
    if isinstance(expr, InstantSelector | RangeSelector):
        return change(expr)
    if isinstance(expr, Call):
        return replace(expr, args=tuple(replace_selectors(it, change) for it in expr.args))
    if isinstance(expr, Binary):
        lhs, rhs = replace_selectors(expr.lhs, change), replace_selectors(expr.rhs, change)
        return replace(expr, lhs=lhs, rhs=rhs)
    if isinstance(expr, Aggregate):
        param = None if expr.param is None else replace_selectors(expr.param, change)
        return replace(expr, expr=replace_selectors(expr.expr, change), param=param)
    if isinstance(expr, Subquery | Negate):
        return replace(expr, expr=replace_selectors(expr.expr, change))
    return expr


def narrowed(expr: Expr, matchers: tuple[Matcher, ...]) -> Expr:
    """Return `expr` with `matchers` added to each selector."""
    if not matchers:
        return expr
    return replace_selectors(expr, lambda it: replace(it, matchers=(*it.matchers, *matchers)))
