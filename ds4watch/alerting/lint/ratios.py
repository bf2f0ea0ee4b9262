"""Quotients: what they do when there is nothing to divide by, or nearly nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ds4watch.alerting.lint.conditions import (
    Comparison,
    Placed,
    comparison_of,
    has_rate,
    is_part_of_all,
    name_of,
    names_in,
    number_of,
    own_parts,
    placed,
)
from ds4watch.alerting.lint.findings import Advice, Check, Metrics
from ds4watch.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Expr,
    InstantSelector,
    Number,
    RangeSelector,
)
from ds4watch.promql.render import render

_CAPACITIES: Final = ("_total_bytes", "_size_bytes", "_limit_bytes", "MemTotal_bytes", "_max_fds")
_COUNTS: Final = ("count", "group", "count_values")
_KEEPING: Final = ("sum", "avg", "min", "max", "topk", "bottomk", "quantile")
_LONGEST_SHOWN: Final = 70


def ratio_advice(expr: Expr, metrics: Metrics) -> Iterator[Advice]:
    """Yield what is wrong with the quotients and shares of a rule."""
    parts = list(placed(expr))
    unguarded = [it for it in parts if _divides(it.expr) and not _is_guarded(it)]
    said: set[str] = set()
    for it in unguarded:
        assert isinstance(it.expr, Binary)
        advice = _unguarded(it.expr)
        if advice.what not in said:
            said.add(advice.what)
            yield advice
    yield from (_silent(it.expr) for it in parts if _is_rest_of_one(it.expr))
    guarded_ones = [it for it in parts if it.expr not in [bad.expr for bad in unguarded]]
    yield from _without_traffic(guarded_ones, [bad.expr for bad in unguarded], metrics)


def _divides(expr: Expr) -> bool:
    return isinstance(expr, Binary) and expr.op in ("/", "%") and not _is_mean(expr)


def _is_mean(expr: Binary) -> bool:
    """Return whether it is `x_sum / x_count`: without observations NaN, which is silence."""
    sums, counts = names_in(expr.lhs), names_in(expr.rhs)
    return bool(sums) and {name.removesuffix("_sum") + "_count" for name in sums} == counts


def _is_guarded(it: Placed) -> bool:
    assert isinstance(it.expr, Binary)
    divisor = it.expr.rhs
    if _never_zero(divisor):
        return True
    compared = [found for found in map(comparison_of, it.beside) if found is not None]
    return any(_guards(found, divisor) for found in compared)


def _guards(found: Comparison, divisor: Expr) -> bool:
    if found.holds_for(0.0):
        return False
    names = names_in(divisor)
    return found.expr == divisor or (bool(names) and names <= names_in(found.expr))


def _never_zero(expr: Expr) -> bool:
    written = number_of(expr)
    if written is not None:
        return written != 0
    compared = comparison_of(expr)
    if compared is not None:
        return not compared.holds_for(0.0)
    if isinstance(expr, InstantSelector | RangeSelector):
        return (name_of(expr) or "").endswith(_CAPACITIES)
    if isinstance(expr, Aggregate):
        return expr.op in _COUNTS or (expr.op in _KEEPING and _never_zero(expr.expr))
    if isinstance(expr, Call):
        return _call_never_zero(expr)
    return isinstance(expr, Binary) and _binary_never_zero(expr)


def _call_never_zero(expr: Call) -> bool:
    if expr.function in ("clamp_min", "clamp"):
        least = number_of(expr.args[1])
        return least is not None and least > 0
    if expr.function in ("time", "count_over_time"):
        return True
    return len(expr.args) == 1 and expr.function != "rate" and _never_zero(expr.args[0])


def _binary_never_zero(expr: Binary) -> bool:
    sides = [_never_zero(side) for side in (expr.lhs, expr.rhs)]
    if expr.op == "+":
        added = [number_of(side) for side in (expr.lhs, expr.rhs)]
        return any(number is not None and number > 0 for number in added)
    if expr.op in ("and", "unless"):
        return sides[0]
    return expr.op in ("or", "*", "/") and all(sides)


def _unguarded(expr: Binary) -> Advice:
    divisor = _short(expr.rhs)
    return Advice(
        Check.UNGUARDED_RATIO,
        f"`{_short(expr)}` divides by what can be 0",
        "0/0 is NaN and never fires, x/0 is +Inf and fires",
        f"put a guard beside it: `and {divisor} > N`",
    )


def _is_rest_of_one(expr: Expr) -> bool:
    """Return whether it is 1 less a quotient whose upper part may not be there at all."""
    if not isinstance(expr, Binary) or expr.op != "-" or expr.lhs != Number(1.0):
        return False
    quotient = expr.rhs
    if not isinstance(quotient, Binary) or quotient.op != "/" or number_of(quotient.lhs):
        return False
    upper = list(own_parts(quotient.lhs))
    return has_rate(quotient.lhs) and not any(
        isinstance(node, Binary) and node.op == "or" for node in upper
    )


def _silent(expr: Expr) -> Advice:
    assert isinstance(expr, Binary)
    assert isinstance(expr.rhs, Binary)
    upper = _short(expr.rhs.lhs)
    return Advice(
        Check.SILENT_WHEN_ABSENT,
        f"`{upper}` may have no series before the first event",
        "then the whole is empty, which is silence at what should be 1",
        f"give it a zero: `({upper} or {_short(expr.rhs.rhs)} * 0)`",
    )


def _without_traffic(
    parts: list[Placed], unguarded: list[Expr], metrics: Metrics
) -> Iterator[Advice]:
    said: set[str] = set()
    for it in parts:
        compared = comparison_of(it.expr)
        share = None if compared is None else _share_in(compared.expr, metrics)
        if share is None or share in unguarded or _short(share) in said:
            continue
        if not _has_traffic(share, it.beside, metrics):
            said.add(_short(share))
            yield Advice(
                Check.NO_TRAFFIC_GUARD,
                f"`{_short(share)}` is a share, with nothing beside it that asks for traffic",
                "one request at night can make it 0 or 1",
                "add `and` with a rate of requests or tokens above what canaries make",
            )


def _share_in(expr: Expr, metrics: Metrics) -> Expr | None:
    for node in own_parts(expr):
        if isinstance(node, InstantSelector | RangeSelector):
            if metrics.is_share_of_traffic(name_of(node) or ""):
                return node
        elif isinstance(node, Binary) and _is_share_of_rates(node):
            return node
    return None


def _is_share_of_rates(expr: Binary) -> bool:
    rates = all(has_rate(side) for side in (expr.lhs, expr.rhs))
    return _divides(expr) and rates and is_part_of_all(expr)


def _has_traffic(share: Expr, beside: tuple[Expr, ...], metrics: Metrics) -> bool:
    found = [compared for compared in map(comparison_of, beside) if compared is not None]
    if isinstance(share, Binary):
        found += [it for it in map(comparison_of, own_parts(share.rhs)) if it is not None]
        if any(isinstance(it, Call) and it.function == "clamp_min" for it in own_parts(share.rhs)):
            return True
    return any(it.wants_at_least and _share_in(it.expr, metrics) is None for it in found)


def _short(expr: Expr) -> str:
    text = render(expr)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"
