"""What a person asks for by name, through the same guards as what alerts ask for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ds4watch.model.action import ActionKind, ActionPlan, GuardResult, Refusal, RefusalReason
from ds4watch.policy.aftermath import HAND, being_undone, can_undo, undoing
from ds4watch.policy.deciding import DRY, conclude, resting
from ds4watch.policy.explain import Ladder, settled
from ds4watch.policy.guards import Ask, check, first_refusal, hold_on
from ds4watch.policy.ladder import BY_HAND, level_plan
from ds4watch.policy.policyfile import NORMAL, Action, PolicyFile, Pool
from ds4watch.policy.standing import Past, Standing

_BY_ALERT = (ActionKind.SET_LEVEL, ActionKind.DIVERT_CLASS)
_TAKEN_BACK = {
    ActionKind.DRAIN_WORKER: "it gets requests again",
    ActionKind.EXCLUDE_WORKER: "gateways let it in again",
    ActionKind.WAKE_WORKER: "it may sleep or stop again",
    ActionKind.DIVERT_CLASS: "the profile answers the class of work itself again",
}
_KINDS = tuple(it for it in ActionKind if it not in _BY_ALERT)


@dataclass(frozen=True, slots=True)
class Order:
    """An action asked for by hand: its name, or that of a level. number: of the command."""

    number: int
    name: str
    pool: str
    target: str
    who: str
    why: str
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What becomes of a command: a plan, a refusal, or what was done at once, in words."""

    number: int
    ok: bool
    told: str
    plan: ActionPlan | None = None
    refusal: Refusal | None = None


def order(it: Order, policy: PolicyFile, standing: Standing, ladder: Ladder) -> Answer:
    """Return what becomes of an action asked for by hand."""
    pool = policy.pools.get(it.pool)
    if pool is None and (it.pool != "default" or policy.pools):
        known = ", ".join(sorted(policy.pools)) or "none"
        return Answer(it.number, ok=False, told=f"there is no pool {it.pool!r} (known: {known})")
    pool = pool or Pool()
    levels = [NORMAL, *(level.name for level in pool.ladder)]
    if it.name in levels:
        return _answer(it, _level(it, pool, levels.index(it.name), standing, ladder))
    action = policy.actions.get(it.name) or _usual(it.name)
    if action is None:
        known = ", ".join([*sorted(policy.actions), *map(_dashed, _KINDS), *levels])
        return Answer(it.number, ok=False, told=f"there is no {it.name!r} (known: {known})")
    target = it.target
    if not target and action.kind is ActionKind.WAKE_WORKER:
        target = resting(pool, standing)
    ask = Ask(it.name, action, it.pool, pool, target, by_hand=True)
    decided = conclude(
        ask,
        check(ask, standing),
        standing,
        claim=f"{BY_HAND}{it.number}",
        cause=f"{HAND}{it.who}",
        who=it.who,
        dry_run=it.dry_run,
    )
    return _answer(it, decided if isinstance(decided, Refusal) else replace(decided, reason=it.why))


def claims_of(number: int) -> tuple[str, ...]:
    """Return the ids that the action of a command can have."""
    claim = f"{BY_HAND}{number}"
    return claim, f"{claim}:{DRY}", f"{claim}:{NORMAL}"


def names(policy: PolicyFile) -> tuple[str, ...]:
    """Return what can be asked for by name beside levels."""
    return (*sorted(policy.actions), *map(_dashed, _KINDS))


def _dashed(kind: ActionKind) -> str:
    return kind.value.replace("_", "-")


def _usual(name: str) -> Action | None:
    """Return an action with the usual guards if the name is that of a kind."""
    kind = next((it for it in _KINDS if name in (it.value, _dashed(it))), None)
    return None if kind is None else Action(kind=kind)


