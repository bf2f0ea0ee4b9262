"""All rules, evaluated in file order against one storage at one instant."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ds4watch.alerting.compiled import (
    CompiledRule,
    compile_group,
    evaluate_exit,
    evaluate_rule,
    names_read,
)
from ds4watch.alerting.machine import step
from ds4watch.alerting.series import alert_samples, recorded_samples
from ds4watch.history.live import LiveBuffer
from ds4watch.model.alert import (
    AlertPhase,
    AlertRule,
    AlertState,
    Evaluation,
    RecordingRule,
    RuleGroup,
    Transition,
)
from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Sample, labels_of

log = logging.getLogger(__name__)

FAILED = "ds4_rule_evaluation_failed"


@dataclass(frozen=True, slots=True)
class Round:
    """What one round gave: every alert there is now, and what changed."""

    alerts: tuple[AlertState, ...]
    transitions: tuple[Transition, ...]
    failed: tuple[Sample, ...] = ()


@dataclass(slots=True)
class _Group:
    """A group and when it is due."""

    name: str
    interval_seconds: float
    rules: tuple[CompiledRule, ...]
    due_at: UnixSeconds = 0.0


@dataclass(slots=True)
class _Turn:
    """A round under way."""

    live: LiveBuffer
    now: UnixSeconds
    by_rule: Mapping[str, Mapping[str, AlertState]]
    alerts: list[AlertState] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)


class RuleBook:
    """The loaded rules. A rule that cannot be evaluated changes nothing but its own failure."""

    def __init__(self, groups: Sequence[RuleGroup]) -> None:
        self._groups = [
            _Group(group.name, group.interval_seconds, compile_group(group)) for group in groups
        ]
        self._errors: dict[tuple[str, int], str] = {}
        self._known = {
            rule.rule.id
            for group in self._groups
            for rule in group.rules
            if isinstance(rule.rule, AlertRule)
        }

    def names_read(self) -> frozenset[str]:
        """Return the metric names that rules read; the live buffer has to keep these."""
        found: set[str] = set()
        for group in self._groups:
            for rule in group.rules:
                names = names_read(rule)
                if names is None:
                    log.warning(
                        "rule %s selects series by no name: it sees ds4_*, up and what other "
                        "rules read, no more",
                        rule.rule.name,
                    )
                found |= names or frozenset()
        return frozenset(found)

    def evaluate(self, live: LiveBuffer, alerts: Sequence[AlertState], now: UnixSeconds) -> Round:
        """Evaluate what is due and step its alerts; the others stay as they are."""
        turn = _Turn(live, now, _by_rule(alerts))
        self._end_orphans(turn)
        for group in self._groups:
            if now >= group.due_at or group.due_at - now > group.interval_seconds:
                group.due_at = now + group.interval_seconds
                self._evaluate_group(turn, group)
            else:
                self._keep_group(turn, group)
        live.write("alerts", alert_samples(turn.alerts), now)
        return Round(tuple(turn.alerts), tuple(turn.transitions), self._failures())

    def _evaluate_group(self, turn: _Turn, group: _Group) -> None:
        for number, compiled in enumerate(group.rules):
            evaluation = evaluate_rule(compiled, turn.live, turn.now)
            if isinstance(compiled.rule, RecordingRule):
                error = _record(turn, f"{group.name}/{number}", compiled.rule, evaluation)
            else:
                error = _step(turn, compiled, compiled.rule, evaluation)
            self._note((group.name, number), compiled.rule.name, error)

    def _keep_group(self, turn: _Turn, group: _Group) -> None:
        for compiled in group.rules:
            if isinstance(compiled.rule, AlertRule):
                turn.alerts.extend(turn.by_rule.get(compiled.rule.id, {}).values())

    def _end_orphans(self, turn: _Turn) -> None:
        """End alerts of rules that are no longer there."""
        for rule_id, states in turn.by_rule.items():
            if rule_id in self._known:
                continue
            for state in states.values():
                if state.phase is AlertPhase.FIRING:
                    ended = replace(state, phase=AlertPhase.RESOLVED, resolved_at=turn.now)
                    turn.transitions.append(_orphaned(state, ended, turn.now))

    def _note(self, place: tuple[str, int], rule: str, error: str | None) -> None:
        before = self._errors.get(place)
        if error is None:
            if self._errors.pop(place, None) is not None:
                log.warning("rule %s can be evaluated again", rule)
            return
        if before is None:
            log.error("rule %s cannot be evaluated, its alerts stay as they are: %s", rule, error)
        self._errors[place] = error

    def _failures(self) -> tuple[Sample, ...]:
        failed = {
            (group.name, group.rules[number].rule.name)
            for group in self._groups
            for place, number in self._errors
            if place == group.name
        }
        return tuple(
            Sample(FAILED, labels_of({"group": group, "rule": rule}), 1.0)
            for group, rule in sorted(failed)
        )


def _record(turn: _Turn, producer: str, rule: RecordingRule, evaluation: Evaluation) -> str | None:
    if evaluation.error is not None:
        return evaluation.error
    try:
        samples = recorded_samples(rule, evaluation)
    except QueryError as error:
        return str(error)
    turn.live.write(producer, samples, turn.now)
    return None


def _step(
    turn: _Turn, compiled: CompiledRule, rule: AlertRule, evaluation: Evaluation
) -> str | None:
    result = step(
        rule,
        turn.by_rule.get(rule.id, {}),
        evaluation,
        turn.now,
        exit_evaluation=evaluate_exit(compiled, turn.live, turn.now),
    )
    turn.alerts.extend(result.states.values())
    turn.transitions.extend(result.transitions)
    return result.error


def _by_rule(alerts: Iterable[AlertState]) -> dict[str, dict[str, AlertState]]:
    found: dict[str, dict[str, AlertState]] = {}
    for alert in alerts:
        found.setdefault(alert.rule_id, {})[alert.fingerprint] = alert
    return found


def _orphaned(old: AlertState, new: AlertState, now: UnixSeconds) -> Transition:
    return Transition(
        fingerprint=new.fingerprint,
        labels=new.labels,
        old=old.phase,
        new=new.phase,
        at=now,
        value=new.value,
        reason="its rule was removed",
        annotations=new.annotations,
    )
