"""Unit tests of rules, run as `promtool test rules` runs them, by our own evaluator and machine."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ds4watch.alerting.unitfile import AlertCase, ExpectedAlert, ExprCase, UnitFile, UnitGroup
from ds4watch.engine.rulebook import RuleBook
from ds4watch.model.alert import AlertPhase, AlertRule, AlertState, RuleGroup
from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import NAME_LABEL, Labels, labels_of
from ds4watch.promql.ast import ValueType
from ds4watch.promql.evaluate import evaluate
from ds4watch.promql.memory import MemorySeries

_FUZZ = 1e-6
_ACTION = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_EXTERNAL = re.compile(
    r"(?:\$externalLabels|\.ExternalLabels)\.(?P<label>\w+)|(?P<url>\$externalURL|\.ExternalURL)\b"
)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """What came out differently: what was looked at, when, what was expected, what there was.

    error: it could not be evaluated at all.
    """

    looked_at: str
    at: UnixSeconds
    expected: tuple[str, ...] = ()
    got: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class UnitOutcome:
    """How one test ended; `skipped` says why it was not run."""

    group: UnitGroup
    mismatches: tuple[Mismatch, ...] = ()
    skipped: str = ""


def run_units(file: UnitFile, groups: Sequence[RuleGroup]) -> tuple[UnitOutcome, ...]:
    """Run the tests of a file against rule groups."""
    order = {name: at for at, name in enumerate(file.group_order)}
    ordered = sorted(groups, key=lambda group: order.get(group.name, 0))
    return tuple(_run(file, unit, ordered) for unit in file.groups)


def _run(file: UnitFile, unit: UnitGroup, groups: Sequence[RuleGroup]) -> UnitOutcome:
    if unit.skip:
        return UnitOutcome(unit, skipped=unit.skip)
    series = MemorySeries()
    for given in unit.series:
        points = (
            (_instant(at, unit.interval_seconds), value)
            for at, value in enumerate(given.values)
            if value is not None
        )
        series.add(given.labels, points)
    book = RuleBook([_as_tested(group, unit) for group in groups])
    found = list(_alerts(file, unit, book, series))
    series.horizon = math.inf
    if not any(it.error for it in found):
        found += _exprs(file, unit, series)
    return UnitOutcome(unit, tuple(found))


def _as_tested(group: RuleGroup, unit: UnitGroup) -> RuleGroup:
    """Return the group, due each time as promtool has it, with external labels filled in."""
    filled = _filler(dict(unit.external_labels), unit.external_url)
    rules = [_filled(rule, filled) if isinstance(rule, AlertRule) else rule for rule in group.rules]
    return replace(group, interval_seconds=0.0, rules=tuple(rules))


def _filled(rule: AlertRule, filled: Callable[[str], str]) -> AlertRule:
    labels = tuple((name, filled(text)) for name, text in rule.labels)
    annotations = tuple((name, filled(text)) for name, text in rule.annotations)
    return replace(rule, labels=labels, annotations=annotations)


def _filler(labels: dict[str, str], url: str) -> Callable[[str], str]:
    def value(match: re.Match[str]) -> str:
        text = labels.get(match["label"], "") if match["label"] else url
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return lambda text: _ACTION.sub(lambda action: _EXTERNAL.sub(value, action[0]), text)


def _instant(number: int, step_seconds: float) -> UnixSeconds:
    return round(number * step_seconds, 6)


def _alerts(
    file: UnitFile, unit: UnitGroup, book: RuleBook, series: MemorySeries
) -> Iterator[Mismatch]:
    """Evaluate the rules from 0 on, and look at what fires when a case wants to know."""
    every = file.evaluation_seconds
    waiting = sorted(unit.alerts, key=lambda case: case.at)
    alerts: tuple[AlertState, ...] = ()
    for number in range(math.floor(round(unit.last_at / every, 6)) + 1):
        now = _instant(number, every)
        series.horizon = now
        alerts = book.evaluate(series, alerts, now).alerts
        if errors := book.errors():
            yield from (Mismatch(f"rule: {name}", now, error=it) for name, it in errors.items())
            return
        while waiting and waiting[0].at < _instant(number + 1, every):
            yield from _compared(waiting.pop(0), alerts)


def _compared(case: AlertCase, alerts: Iterable[AlertState]) -> Iterator[Mismatch]:
    firing = [it for it in alerts if it.name == case.alert and it.phase is AlertPhase.FIRING]
    named = {"alertname": case.alert}
    expected = _told(
        ExpectedAlert(labels_of(dict(it.labels) | named), it.annotations) for it in case.expected
    )
    got = _told(ExpectedAlert(it.labels, labels_of(dict(it.annotations))) for it in firing)
    if expected != got:
        yield Mismatch(f"alertname: {case.alert}", case.at, expected, got)


def _told(alerts: Iterable[ExpectedAlert]) -> tuple[str, ...]:
    ordered = sorted(alerts, key=lambda it: (it.labels, it.annotations))
    return tuple(
        f"Labels:{_shown(it.labels)} Annotations:{_shown(it.annotations)}" for it in ordered
    )


def _shown(labels: Labels) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels) + "}"


def _exprs(file: UnitFile, unit: UnitGroup, series: MemorySeries) -> Iterator[Mismatch]:
    for case in unit.exprs:
        looked_at = f"expr: {case.text.strip()}"
        try:
            got = _samples(case, series)
        except QueryError as error:
            yield Mismatch(looked_at, case.at, error=str(error))
            continue
        expected = sorted(case.expected, key=lambda it: it[0])
        if not _same(expected, got, fuzz=_FUZZ if file.fuzzy else 0.0):
            yield Mismatch(looked_at, case.at, _values(expected), _values(got))


def _samples(case: ExprCase, series: MemorySeries) -> list[tuple[Labels, float]]:
    result = evaluate(case.expr, series, case.at)
    if result.kind is ValueType.SCALAR:
        return [((), result.scalar)]
    if result.kind is not ValueType.VECTOR:
        raise QueryError(f"is a {result.kind}, not a vector or a number")
    pairs = zip(result.vector.labels, result.vector.values.tolist(), strict=True)
    return sorted(pairs, key=lambda it: it[0])


def _same(
    expected: Sequence[tuple[Labels, float]], got: Sequence[tuple[Labels, float]], *, fuzz: float
) -> bool:
    return len(expected) == len(got) and all(
        left[0] == right[0] and _close(left[1], right[1], fuzz)
        for left, right in zip(expected, got, strict=True)
    )


def _close(left: float, right: float, fuzz: float) -> bool:
    both_nan = math.isnan(left) and math.isnan(right)
    return both_nan or left == right or math.isclose(left, right, rel_tol=fuzz, abs_tol=0.0)


def _values(samples: Iterable[tuple[Labels, float]]) -> tuple[str, ...]:
    return tuple(f"{_series(labels)} {value!r}" for labels, value in samples)


def _series(labels: Labels) -> str:
    pairs = dict(labels)
    return pairs.pop(NAME_LABEL, "") + _shown(labels_of(pairs))
