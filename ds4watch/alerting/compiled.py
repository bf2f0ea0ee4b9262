"""Rules with their expressions parsed, and what these give at an instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ds4watch.alerting.evaluation import Evaluation
from ds4watch.alerting.machine import EXIT_ANNOTATION
from ds4watch.alerting.texts import RuleTexts
from ds4watch.model.alert import AlertRule, RecordingRule, RuleGroup
from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.promql.ast import Expr, Selector, ValueType
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.doubt import Doubt, shared_by
from ds4watch.promql.evaluate import evaluate
from ds4watch.promql.parse import parse
from ds4watch.promql.selection import longest_of, windows_read
from ds4watch.promql.storage import Storage
from ds4watch.promql.vectors import one


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule and its parsed expressions.

    exit_expr: that of a `ds4_exit` annotation. texts: what is made of an alert rule's templates,
    kept from step to step.
    """

    rule: AlertRule | RecordingRule
    expr: Expr
    exit_expr: Expr | None = None
    texts: RuleTexts | None = None


def compile_group(group: RuleGroup) -> tuple[CompiledRule, ...]:
    """Parse the expressions of a loaded group, once. Raises QueryError if one is malformed."""
    return tuple(compile_rule(rule) for rule in group.rules)


def compile_rule(rule: AlertRule | RecordingRule) -> CompiledRule:
    """Parse a rule's expressions. Raises QueryError if one is malformed."""
    if isinstance(rule, RecordingRule):
        return CompiledRule(rule, parse(rule.expression))
    leaving = dict(rule.annotations).get(EXIT_ANNOTATION)
    exit_expr = parse(leaving) if leaving else None
    return CompiledRule(rule, parse(rule.expression), exit_expr, RuleTexts(rule))


def seconds_read(rule: CompiledRule) -> Mapping[str, float] | None:
    """Return how far back a rule reads each metric, or None if these are not bounded."""
    exprs = (rule.expr,) if rule.exit_expr is None else (rule.expr, rule.exit_expr)
    read = [windows_read(expr) for expr in exprs]
    bounded = [one for one in read if one is not None]
    return longest_of(bounded) if len(bounded) == len(read) else None


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
    vector = one(result.scalar) if result.kind is ValueType.SCALAR else result.vector
    return Evaluation(
        vector,
        incomplete=result.incomplete,
        no_data=result.no_data,
        doubts=_doubts(expr, result.missing) if result.missing else (),
    )


def _doubts(expr: Expr, missing: Mapping[Selector, LabelColumn]) -> tuple[Doubt, ...]:
    shared = shared_by(expr)
    return tuple(
        Doubt(series, each) for selector, series in missing.items() for each in shared[selector]
    )
