"""The alert state machine: states and one evaluation in, states and transitions out.

Invariants, all tested:
- An error changes nothing, neither do two samples that make one alert.
- With `for` above zero an alert is pending before it fires, for at least that long.
- An incomplete evaluation may start or continue an alert and never ends one; what it keeps is
  `held`. No data is never "all clear" unless the rule says so.
- What a restart brings back is unconfirmed until one evaluation has looked at it afresh.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ds4watch.alerting.durations import format_duration
from ds4watch.alerting.templates import expand
from ds4watch.model.alert import (
    AlertPhase,
    AlertRule,
    AlertState,
    Evaluation,
    OnNoData,
    Transition,
    fingerprint_of,
)
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import NAME_LABEL, Labels, Sample, labels_of

RESOLVED_RETENTION_SECONDS: Final = 900.0
OUTAGE_TOLERANCE_SECONDS: Final = 3600.0
MAX_ALERTS_PER_RULE: Final = 10_000
EXIT_ANNOTATION: Final = "ds4_exit"


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step made of a rule's alerts; `error` says why it changed nothing."""

    states: Mapping[str, AlertState]
    transitions: tuple[Transition, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class _Hit:
    """One alert that the evaluation asks for."""

    labels: Labels
    annotations: Labels
    value: float


@dataclass(slots=True)
class _Step:
    """The inputs of one step, and what has come of it so far."""

    rule: AlertRule
    evaluation: Evaluation
    exit_evaluation: Evaluation | None
    now: UnixSeconds
    states: dict[str, AlertState] = field(default_factory=dict)
    transitions: list[Transition] = field(default_factory=list)


def step(
    rule: AlertRule,
    states: Mapping[str, AlertState],
    evaluation: Evaluation,
    now: UnixSeconds,
    *,
    exit_evaluation: Evaluation | None = None,
) -> StepResult:
    """Move a rule's alerts on by one evaluation.

    states: the alerts of this rule, by fingerprint.
    exit_evaluation: the `ds4_exit` expression, for rules that have one; a firing alert resolves
        only when it has a sample whose labels are all among the alert's.
    """
    if evaluation.error is not None:
        return StepResult(states, error=evaluation.error)
    hits = _hits(rule, evaluation)
    if isinstance(hits, str):
        return StepResult(states, error=hits)
    work = _Step(rule, evaluation, exit_evaluation, now)
    for fingerprint, hit in hits.items():
        _seen(work, fingerprint, states.get(fingerprint), hit)
    for fingerprint, state in states.items():
        if fingerprint not in hits:
            _missed(work, fingerprint, state)
    return StepResult(work.states, tuple(work.transitions))


def restore(
    states: Iterable[AlertState], last_tick_at: UnixSeconds, now: UnixSeconds
) -> tuple[AlertState, ...]:
    """Return stored states as they stand after a restart, unconfirmed.

    The time without a daemon counts neither towards `for` nor towards `keep_firing_for`; after
    more than an hour a pending alert starts anew.
    """
    down_seconds = max(0.0, now - last_tick_at)
    return tuple(_restored(state, down_seconds, now) for state in states)


def _restored(state: AlertState, down_seconds: float, now: UnixSeconds) -> AlertState:
    restored = replace(state, confirmed=False)
    if state.phase is AlertPhase.PENDING:
        anew = down_seconds > OUTAGE_TOLERANCE_SECONDS
        return replace(restored, active_at=now if anew else state.active_at + down_seconds)
    if state.phase is AlertPhase.FIRING and state.keep_firing_since is not None:
        return replace(restored, keep_firing_since=state.keep_firing_since + down_seconds)
    return restored


def _hits(rule: AlertRule, evaluation: Evaluation) -> Mapping[str, _Hit] | str:
    """Return the alerts asked for, by fingerprint, or what is wrong with them."""
    samples = evaluation.samples
    if evaluation.no_data and not samples and rule.on_no_data is OnNoData.ALERT:
        samples = (Sample("", (), math.nan),)
    if len(samples) > MAX_ALERTS_PER_RULE:
        return f"{len(samples)} alerts, more than {MAX_ALERTS_PER_RULE}"
    hits: dict[str, _Hit] = {}
    for sample in samples:
        hit = _hit(rule, sample)
        fingerprint = fingerprint_of(hit.labels)
        if fingerprint in hits:
            return f"two samples make one alert, with the labels {dict(hit.labels)}"
        hits[fingerprint] = hit
    return hits


def _hit(rule: AlertRule, sample: Sample) -> _Hit:
    scope = labels_of(dict(sample.labels) | {NAME_LABEL: sample.name})
    own = {name: expand(text, scope, sample.value) for name, text in rule.labels}
    labels = labels_of(dict(sample.labels) | own | {"alertname": rule.name})
    annotations = labels_of(
        {name: expand(text, scope, sample.value) for name, text in rule.annotations}
    )
    return _Hit(labels, annotations, sample.value)


def _seen(work: _Step, fingerprint: str, old: AlertState | None, hit: _Hit) -> None:
    """Start or continue an alert."""
    rule, now = work.rule, work.now
    if old is None or old.phase is AlertPhase.RESOLVED:
        state = AlertState(rule.id, hit.labels, AlertPhase.PENDING, now, hit.value)
    else:
        # A clock set back must not leave an alert waiting for the future.
        state = replace(old, value=hit.value, active_at=min(old.active_at, now))
    state = replace(
        state, annotations=hit.annotations, keep_firing_since=None, held=False, confirmed=True
    )
    if state.phase is AlertPhase.PENDING and now - state.active_at >= rule.for_seconds:
        state = replace(state, phase=AlertPhase.FIRING, fired_at=now)
    before = old.phase if old is not None else AlertPhase.INACTIVE
    _put(work, fingerprint, before, state, _why_active(rule, state))


def _why_active(rule: AlertRule, state: AlertState) -> str:
    if state.phase is AlertPhase.PENDING:
        return f"condition holds, fires after {format_duration(rule.for_seconds)}"
    if rule.for_seconds:
        return f"condition held for {format_duration(rule.for_seconds)}"
    return "condition holds"


def _missed(work: _Step, fingerprint: str, old: AlertState) -> None:
    """Hold, keep firing, resolve or forget an alert that the evaluation did not ask for."""
    if old.phase is AlertPhase.RESOLVED:
        _age(work, fingerprint, old)
    elif _lacks_data(work):
        work.states[fingerprint] = replace(old, held=True)
    elif old.phase is AlertPhase.PENDING:
        ended = replace(old, phase=AlertPhase.INACTIVE)
        work.transitions.append(_transition(work, old.phase, ended, "condition no longer holds"))
    else:
        _cool(work, fingerprint, old)


def _age(work: _Step, fingerprint: str, old: AlertState) -> None:
    resolved_at = min(old.resolved_at if old.resolved_at is not None else work.now, work.now)
    if work.now - resolved_at < RESOLVED_RETENTION_SECONDS:
        work.states[fingerprint] = replace(old, resolved_at=resolved_at, held=False, confirmed=True)


def _lacks_data(work: _Step) -> bool:
    if work.evaluation.incomplete:
        return True
    return work.evaluation.no_data and work.rule.on_no_data is not OnNoData.RESOLVE


def _cool(work: _Step, fingerprint: str, old: AlertState) -> None:
    """Let a firing alert go once its exit holds and `keep_firing_for` is over."""
    fresh = replace(old, held=False, confirmed=True)
    if any(name == EXIT_ANNOTATION for name, _ in work.rule.annotations):
        leaving = work.exit_evaluation
        if leaving is None or leaving.error or leaving.incomplete or leaving.no_data:
            work.states[fingerprint] = replace(old, held=True)
            return
        if not _may_leave(leaving, old):
            work.states[fingerprint] = replace(fresh, keep_firing_since=None)
            return
    since = old.keep_firing_since if old.keep_firing_since is not None else work.now
    since = min(since, work.now)
    if work.now - since < work.rule.keep_firing_seconds:
        work.states[fingerprint] = replace(fresh, keep_firing_since=since)
        return
    resolved = replace(
        fresh, phase=AlertPhase.RESOLVED, resolved_at=work.now, keep_firing_since=None
    )
    _put(work, fingerprint, old.phase, resolved, _why_over(work.rule))


def _may_leave(leaving: Evaluation, state: AlertState) -> bool:
    labels = set(state.labels)
    return any(labels.issuperset(sample.labels) for sample in leaving.samples)


def _why_over(rule: AlertRule) -> str:
    if rule.keep_firing_seconds:
        return f"condition has not held for {format_duration(rule.keep_firing_seconds)}"
    return "condition no longer holds"


def _put(work: _Step, fingerprint: str, before: AlertPhase, state: AlertState, reason: str) -> None:
    work.states[fingerprint] = state
    if state.phase is not before:
        work.transitions.append(_transition(work, before, state, reason))


def _transition(work: _Step, before: AlertPhase, state: AlertState, reason: str) -> Transition:
    return Transition(
        fingerprint=state.fingerprint,
        labels=state.labels,
        old=before,
        new=state.phase,
        at=work.now,
        value=state.value,
        reason=reason,
        annotations=state.annotations,
    )
