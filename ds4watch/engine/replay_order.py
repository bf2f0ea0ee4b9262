"""In which order rules can be replayed: most over many instants at once, some instant by instant.

A rule sees what an earlier one has recorded at the same instant, and what a later one, itself or
the alerts (`ALERTS`) came to at instants before. The second kind has to go step by step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ds4watch.alerting.compiled import CompiledRule, compile_group
from ds4watch.model.alert import AlertRule, RecordingRule, RuleGroup
from ds4watch.model.series import NAME_LABEL
from ds4watch.promql.ast import (
    AtEdge,
    Call,
    Expr,
    InstantSelector,
    RangeSelector,
    Selector,
    Subquery,
    walk,
)
from ds4watch.promql.selection import predicate_of, selectors_of
from ds4watch.promql.storage import Matcher

ALERT_SERIES = ("ALERTS", "ALERTS_FOR_STATE")
_OF_THE_QUERY = frozenset({"start", "end", "range", "step"})


@dataclass(frozen=True, slots=True)
class ReplayRule:
    """A rule and its place.

    place: counted over all groups. each: steps from one evaluation to the next are at least so
    many seconds. alone: its expression speaks of the query's own start or end.
    """

    place: int
    group: str
    each_seconds: float
    compiled: CompiledRule
    alone: bool

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """The rule's expressions."""
        exit_expr = self.compiled.exit_expr
        return (self.compiled.expr,) if exit_expr is None else (self.compiled.expr, exit_expr)

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """All that its expressions select."""
        return tuple(one for expr in self.exprs for one in selectors_of(expr))


@dataclass(frozen=True, slots=True)
class ReplayOrder:
    """rules: in file order. stepwise: places of those that go step by step, after the others."""

    rules: tuple[ReplayRule, ...]
    stepwise: frozenset[int]
    reads_alerts: bool

    @property
    def recorded(self) -> frozenset[str]:
        """Names of the series that the rules make."""
        names = {it.compiled.rule.name for it in self.rules if _records(it)}
        return frozenset(names.union(ALERT_SERIES))


def order_of(groups: Sequence[RuleGroup]) -> ReplayOrder:
    """Return how to replay rule groups. Raises QueryError if an expression is malformed."""
    rules: list[ReplayRule] = []
    for group in groups:
        for compiled in compile_group(group):
            alone = any(_speaks_of_the_query(expr) for expr in _exprs(compiled))
            rules.append(
                ReplayRule(len(rules), group.name, group.interval_seconds, compiled, alone)
            )
    reads_alerts = any(
        _accepts(one, name) for it in rules for one in it.selectors for name in ALERT_SERIES
    )
    return ReplayOrder(tuple(rules), frozenset(_entangled(rules)), reads_alerts)


def accepts_any(matchers: Iterable[Matcher], names: Iterable[str]) -> bool:
    """Return whether matchers may select one of these metric names."""
    tests = [predicate_of(it) for it in matchers if it.name == NAME_LABEL]
    return any(all(test(name) for test in tests) for name in names)


def _exprs(compiled: CompiledRule) -> tuple[Expr, ...]:
    return (compiled.expr,) if compiled.exit_expr is None else (compiled.expr, compiled.exit_expr)


def _records(it: ReplayRule) -> bool:
    return isinstance(it.compiled.rule, RecordingRule)


def _accepts(selector: Selector, name: str) -> bool:
    return accepts_any(selector.matchers, (name,))


def _speaks_of_the_query(expr: Expr) -> bool:
    return any(
        (isinstance(node, Call) and node.function in _OF_THE_QUERY)
        or (
            isinstance(node, InstantSelector | RangeSelector | Subquery)
            and isinstance(node.when.at, AtEdge)
        )
        for node in walk(expr)
    )


def _entangled(rules: Sequence[ReplayRule]) -> set[int]:
    """Return who reads what comes later, what that is, and who reads it."""
    reads = {it.place: set(_read_places(it, rules)) for it in rules}
    found: set[int] = set()
    for it in rules:
        later = {
            place for place in reads[it.place] if place >= it.place or not _records(rules[place])
        }
        if later:
            found |= later | {it.place}
    while more := {place for place, read in reads.items() if read & found} - found:
        found |= more
    return found


def _read_places(it: ReplayRule, rules: Sequence[ReplayRule]) -> Iterator[int]:
    """Yield the places of the rules whose series a rule may read."""
    for selector in it.selectors:
        alerts = any(_accepts(selector, name) for name in ALERT_SERIES)
        for other in rules:
            rule = other.compiled.rule
            if isinstance(rule, AlertRule):
                if alerts and _may_be(selector, "alertname", rule.name):
                    yield other.place
            elif _accepts(selector, rule.name):
                yield other.place


def _may_be(selector: Selector, label: str, value: str) -> bool:
    return all(predicate_of(it)(value) for it in selector.matchers if it.name == label)
