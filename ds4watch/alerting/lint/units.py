"""Shares from 0 to 1 taken for percent, and percent for shares."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from ds4watch.alerting.lint.conditions import (
    comparison_of,
    is_part_of_all,
    name_of,
    number_of,
    placed,
)
from ds4watch.alerting.lint.findings import Advice, Check, Metrics
from ds4watch.promql.ast import Aggregate, Binary, Call, Expr, InstantSelector, RangeSelector
from ds4watch.promql.numbers import plain
from ds4watch.promql.render import render

_SAME_UNIT_OPS: Final = ("avg", "min", "max", "topk", "bottomk", "quantile")
_SAME_UNIT_CALLS: Final = (
    "abs", "ceil", "clamp", "clamp_max", "clamp_min", "floor", "label_join", "label_replace",
    "round", "sort", "sort_desc", "avg_over_time", "last_over_time", "max_over_time",
    "min_over_time", "quantile_over_time",
)  # fmt: skip


class Unit(StrEnum):
    """What a whole is: 1, or 100."""

    SHARE = "share"
    PERCENT = "percent"


def unit_advice(expr: Expr, metrics: Metrics) -> Iterator[Advice]:
    """Yield the comparisons whose number is in another unit than what it is compared with."""
    for it in placed(expr):
        compared = comparison_of(it.expr)
        if compared is None:
            continue
        unit, threshold = unit_of(compared.expr, metrics), compared.threshold
        said = f"`{render(it.expr)}` compares"
        if unit is Unit.SHARE and abs(threshold) > 1:
            yield Advice(
                Check.UNIT,
                f"{said} a share, from 0 to 1, with {plain(threshold)}",
                f"it is {'never' if compared.op in ('>', '>=', '==') else 'always'} so",
                f"{plain(threshold / 100)} is {plain(threshold)} percent",
            )
        elif unit is Unit.PERCENT and 0 < abs(threshold) < 1:
            yield Advice(
                Check.UNIT,
                f"{said} percent, from 0 to 100, with {plain(threshold)}",
                f"that is {plain(threshold)} of a hundred",
                f"write {plain(threshold * 100)} if a share of {plain(threshold)} is meant",
            )


def unit_of(expr: Expr, metrics: Metrics) -> Unit | None:
    """Return the unit of a share's values, None where it cannot be told."""
    if isinstance(expr, InstantSelector | RangeSelector):
        name = name_of(expr) or ""
        if metrics.is_percent(name):
            return Unit.PERCENT
        return Unit.SHARE if metrics.is_share(name) else None
    if isinstance(expr, Aggregate):
        return unit_of(expr.expr, metrics) if expr.op in _SAME_UNIT_OPS else None
    if isinstance(expr, Call):
        units = [unit_of(arg, metrics) for arg in expr.args]
        known = [unit for unit in units if unit is not None]
        return known[0] if known and expr.function in _SAME_UNIT_CALLS else None
    compared = comparison_of(expr)
    if compared is not None:
        return unit_of(compared.expr, metrics)
    return _of_binary(expr, metrics) if isinstance(expr, Binary) else None


def _of_binary(expr: Binary, metrics: Metrics) -> Unit | None:
    left, right = unit_of(expr.lhs, metrics), unit_of(expr.rhs, metrics)
    if expr.op in ("and", "unless", "or"):
        return left
    if expr.op == "*" and Unit.SHARE in (left, right):
        return Unit.PERCENT if 100 in (number_of(expr.lhs), number_of(expr.rhs)) else None
    if expr.op == "/":
        return _of_quotient(expr, left)
    whole, rest = number_of(expr.lhs), right
    if expr.op == "-" and (whole, rest) in ((1, Unit.SHARE), (100, Unit.PERCENT)):
        return rest
    return None


def _of_quotient(expr: Binary, left: Unit | None) -> Unit | None:
    if left is Unit.PERCENT and number_of(expr.rhs) == 100:
        return Unit.SHARE
    return Unit.SHARE if is_part_of_all(expr) else None
