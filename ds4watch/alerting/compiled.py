"""Rules with their expressions parsed, and what these give at an instant."""

from __future__ import annotations

from dataclasses import dataclass

from ds4watch.alerting.machine import EXIT_ANNOTATION
from ds4watch.model.alert import AlertRule, Evaluation, RecordingRule, RuleGroup
from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Sample
from ds4watch.promql.ast import Expr, ValueType
from ds4watch.promql.evaluate import QueryResult, evaluate
from ds4watch.promql.parse import parse
from ds4watch.promql.selection import selected_names
from ds4watch.promql.storage import Storage


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule and its parsed expressions; `exit_expr` is that of a `ds4_exit` annotation."""

    rule: AlertRule | RecordingRule
    expr: Expr
    exit_expr: Expr | None = None


def compile_group(group: RuleGroup) -> tuple[CompiledRule, ...]:
    """Parse the expressions of a loaded group, once. Raises QueryError if one is malformed."""
    return tuple(compile_rule(rule) for rule in group.rules)


def compile_rule(rule: AlertRule | RecordingRule) -> CompiledRule:
    """Parse a rule's expressions. Raises QueryError if one is malformed."""
    leaving = dict(rule.annotations).get(EXIT_ANNOTATION) if isinstance(rule, AlertRule) else None
    return CompiledRule(rule, parse(rule.expression), parse(leaving) if leaving else None)


def names_read(rule: CompiledRule) -> frozenset[str] | None:
    """Return the metric names that a rule may read, or None if they are not bounded."""
    names = selected_names(rule.expr)
    if rule.exit_expr is None:
        return names
    more = selected_names(rule.exit_expr)
    return None if names is None or more is None else names | more


def evaluate_rule(rule: CompiledRule, storage: Storage, now: UnixSeconds) -> Evaluation:
    """Return what the rule's expression gives at `now`; never raises for a failed query."""
    return _evaluation(rule.expr, storage, now)


def evaluate_exit(rule: CompiledRule, storage: Storage, now: UnixSeconds) -> Evaluation | None:
    """Return what the rule's exit expression gives at `now`, if it has one."""
    return None if rule.exit_expr is None else _evaluation(rule.exit_expr, storage, now)


def _evaluation(expr: Expr, storage: Storage, now: UnixSeconds) -> Evaluation:
    try:
        result = evaluate(expr, storage, now)
    except QueryError as error:
        return Evaluation(error=str(error))
    if result.kind not in (ValueType.SCALAR, ValueType.VECTOR):
        return Evaluation(error=f"a rule cannot be a {result.kind}")
    return Evaluation(
        samples=_samples(result), incomplete=result.incomplete, no_data=result.no_data
    )


def _samples(result: QueryResult) -> tuple[Sample, ...]:
    if result.kind is ValueType.SCALAR:
        return (Sample("", (), result.scalar),)
    return result.samples
