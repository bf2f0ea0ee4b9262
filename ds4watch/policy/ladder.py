"""The degradation ladder: up one level after a settle time, down one after calm, in dry words.

Pure: the same alerts, ladder state and instant give the same plans and refusals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ds4watch.alerting.telling import outranked
from ds4watch.model.action import ActionKind, ActionPlan, Hold, Refusal, RefusalReason
from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.service_policy import Limits
from ds4watch.policy.policyfile import NORMAL, Binding, Level, PolicyFile, Pool, labels_match
from ds4watch.policy.pools import is_about

BY_HAND = "act:"
"""What the id of an action begins with that a person asked for."""
REDEFINED = "redefined"
"""The cause of an action that puts another definition of the same level in force."""
_NO_POOL = Pool(ladder=(Level(name=NORMAL),))


@dataclass(frozen=True, slots=True)
class LadderState:
    """Where a pool stands. `version` is the last number used: each plan has its own."""

    pool: str
    level: int = 0
    since: UnixSeconds = 0.0
    version: int = 0
    calm_since: UnixSeconds | None = None
    action: str | None = None
    """Id of the action that put the level in force."""
    refused: RefusalReason | None = None
    """The last refusal, so that one that goes on is told once."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What the alerts ask of a pool. `keep` counts held alerts too: they keep, never raise."""

    level: int = 0
    keep: int = 0
    jump: bool = False
    causes: tuple[AlertState, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """One look at one pool: the ladder's new state, and a plan or a refusal or neither."""

    state: LadderState
    plan: ActionPlan | None = None
    refusal: Refusal | None = None


def pool_of(policy: PolicyFile, name: str) -> Pool:
    """Return a pool of the policy; without it, one that asks for nothing and lets levels go."""
    return policy.pools.get(name, _NO_POOL)


def matches(binding: Binding, alert: AlertState) -> bool:
    """Return whether the alert's labels have every pair of the binding."""
    return labels_match(binding, dict(alert.labels))


def demand(pool: str, policy: PolicyFile, alerts: Iterable[AlertState]) -> Demand:
    """Return what the firing, confirmed alerts ask of a pool: the highest level counts.

    Of the tiers of one alert only the highest that is bound asks for anything.
    """
    level = keep = 0
    jump = False
    causes: list[AlertState] = []
    firing = [it for it in alerts if it.phase is AlertPhase.FIRING and it.confirmed]
    bound = {id(it): _bound(pool, policy, it) for it in firing}
    lower = outranked(it for it in firing if bound[id(it)] and not it.held)
    for alert in firing:
        for binding in bound[id(alert)]:
            asked = binding.level or 0
            keep = max(keep, asked)
            if alert.held or (alert.labels in lower):
                continue
            if alert not in causes:
                causes.append(alert)
            if asked >= level:
                jump = binding.jump or (jump and asked == level)
                level = asked
    return Demand(level=level, keep=keep, jump=jump, causes=tuple(causes))


def _bound(pool: str, policy: PolicyFile, alert: AlertState) -> Sequence[Binding]:
    return [
        it
        for it in policy.bindings
        if it.level is not None
        and it.pool == pool
        and matches(it, alert)
        and is_about(policy, pool, dict(alert.labels))
    ]


def decide(
    state: LadderState,
    policy: PolicyFile,
    alerts: Sequence[AlertState],
    *,
    holds: Sequence[Hold],
    in_flight: bool,
    unconfirmed: bool,
    now: UnixSeconds,
) -> Decision:
    """Return what to do with a pool now.

    unconfirmed: some restored alert has not been evaluated since the restart; nothing steps down.
    """
    pool = pool_of(policy, state.pool)
    asked = demand(state.pool, policy, alerts)
    if in_flight:
        return Decision(state)
    if asked.level > state.level:
        return _up(replace(state, calm_since=None), pool, asked, policy, holds, now)
    if asked.keep >= state.level or unconfirmed or state.level == 0 or _is_by_hand(state):
        return Decision(replace(state, calm_since=None, refused=None))
    return _down(state, pool, policy, holds, now)


def redefined(
    state: LadderState,
    policy: PolicyFile,
    in_force: Sequence[Limits],
    *,
    holds: Sequence[Hold],
    now: UnixSeconds,
) -> ActionPlan | None:
    """Return the plan that puts the level in force as the policy has it now, if that is another.

    in_force: limits of each level from 0 up to the one in force. A hold keeps them, and a dry run.
    A level that the policy has no more stays as it is until it is left.
    """
    pool = pool_of(policy, state.pool)
    if not 0 < state.level <= len(pool.ladder) or policy.dry_run:
        return None
    if tuple(in_force) == (Limits(), *(it.limits() for it in pool.ladder[: state.level])):
        return None
    if _hold_on(state.pool, holds, now) is not None:
        return None
    reason = f"the policy has another level {state.level} than the one in force"
    plan = level_plan(state, pool, state.level, cause=REDEFINED, reason=reason, now=now)
    if not _is_by_hand(state):
        return plan
    person = ":".join((state.action or "").split(":")[:2])  # it goes on to be that person's
    return replace(plan, id=f"{person}:{REDEFINED}:{state.version + 1}")


def _is_by_hand(state: LadderState) -> bool:
    """Return whether a person put the level in force: it stays until that is taken back."""
    return state.action is not None and state.action.startswith(BY_HAND)


def _up(
    state: LadderState,
    pool: Pool,
    asked: Demand,
    policy: PolicyFile,
    holds: Sequence[Hold],
    now: UnixSeconds,
) -> Decision:
    target = asked.level if asked.jump else state.level + 1
    cause = ",".join(alert.fingerprint for alert in asked.causes)
    why = "; ".join(_told(alert) for alert in asked.causes)
    if state.level > 0 and now - state.since < pool.settle_seconds:
        detail = f"level {state.level} has {pool.settle_seconds:g} s to take effect"
        return _refuse(state, RefusalReason.SETTLING, detail, cause, now)
    held = _hold_on(state.pool, holds, now)
    if held is not None:
        return _refuse(state, RefusalReason.HOLD, _hold_text(held), cause, now)
    return _planned(state, pool, target, cause=cause, reason=why, policy=policy, now=now)


def _down(
    state: LadderState,
    pool: Pool,
    policy: PolicyFile,
    holds: Sequence[Hold],
    now: UnixSeconds,
) -> Decision:
    calm_since = now if state.calm_since is None else state.calm_since
    calm = replace(state, calm_since=calm_since)
    if now - calm_since < pool.clear_hold_seconds:
        return Decision(replace(calm, refused=None))
    held = _hold_on(state.pool, holds, now)
    if held is not None:
        return _refuse(calm, RefusalReason.HOLD, _hold_text(held), "cleared", now)
    reason = f"calm for {now - calm_since:.0f} s"
    # An edited policy may have a shorter ladder than the level in force.
    lower = min(calm.level - 1, len(pool.ladder))
    return _planned(calm, pool, lower, cause="cleared", reason=reason, policy=policy, now=now)


def _planned(
    state: LadderState,
    pool: Pool,
    target: int,
    *,
    cause: str,
    reason: str,
    policy: PolicyFile,
    now: UnixSeconds,
) -> Decision:
    plan = level_plan(state, pool, target, cause=cause, reason=reason, now=now)
    plan = replace(plan, dry_run=policy.dry_run)
    if policy.dry_run and state.refused is RefusalReason.DRY_RUN:
        return Decision(state)
    refused = RefusalReason.DRY_RUN if policy.dry_run else None
    # Calm is counted anew on each level, so that one calm spell never takes two levels at once.
    # The number is used up whatever becomes of the plan: an id is never planned twice.
    after = replace(state, refused=refused, calm_since=None, version=state.version + 1)
    return Decision(after, plan=plan)


def level_plan(
    state: LadderState, pool: Pool, target: int, *, cause: str, reason: str, now: UnixSeconds
) -> ActionPlan:
    """Return the plan that puts a level in force."""
    version = state.version + 1
    ladder = (Limits(), *(level.limits() for level in pool.ladder[:target]))
    name = pool.ladder[target - 1].name if target else NORMAL
    return ActionPlan(
        id=f"{ActionKind.SET_LEVEL}:{state.pool}:{version}",
        kind=ActionKind.SET_LEVEL,
        target=state.pool,
        cause=cause,
        planned_at=now,
        parameters={
            "version": version,
            "level": target,
            "level_name": name,
            "ladder": [limits.as_json() for limits in ladder],
        },
        before={"level": state.level},
        reason=reason,
        undoes=state.action if target < state.level else None,
        pool=state.pool,
    )


def _refuse(
    state: LadderState, reason: RefusalReason, detail: str, cause: str, now: UnixSeconds
) -> Decision:
    if state.refused is reason:
        return Decision(state)
    refusal = Refusal(
        kind=ActionKind.SET_LEVEL,
        target=state.pool,
        reason=reason,
        detail=detail,
        cause=cause,
        at=now,
    )
    return Decision(replace(state, refused=reason), refusal=refusal)


def _hold_on(pool: str, holds: Sequence[Hold], now: UnixSeconds) -> Hold | None:
    for hold in holds:
        if hold.target in ("*", pool) and hold.until_at > now:
            return hold
    return None


def _hold_text(hold: Hold) -> str:
    return f"{hold.who} holds {hold.target}: {hold.why}"


def _told(alert: AlertState) -> str:
    return f"{alert.name} ({alert.tier.value}) is firing at {alert.value:g}"
