"""The alert state machine: states and one evaluation in, states and transitions out.

Invariants, all tested:
- An error changes nothing, neither do two samples that make one alert.
- With `for` above zero an alert is pending before it fires, for at least that long.
- An incomplete evaluation may start or continue an alert and never ends one that what is missing
  may bear upon; what it keeps is `held`. No data is never "all clear" unless the rule says so.
- What a restart brings back is unconfirmed until one evaluation has looked at it afresh.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ds4watch.alerting.durations import format_duration
from ds4watch.alerting.evaluation import Evaluation
from ds4watch.alerting.texts import Hit, RuleTexts
from ds4watch.model.alert import AlertPhase, AlertRule, AlertState, OnNoData, Transition
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import NAME_LABEL, Labels
from ds4watch.promql.vectors import one

RESOLVED_RETENTION_SECONDS: Final = 900.0
OUTAGE_TOLERANCE_SECONDS: Final = 3600.0
MAX_ALERTS_PER_RULE: Final = 10_000
_NAMING_LABELS: Final = ("worker", "instance")
EXIT_ANNOTATION: Final = "ds4_exit"


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step made of a rule's alerts; `error` says why it changed nothing."""

    states: Mapping[str, AlertState]
    transitions: tuple[Transition, ...] = ()
    error: str | None = None


@dataclass(slots=True)
class _Step:
    """The inputs of one step, and what has come of it so far."""

    rule: AlertRule
    rule_id: str
    made: frozenset[str]
    evaluation: Evaluation
    exit_evaluation: Evaluation | None
    removed: Collection[Labels]
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
    removed: Collection[Labels] = (),
    texts: RuleTexts | None = None,
) -> StepResult:
    """Move a rule's alerts on by one evaluation.

    states: the alerts of this rule, by fingerprint.
    exit_evaluation: the `ds4_exit` expression, for rules that have one; a firing alert resolves
        only when it has an element whose labels are all among the alert's.
    removed: labels of targets that were removed on purpose: of these no data is to be expected.
    texts: what was made of the rule's templates; to be kept by those who step again and again.
    """
    if evaluation.error is not None:
        return StepResult(states, error=evaluation.error)
    texts = texts or RuleTexts(rule)
    hits = _hits(rule, evaluation, texts)
    if isinstance(hits, str):
        return StepResult(states, error=hits)
    if not hits and not states:
        return StepResult(states)
    made = frozenset(["alertname", *(name for name, _ in rule.labels)])
    work = _Step(rule, texts.rule_id, made, evaluation, exit_evaluation, removed, now)
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


def _hits(rule: AlertRule, evaluation: Evaluation, texts: RuleTexts) -> Mapping[str, Hit] | str:
    """Return the alerts asked for, by fingerprint, or what is wrong with them."""
    vector = evaluation.vector
    if evaluation.no_data and not len(vector) and rule.on_no_data is OnNoData.ALERT:
        vector = one(math.nan)
    if len(vector) > MAX_ALERTS_PER_RULE:
        return f"{len(vector)} alerts, more than {MAX_ALERTS_PER_RULE}"
    texts.forget(len(vector))
    hits: dict[str, Hit] = {}
    for element, value in zip(vector.labels, vector.values.tolist(), strict=True):
        hit = texts.hit(element, value)
        if hit.fingerprint in hits:
            return f"two samples make one alert, with the labels {dict(hit.labels)}"
        hits[hit.fingerprint] = hit
    return hits


def _seen(work: _Step, fingerprint: str, old: AlertState | None, hit: Hit) -> None:
    """Start or continue an alert."""
    if old is None or old.phase is AlertPhase.RESOLVED:
        old_phase = AlertPhase.INACTIVE if old is None else old.phase
        state = AlertState(work.rule_id, hit.labels, AlertPhase.PENDING, work.now, hit.value)
        state = replace(state, annotations=hit.annotations)
    else:
        old_phase = old.phase
        state = _continued(old, hit, work.now)
    if state.phase is AlertPhase.PENDING and work.now - state.active_at >= work.rule.for_seconds:
        state = replace(state, phase=AlertPhase.FIRING, fired_at=work.now)
    _put(work, fingerprint, old_phase, state, _why_active)


