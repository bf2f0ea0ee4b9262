"""All checks over rule files that have been loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ds4watch.alerting.durations import format_duration
from ds4watch.alerting.lint.conditions import name_of
from ds4watch.alerting.lint.findings import Advice, Check, Finding, Metrics
from ds4watch.alerting.lint.ratios import ratio_advice
from ds4watch.alerting.lint.tiers import Tiered, tier_advice
from ds4watch.alerting.lint.units import unit_advice
from ds4watch.alerting.rulefile import RuleFile
from ds4watch.alerting.templates import Template
from ds4watch.config.document import Path
from ds4watch.model.alert import AlertRule, RecordingRule
from ds4watch.promql.ast import Expr
from ds4watch.promql.parse import parse
from ds4watch.promql.selection import selectors_of

_RUNBOOKS: Final = ("runbook_url", "runbook")


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule where it stands; `interval_seconds` is that between two evaluations of it."""

    file: RuleFile
    path: Path
    rule: AlertRule | RecordingRule
    expr: Expr
    interval_seconds: float

    def finding(self, advice: Advice, key: str = "expr") -> Finding:
        line = self.file.document.line_of((*self.path, key))
        return Finding(advice, self.rule.name, self.file.document.file, line)


def lint(
    files: Sequence[RuleFile], metrics: Metrics, *, interval_seconds: float
) -> tuple[Finding, ...]:
    """Return what is wrong with rules that load, file by file, in order of lines.

    interval_seconds: between two evaluations of a group that does not say.
    """
    rules = [rule for file in files for rule in _rules(file, interval_seconds)]
    found = [
        *_unknown_metrics(rules, metrics),
        *_tiers(rules),
        *(finding for rule in rules for finding in _of_rule(rule, metrics)),
    ]
    order = {file.document.file: at for at, file in enumerate(files)}
    return tuple(sorted(found, key=lambda it: (order[it.file], it.line or 0, it.advice.check)))


def _rules(file: RuleFile, interval_seconds: float) -> Iterator[_Rule]:
    for number, group in enumerate(file.groups):
        for position, rule in enumerate(group.rules):
            path: Path = ("groups", number, "rules", position)
            interval = group.interval_seconds or interval_seconds
            yield _Rule(file, path, rule, parse(rule.expression), interval)


def _of_rule(it: _Rule, metrics: Metrics) -> Iterator[Finding]:
    yield from map(it.finding, ratio_advice(it.expr, metrics))
    yield from map(it.finding, unit_advice(it.expr, metrics))
    if isinstance(it.rule, RecordingRule):
        return
    yield from _changing_labels(it, it.rule)
    if not any(name in _RUNBOOKS for name, _ in it.rule.annotations):
        tier = dict(it.rule.labels).get("severity", "no severity")
        yield it.finding(
            Advice(
                Check.NO_RUNBOOK,
                f"the tier {tier} has no runbook",
                "who is woken by it has to find out what to do",
                "add the annotation `runbook_url`",
            ),
            "annotations",
        )
    if 0 < it.rule.for_seconds < it.interval_seconds:
        interval = format_duration(it.interval_seconds)
        yield it.finding(
            Advice(
                Check.SHORT_FOR,
                f"`for: {format_duration(it.rule.for_seconds)}` is shorter than the interval",
                f"it is evaluated every {interval}, so that it waits for {interval}",
                f"write `for: {interval}`, or leave it out",
            ),
            "for",
        )


def _changing_labels(it: _Rule, rule: AlertRule) -> Iterator[Finding]:
    for name, text in rule.labels:
        if Template(text).uses_value:
            yield it.finding(
                Advice(
                    Check.CHANGING_LABEL,
                    f"the label {name} holds the value",
                    "each new value makes a new alert, which waits anew and is told anew",
                    "put the value into an annotation",
                ),
                "labels",
            )


def _unknown_metrics(rules: Sequence[_Rule], metrics: Metrics) -> Iterator[Finding]:
    recorded = {it.rule.name for it in rules if isinstance(it.rule, RecordingRule)}
    said: set[tuple[str, str]] = set()
    for it in rules:
        for name in dict.fromkeys(map(name_of, selectors_of(it.expr))):
            place = (it.file.document.file, name or "")
            if not name or name in recorded or metrics.is_known(name) or place in said:
                continue
            said.add(place)
            like = metrics.nearest(name)
            yield it.finding(
                Advice(
                    Check.UNKNOWN_METRIC,
                    f"no engine, exporter or rule that is known here has {name}",
                    "a metric that is not there never fires",
                    f"did you mean {like}?" if like else "right if a target of yours has it",
                )
            )


def _tiers(rules: Sequence[_Rule]) -> Iterator[Finding]:
    by_alert: dict[tuple[str, str], list[Tiered]] = {}
    for at, it in enumerate(rules):
        if isinstance(it.rule, AlertRule):
            key = (it.file.document.file, it.rule.name)
            by_alert.setdefault(key, []).append(Tiered(at, it.rule, it.expr))
    for tiers in by_alert.values():
        yield from (rules[at].finding(advice) for at, advice in tier_advice(tiers))
