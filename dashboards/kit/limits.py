"""The thresholds of the shipped rules, read from the rules themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ds4watch.alerting.rulefile import load_rules
from ds4watch.model.alert import AlertRule, Tier
from ds4watch.promql.ast import Binary, Expr, Number
from ds4watch.promql.parse import parse

RULES = Path(__file__).resolve().parents[2] / "rules"
_GUARDS = ("and", "unless", "or")
_ABOVE, _BELOW = (">", ">="), ("<", "<=")


@dataclass(frozen=True, slots=True)
class Limit:
    """From where on a tier applies; `is_floor`: below it."""

    value: float
    tier: Tier
    is_floor: bool


@cache
def rules() -> tuple[AlertRule, ...]:
    """Return the alerting rules that ship."""
    return tuple(
        rule
        for path in sorted(RULES.glob("*.yml"))
        for group in load_rules(path.read_text(encoding="utf-8"), path.name)
        for rule in group.rules
        if isinstance(rule, AlertRule)
    )


def limits_of(alert: str) -> tuple[Limit, ...]:
    """Return what an alert's tiers compare with, lowest first.

    Of equal values the lower tier counts, which fires sooner.

    Raises ValueError for an alert that does not exist, or compares with nothing fixed.
    """
    found: dict[float, Limit] = {}
    for rule in sorted((it for it in rules() if it.name == alert), key=lambda it: it.tier.rank):
        for limit in _limit(parse(rule.expression), rule.tier):
            found.setdefault(limit.value, limit)
    if not found:
        message = f"no rule named {alert} has a threshold"
        raise ValueError(message)
    return tuple(found[value] for value in sorted(found))


def _limit(expr: Expr, tier: Tier) -> Iterator[Limit]:
    """Yield what the first comparison with a number is made against; the rest are guards."""
    if not isinstance(expr, Binary):
        return
    if expr.op in _GUARDS:
        yield from _limit(expr.lhs, tier)
    elif expr.op in (*_ABOVE, *_BELOW) and isinstance(expr.rhs, Number):
        yield Limit(expr.rhs.value, tier, is_floor=expr.op in _BELOW)