def _continued(old: AlertState, hit: Hit, now: UnixSeconds) -> AlertState:
    """Return an alert seen again; the same object, spelt out, for a thousand a second."""
    # A clock set back must not leave an alert waiting for the future.
    active_at = min(old.active_at, now)
    fresh = old.confirmed and not old.held and old.keep_firing_since is None
    same = old.value == hit.value and old.annotations == hit.annotations
    if fresh and same and active_at == old.active_at:
        return old
    return AlertState(
        rule_id=old.rule_id,
        labels=old.labels,
        phase=old.phase,
        active_at=active_at,
        value=hit.value,
        fired_at=old.fired_at,
        last_sent_at=old.last_sent_at,
        resolved_at=old.resolved_at,
        annotations=hit.annotations,
    )


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
    elif _lacks_data(work, old):
        work.states[fingerprint] = _held(old)
    elif old.phase is AlertPhase.PENDING:
        ended = replace(old, phase=AlertPhase.INACTIVE)
        reason = "condition no longer holds"
        work.transitions.append(_transition(work, fingerprint, old.phase, ended, reason))
    else:
        _cool(work, fingerprint, old)


def _held(state: AlertState) -> AlertState:
    return state if state.held else replace(state, held=True)


def _age(work: _Step, fingerprint: str, old: AlertState) -> None:
    resolved_at = min(old.resolved_at if old.resolved_at is not None else work.now, work.now)
    if work.now - resolved_at < RESOLVED_RETENTION_SECONDS:
        work.states[fingerprint] = replace(old, resolved_at=resolved_at, held=False, confirmed=True)


def _lacks_data(work: _Step, old: AlertState) -> bool:
    if work.evaluation.may_miss(old.labels, work.made):
        return True
    if not work.evaluation.no_data or work.rule.on_no_data is OnNoData.RESOLVE:
        return False
    shown = {name: value for name, value in old.labels if name not in work.made}
    return not any(_is_on(shown, target) for target in work.removed)


def _is_on(shown: Mapping[str, str], target: Labels) -> bool:
    """Return whether an alert with the labels `shown` is on a target: they name it, and agree."""
    shared = [(name, value) for name, value in target if name in shown]
    names_it = any(name in _NAMING_LABELS for name, _ in shared)
    return names_it and all(shown[name] == value for name, value in shared)


def _cool(work: _Step, fingerprint: str, old: AlertState) -> None:
    """Let a firing alert go once its exit holds and it has fired on, and in all, long enough."""
    fresh = replace(old, held=False, confirmed=True)
    if any(name == EXIT_ANNOTATION for name, _ in work.rule.annotations):
        leaving = work.exit_evaluation
        if (
            leaving is None
            or leaving.error
            or leaving.no_data
            or leaving.may_miss(old.labels, work.made)
        ):
            work.states[fingerprint] = _held(old)
            return
        if not _may_leave(leaving, old):
            work.states[fingerprint] = replace(fresh, keep_firing_since=None)
            return
    since = old.keep_firing_since if old.keep_firing_since is not None else work.now
    since = min(since, work.now)
    fired_at = min(old.fired_at if old.fired_at is not None else work.now, work.now)
    fires_on = work.now - since < work.rule.keep_firing_seconds
    if fires_on or work.now - fired_at < work.rule.min_firing_seconds:
        work.states[fingerprint] = replace(fresh, keep_firing_since=since)
        return
    resolved = replace(
        fresh, phase=AlertPhase.RESOLVED, resolved_at=work.now, keep_firing_since=None
    )
    _put(work, fingerprint, old.phase, resolved, _why_over)


def _may_leave(leaving: Evaluation, state: AlertState) -> bool:
    """Return whether some element's labels are all among the alert's."""
    labels = dict(state.labels)
    by_names = leaving.vector.labels.derived("by label names", _by_label_names)
    return any(
        tuple([(name, labels.get(name, "")) for name in names]) in sets
        for names, sets in by_names.items()
    )


def _by_label_names(elements: tuple[Labels, ...]) -> Mapping[tuple[str, ...], set[Labels]]:
    found: dict[tuple[str, ...], set[Labels]] = {}
    for element in elements:
        labels = tuple(pair for pair in element if pair[0] != NAME_LABEL)
        found.setdefault(tuple(name for name, _ in labels), set()).add(labels)
    return found


def _why_over(rule: AlertRule, _state: AlertState) -> str:
    if rule.keep_firing_seconds:
        return f"condition has not held for {format_duration(rule.keep_firing_seconds)}"
    return "condition no longer holds"


def _put(
    work: _Step,
    fingerprint: str,
    before: AlertPhase,
    state: AlertState,
    why: Callable[[AlertRule, AlertState], str],
) -> None:
    work.states[fingerprint] = state
    if state.phase is not before:
        reason = why(work.rule, state)
        work.transitions.append(_transition(work, fingerprint, before, state, reason))


def _transition(
    work: _Step, fingerprint: str, before: AlertPhase, state: AlertState, reason: str
) -> Transition:
    return Transition(
        fingerprint=fingerprint,
        labels=state.labels,
        old=before,
        new=state.phase,
        at=work.now,
        value=state.value,
        reason=reason,
        annotations=state.annotations,
    )
