"""What follows on an action: it expires unapproved, is told to have worked, is taken back. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ds4watch.model.action import ActionKind, ActionPlan, ActionStatus, Refusal, RefusalReason
from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerPhase
from ds4watch.policy.guards import hold_on
from ds4watch.policy.standing import Past, Standing

HAND = "operator:"
"""What the cause of an action begins with that a person asked for."""
CLEARED = "cleared"
_ESCALATE = "escalate"
_DIVERTED = ("models", "work_class", "serves")
_AGAIN_SECONDS = 60.0
"""After so long what failed to be taken back is tried again."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an action worked; `attention`: why a person has to look, if one has to."""

    plan: ActionPlan
    helped: bool
    told: str
    attention: str = ""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What is to be noted of actions of before. calm: since when what asked for one is over."""

    expired: tuple[tuple[str, str], ...] = ()
    """Ids of actions that nobody approved of, with why that is over."""
    verdicts: tuple[Verdict, ...] = ()
    undo: tuple[ActionPlan, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    calm: Mapping[str, UnixSeconds] | None = None


def look_after(
    standing: Standing,
    alerts: Sequence[AlertState],
    signals: Mapping[str, float],
    calm: Mapping[str, UnixSeconds],
) -> Aftermath:
    """Return what follows now. signals: by action id, the value of the signal it names now."""
    firing = {it.fingerprint: it for it in alerts if it.phase is AlertPhase.FIRING}
    expired = tuple(_expired(standing, firing))
    verdicts = tuple(
        found
        for it in standing.past
        if it.is_to_verify and (found := verdict(it, standing, firing, signals)) is not None
    )
    now_calm = {
        it.plan.id: calm.get(it.plan.id, standing.at)
        for it in standing.past
        if it.is_in_force and is_over(it.plan, firing)
    }
    undo, refusals = _undone(standing, verdicts, now_calm)
    return Aftermath(expired, verdicts, undo, refusals, now_calm)


def is_over(plan: ActionPlan, firing: Mapping[str, AlertState]) -> bool:
    """Return whether the alerts behind an action are over; one by hand never is."""
    if plan.cause.startswith(HAND):
        return False
    return not any(it in firing for it in plan.cause.split(","))


def _expired(standing: Standing, firing: Mapping[str, AlertState]) -> list[tuple[str, str]]:
    found = []
    for it in standing.past:
        if it.status is not ActionStatus.WAITING:
            continue
        if it.plan.expires_at is not None and standing.at >= it.plan.expires_at:
            found.append((it.plan.id, "nobody said yes in time, which means no"))
        elif is_over(it.plan, firing):
            found.append((it.plan.id, "what asked for it is over"))
    return found


def verdict(
    past: Past,
    standing: Standing,
    firing: Mapping[str, AlertState],
    signals: Mapping[str, float],
) -> Verdict | None:
    """Return whether an action worked; None while it has time left to."""
    plan = past.plan
    is_there, where = _reached(plan, standing)
    is_better, better = _improved(plan, firing, signals)
    told = f"{where}; {better}"
    # A signal swings: one that is better early is asked again at the end, an alert's end is not.
    is_sure = is_better and not plan.parameters.get("signal")
    is_due = past.verify_by is not None and standing.at >= past.verify_by
    if is_there and is_better and (is_sure or is_due):
        return Verdict(plan, helped=True, told=f"{told}: it helped")
    if not is_due:
        return None
    attention = f"{plan.kind} on {plan.target} did not help: {told}"
    return Verdict(plan, helped=False, told=f"{told}: it did not help", attention=attention)


def _reached(plan: ActionPlan, standing: Standing) -> tuple[bool, str]:
    if plan.kind is ActionKind.DIVERT_CLASS:
        work_class, serves = plan.parameters["work_class"], plan.parameters["serves"]
        rows = {(name, work_class) for name in plan.parameters["models"]}
        return rows <= standing.diverted, f"{work_class} is answered by {serves}"
    view = standing.worker(plan.target)
    if view is None:
        return False, f"{plan.target} is gone"
    match plan.kind:
        case ActionKind.RESTART_WORKER:
            is_new = view.since > plan.planned_at
            done = view.phase is WorkerPhase.READY and is_new
            return done, f"{view.id} is {view.phase}{' again' if done else ''}"
        case ActionKind.WAKE_WORKER:
            return view.phase is WorkerPhase.READY, f"{view.id} is {view.phase}"
        case ActionKind.EXCLUDE_WORKER:
            done = view.id in standing.excluded
            return done, f"{view.id} is {'excluded' if done else 'not excluded any more'}"
        case _:
            done = view.phase is not WorkerPhase.READY
            return done, f"{view.id} is {view.phase}"


def _improved(
    plan: ActionPlan, firing: Mapping[str, AlertState], signals: Mapping[str, float]
) -> tuple[bool, str]:
    name = plan.parameters.get("signal")
    if name:
        return _signal_improved(plan, str(name), signals.get(plan.id))
    if plan.kind is ActionKind.DIVERT_CLASS:
        return True, "what the profile itself loses stays as it is"
    if plan.cause.startswith(HAND):
        return True, "a person asked for it"
    alerts = [firing[it] for it in plan.cause.split(",") if it in firing]
    still = [it for it in alerts if it.keep_firing_since is None]
    if not still:
        return True, "the alert is over"
    blind = " and has no data" if any(it.held for it in still) else ""
    return False, f"{still[0].name} still fires at {still[0].value:.4g}{blind}"


def _signal_improved(plan: ActionPlan, name: str, value: float | None) -> tuple[bool, str]:
    before = plan.before.get("signal")
    if value is None or not isinstance(before, int | float):
        return False, f"{name} is not known"
    is_better = value < before if plan.parameters.get("better") == "lower" else value > before
    return is_better, f"{name} went from {before:.4g} to {value:.4g}"


def _undone(
    standing: Standing, verdicts: Sequence[Verdict], calm: Mapping[str, UnixSeconds]
) -> tuple[tuple[ActionPlan, ...], tuple[Refusal, ...]]:
    failed = {it.plan.id: it.told for it in verdicts if not it.helped}
    failed |= {it.plan.id: "as told before" for it in standing.past if it.helped is False}
    begun = being_undone(standing)
    plans, refusals = [], []
    for it in standing.past:
        if not it.is_in_force or it.plan.id in begun or not can_undo(it.plan):
            continue
        why = _why_undo(it.plan, standing.at, calm, failed)
        if not why:
            continue
        held = hold_on((it.pool, it.plan.target), standing)
        if held is None:
            plans.append(undoing(it.plan, standing, cause=CLEARED, reason=why))
            continue
        told = f"{held.who} holds {held.target}: {held.why}"
        refused = Refusal(
            it.plan.kind, it.plan.target, RefusalReason.HOLD, told, CLEARED, standing.at
        )
        refusals.append(refused)
    return tuple(plans), tuple(refusals)


def _why_undo(
    plan: ActionPlan,
    now: UnixSeconds,
    calm: Mapping[str, UnixSeconds],
    failed: Mapping[str, str],
) -> str:
    if plan.id in failed and plan.parameters.get("otherwise", _ESCALATE) != _ESCALATE:
        return f"it did not help: {failed[plan.id]}"
    after = plan.parameters.get("undo_after_seconds")
    since = calm.get(plan.id)
    if after is None or since is None or now - since < float(after):
        return ""
    return f"what asked for it has been over for {now - since:.0f} s"


def can_undo(plan: ActionPlan) -> bool:
    """Return whether an action can be taken back: a restart cannot, nor what takes back."""
    return plan.kind is not ActionKind.RESTART_WORKER and plan.undoes is None


def being_undone(standing: Standing) -> frozenset[str]:
    """Return the ids of actions that were taken back, or are about to be.

    What failed is tried again after a while.
    """
    return frozenset(
        it.plan.undoes
        for it in standing.past
        if it.plan.undoes is not None
        and not (
            it.status is ActionStatus.FAILED
            and standing.at - (it.finished_at or standing.at) >= _AGAIN_SECONDS
        )
    )


def undo_claim(action: str, tries: int = 0) -> str:
    """Return the id of what takes an action back, after so many tries that failed."""
    return f"undo:{action}:{tries + 1}" if tries else f"undo:{action}"


def undoing(
    plan: ActionPlan, standing: Standing, *, cause: str, reason: str, who: str = ""
) -> ActionPlan:
    """Return the plan that takes an action on a worker back."""
    tries = sum(it.plan.undoes == plan.id for it in standing.past)
    kept = {name: plan.parameters[name] for name in _DIVERTED if name in plan.parameters}
    parameters: dict[str, Any] = {"action": plan.parameters.get("action", ""), "undo": True, **kept}
    return replace(
        plan,
        id=undo_claim(plan.id, tries),
        cause=cause,
        planned_at=standing.at,
        parameters=parameters,
        before={},
        reason=reason,
        dry_run=False,
        undoes=plan.id,
        guards=(),
        expires_at=None,
        approvers=(),
        who=who,
    )
