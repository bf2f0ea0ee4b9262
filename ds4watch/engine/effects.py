"""What a tick did, in words, and whether it helped once it had time to take effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ds4watch.engine.rulebook import Round
from ds4watch.model.action import ActionKind, ActionPlan, Refusal
from ds4watch.model.alert import AlertPhase, AlertState, Transition
from ds4watch.model.ports import UnixSeconds

_MOST_TOLD = 10


@dataclass(frozen=True, slots=True)
class Watch:
    """An action whose effect is looked at when it is due. `before`: value by fingerprint."""

    plan: ActionPlan
    due_at: UnixSeconds
    before: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Effect:
    """What came of an action, in words, for the audit."""

    plan: ActionPlan
    helped: bool
    summary: str


def watch(plan: ActionPlan, alerts: Sequence[AlertState], settle_seconds: float) -> Watch | None:
    """Return what to look at later; None for dry runs and for what no alert asked for."""
    if plan.kind is not ActionKind.SET_LEVEL:  # others are looked at by the policy's `verify`
        return None
    causes = plan.cause.split(",")
    before = {it.fingerprint: it.value for it in alerts if it.fingerprint in causes}
    if plan.dry_run or not before:
        return None
    return Watch(plan, plan.planned_at + settle_seconds, before)


def effect(watched: Watch, alerts: Sequence[AlertState], now: UnixSeconds) -> Effect:
    """Return what came of an action: an alert that ended, or whose value fell, was helped."""
    current = {it.fingerprint: it for it in alerts if it.phase is AlertPhase.FIRING}
    told = []
    helped = True
    for fingerprint, before in watched.before.items():
        alert = current.get(fingerprint)
        if alert is None:
            told.append(f"an alert at {before:.4g} is over")
            continue
        if alert.keep_firing_since is not None:  # it fires on, and its value is an old one
            told.append(f"the condition of {alert.name}, at {before:.4g} then, no longer holds")
            continue
        helped = helped and alert.value < before
        told.append(f"{alert.name} went from {before:.4g} to {alert.value:.4g}")
    verdict = "it helped" if helped else "no better yet"
    after = f"{now - watched.plan.planned_at:.0f} s after {watched.plan.kind.value}"
    level = watched.plan.parameters.get("level")
    which = f"{after} {level}" if level is not None else after
    return Effect(watched.plan, helped, f"{which}: {'; '.join(told)}: {verdict}")


def sentence(turn: Round, plans: Sequence[ActionPlan], refusals: Sequence[Refusal]) -> str:
    """Return what a tick changed in one sentence; empty if nothing."""
    told = _alerts_told(turn.transitions)
    told += [_plan_told(plan) for plan in plans]
    told += [f"refused: {it.reason.value}, {it.detail}" for it in refusals]
    return "; ".join(told)


def _plan_told(plan: ActionPlan) -> str:
    will = "would" if plan.dry_run else "will"
    if plan.kind is not ActionKind.SET_LEVEL:
        will = "asks to" if plan.expires_at is not None else will
        what = "take back" if plan.undoes is not None else "do"
        return f"{will} {what} {plan.kind} on {plan.target}: {plan.reason}"
    level = f"level {plan.parameters['level']} ({plan.parameters['level_name']})"
    return f"{will} set {plan.target} to {level}: {plan.reason}"


def _alerts_told(transitions: Sequence[Transition]) -> list[str]:
    """Say what changed; what happened to many alerts of one name alike is said once."""
    alike = Counter(
        f"{dict(it.labels)['alertname']} ({dict(it.labels).get('severity', 'none')}) "
        f"{it.old.value} → {it.new.value}: {it.reason}"
        for it in transitions
    )
    told = [f"{count} times {text}" if count > 1 else text for text, count in alike.items()]
    more = len(told) - _MOST_TOLD
    return told if more <= 0 else [*told[:_MOST_TOLD], f"and {more} changes more (see the audit)"]
