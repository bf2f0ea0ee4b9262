"""Tiers of one alert: the higher has to ask for more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ds4watch.alerting.durations import format_duration
from ds4watch.alerting.lint.conditions import comparison_of
from ds4watch.alerting.lint.findings import Advice, Check
from ds4watch.model.alert import AlertRule, Tier
from ds4watch.promql.ast import Aggregate, Binary, Call, Expr, Negate, Number, Subquery
from ds4watch.promql.numbers import plain


class Threshold(NamedTuple):
    """A number that something is compared with."""

    op: str
    value: float


@dataclass(frozen=True, slots=True)
class Tiered:
    """A tier of an alert with its expression; `at` is its place among the rules looked at."""

    at: int
    rule: AlertRule
    expr: Expr


def tier_advice(tiers: Sequence[Tiered]) -> Iterator[tuple[int, Advice]]:
    """Yield, for the tiers of one alert, those that leave a lower one no room."""
    ranked = [it for it in tiers if it.rule.tier is not Tier.NONE]
    for high in ranked:
        below = [low for low in ranked if low.rule.tier.rank < high.rule.tier.rank]
        found = (_between(low, high) for low in below)
        advice = next((it for it in found if it is not None), None)
        if advice is not None:
            yield high.at, advice


def _between(low: Tiered, high: Tiered) -> Advice | None:
    low_shape, low_numbers = _shape(low.expr)
    high_shape, high_numbers = _shape(high.expr)
    if low_shape != high_shape:
        return None
    pairs = [pair for pair in zip(low_numbers, high_numbers, strict=True) if pair[0] != pair[1]]
    if pairs and all(_is_weaker(*pair) for pair in pairs):
        low_at, high_at = pairs[0]
        what = (
            f"{high.rule.tier} fires at {high_at.op} {plain(high_at.value)}, "
            f"before {low.rule.tier} at {low_at.op} {plain(low_at.value)}"
        )
        return _advice(low, what, "give the higher tier the stricter threshold")
    if not pairs and high.rule.for_seconds <= low.rule.for_seconds:
        held = format_duration(high.rule.for_seconds)
        what = f"{high.rule.tier} asks for no more than {low.rule.tier}, for {held}"
        return _advice(low, what, "give it a stricter threshold, or a longer `for`")
    return None


def _advice(low: Tiered, what: str, mend: str) -> Advice:
    why = f"the higher tier mutes the lower: {low.rule.tier} is never told by itself"
    return Advice(Check.UNREACHABLE_TIER, what, why, mend)


def _is_weaker(low: Threshold, high: Threshold) -> bool:
    if high.op in (">", ">="):
        return high.value < low.value
    return high.op in ("<", "<=") and high.value > low.value


def _shape(expr: Expr) -> tuple[Expr, list[Threshold]]:
    """Return the expression without the numbers it compares with, and these."""
    numbers: list[Threshold] = []
    return _blanked(expr, numbers), numbers


def _blanked(expr: Expr, numbers: list[Threshold]) -> Expr:
    compared = comparison_of(expr)
    if compared is not None:
        numbers.append(Threshold(compared.op, compared.threshold))
        return Binary(compared.op, _blanked(compared.expr, numbers), Number(0.0))
    if isinstance(expr, Binary):
        left = _blanked(expr.lhs, numbers)
        return replace(expr, lhs=left, rhs=_blanked(expr.rhs, numbers))
    if isinstance(expr, Call):
        return replace(expr, args=tuple(_blanked(arg, numbers) for arg in expr.args))
    if isinstance(expr, Aggregate | Negate | Subquery):
        return replace(expr, expr=_blanked(expr.expr, numbers))
    return expr