def _level(
    it: Order, pool: Pool, level: int, standing: Standing, ladder: Ladder
) -> ActionPlan | Refusal:
    results = _level_guards(it, pool, level, standing, ladder)
    refusal = first_refusal(results)
    cause = f"{HAND}{it.who}"
    if refusal is not None and refusal.reason is not None:
        return Refusal(
            ActionKind.SET_LEVEL,
            it.pool,
            refusal.reason,
            refusal.told,
            cause,
            standing.at,
            guards=results,
            who=it.who,
        )
    plan = level_plan(ladder.state, pool, level, cause=cause, reason=it.why, now=standing.at)
    return replace(
        plan,
        id=f"{BY_HAND}{it.number}" if level else f"{BY_HAND}{it.number}:{NORMAL}",
        guards=results,
        dry_run=standing.is_dry or it.dry_run,
        who=it.who,
    )


def _level_guards(
    it: Order, pool: Pool, level: int, standing: Standing, ladder: Ladder
) -> tuple[GuardResult, ...]:
    state = ladder.state
    found = []
    if level == state.level:
        told = f"level {level} is in force already"
        found.append(GuardResult("step", passed=False, told=told, reason=RefusalReason.STEP))
    elif level > state.level + 1:
        told = f"level {state.level} is in force, and one level is taken at a time"
        found.append(GuardResult("step", passed=False, told=told, reason=RefusalReason.STEP))
    else:
        told = f"from level {state.level} to {level}"
        found.append(GuardResult("step", passed=True, told=told))
    if level > state.level:
        found.append(settled(state, pool, standing))
    told = "a step is under way" if ladder.in_flight else "none is under way"
    found.append(
        GuardResult(
            "in_flight", passed=not ladder.in_flight, told=told, reason=RefusalReason.IN_FLIGHT
        )
    )
    held = hold_on((it.pool,), standing)
    told = "nobody holds it" if held is None else f"{held.who} holds {held.target}: {held.why}"
    found.append(GuardResult("hold", passed=held is None, told=told, reason=RefusalReason.HOLD))
    return tuple(found)


def undo(
    number: int,
    action: str,
    past: Sequence[Past],
    standing: Standing,
    *,
    who: str,
    why: str,
    dry_run: bool = False,
) -> Answer:
    """Return what becomes of a person's wish to take an action back."""
    found = next((it for it in past if it.plan.id == action), None)
    if found is None:
        return Answer(number, ok=False, told=f"there is no action {action!r} on a worker")
    if not found.is_in_force:
        return Answer(number, ok=False, told=f"it is not in force: it is {found.status}")
    if not can_undo(found.plan):
        return Answer(number, ok=False, told=f"a {found.plan.kind} cannot be taken back")
    if action in being_undone(standing):
        return Answer(number, ok=False, told="it is taken back already")
    held = hold_on((found.pool, found.plan.target), standing)
    if held is not None:
        told = f"{held.who} holds {held.target}: {held.why}"
        return Answer(number, ok=False, told=told)
    if dry_run:
        what = f"would take {found.plan.kind} on {found.plan.target} back"
        told = f"{what}: {_TAKEN_BACK[found.plan.kind]}; nothing is done"
        return Answer(number, ok=True, told=told)
    plan = undoing(found.plan, standing, cause=f"{HAND}{who}", reason=why, who=who)
    return Answer(number, ok=True, told="it is taken back", plan=plan)


def _answer(it: Order, decided: ActionPlan | Refusal) -> Answer:
    if isinstance(decided, Refusal):
        told = f"{decided.reason}: {decided.detail}"
        return Answer(it.number, ok=False, told=told, refusal=decided)
    what = f"{it.name} on {decided.target}"
    told = f"{what} is begun; its id is {decided.id}"
    if decided.dry_run:
        told = f"would do {what}; nothing is done"
    elif decided.expires_at is not None:
        by = ", ".join(decided.approvers)
        told = f"{what} waits for approval by {by}; its id is {decided.id}"
    return Answer(
        it.number,
        ok=True,
        told=told,
        plan=decided,
    )
