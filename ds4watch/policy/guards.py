"""The guards of an action on a worker: each lets it pass or says why not, with its values.

Pure. All of them are asked, so that a person sees the whole; the first that says no decides.
The hold is asked once more in the transaction that claims the action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ds4watch.model.action import ActionKind, ActionStatus, GuardResult, Hold, RefusalReason
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.policy.diverting import Diverting, why_not
from ds4watch.policy.policyfile import Action, Pool
from ds4watch.policy.standing import SINGLE, Past, Standing

ALL = "*"
_RESTING = (WorkerPhase.ASLEEP, WorkerPhase.ABSENT)


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked for: an action of the policy on a worker. `target` "" could not be told.

    fired: workers of the pool for which the same is asked now, of so many that it has (pool_size).
    by_hand: a person asks. diverts: the class of work, for a divert_class.
    """

    name: str
    action: Action
    pool_name: str
    pool: Pool
    target: str
    label: str = ""
    fired: frozenset[str] = frozenset()
    pool_size: int = 0
    by_hand: bool = False
    diverts: Diverting | None = None


def check(ask: Ask, standing: Standing) -> tuple[GuardResult, ...]:
    """Return what every guard says, in the order in which they decide."""
    return tuple(guard(ask, standing) for guard in _GUARDS)


def refused_by(ask: Ask, standing: Standing) -> GuardResult | None:
    """Return the guard that decides, if one does not let it pass; those after it are not asked."""
    return first_refusal(guard(ask, standing) for guard in _GUARDS)


def first_refusal(results: Iterable[GuardResult]) -> GuardResult | None:
    """Return the guard that decides, if one does not let it pass."""
    return next((it for it in results if not it.passed), None)


def is_dry(ask: Ask, standing: Standing) -> str:
    """Return why it is only told what would be done; empty if it is done."""
    if standing.is_dry:
        return "the policy has dry_run: true"
    if ask.action.dry_run:
        return f"the action {ask.name} has dry_run: true"
    if ask.by_hand or standing.at >= standing.trial_until:
        return ""
    if ask.action.kind is ActionKind.WAKE_WORKER:
        return "the first week of an install only tells what it would scale"
    if ask.target in standing.foreign:
        return "the first week of an install only tells what it would do to adopted workers"
    return ""


def hold_on(names: Iterable[str], standing: Standing) -> Hold | None:
    """Return a person's hold on any of these, or on everything."""
    held = {ALL, *names}
    found = (it for it in standing.holds if it.target in held and it.until_at > standing.at)
    return next(found, None)


def _passed(guard: str, told: str) -> GuardResult:
    return GuardResult(guard, passed=True, told=told)


def _refused(guard: str, reason: RefusalReason, told: str) -> GuardResult:
    return GuardResult(guard, passed=False, told=told, reason=reason)


def _target(ask: Ask, standing: Standing) -> GuardResult:
    if ask.action.kind is ActionKind.DIVERT_CLASS:
        return _class_target(ask)
    view = standing.worker(ask.target)
    if not ask.target:
        told = f"no label {ask.label!r} names a worker" if ask.label else "no worker is named"
        return _refused("target", RefusalReason.NO_TARGET, told)
    if view is None:
        told = f"there is no worker {ask.target!r}"
        return _refused("target", RefusalReason.NO_TARGET, told)
    if ask.pool.profiles and view.profile not in ask.pool.profiles:
        told = f"{ask.target} runs {view.profile}, which is not of the pool {ask.pool_name}"
        return _refused("target", RefusalReason.NO_TARGET, told)
    return _passed("target", f"{ask.target}, {view.phase}")


def _class_target(ask: Ask) -> GuardResult:
    if ask.diverts is None or not ask.target:
        told = "only an alert with the labels profile, reference and class says what to divert"
        return _refused("target", RefusalReason.NO_TARGET, told)
    if ask.pool.profiles and ask.diverts.profile not in ask.pool.profiles:
        told = f"{ask.diverts.profile} is not of the pool {ask.pool_name}"
        return _refused("target", RefusalReason.NO_TARGET, told)
    told = f"{ask.diverts.work_class} of {ask.diverts.profile} to {ask.diverts.reference}"
    return _passed("target", told)


def _possible(ask: Ask, standing: Standing) -> GuardResult:
    view = standing.worker(ask.target)
    if ask.diverts is not None:
        why = why_not(ask.diverts, standing)
    else:
        why = "it is not there" if view is None else _impossible(ask, standing, view)
    if why:
        return _refused("possible", RefusalReason.NOT_POSSIBLE, why)
    return _passed("possible", f"{ask.action.kind} can be done")


def _impossible(ask: Ask, standing: Standing, view: WorkerView) -> str:
    match ask.action.kind:
        case ActionKind.RESTART_WORKER if view.id in standing.foreign:
            return "it is run by somebody else, who has to restart it"
        case ActionKind.EXCLUDE_WORKER:
            return "it is excluded already" if view.id in standing.excluded else ""
        case ActionKind.WAKE_WORKER:
            return "" if view.phase in _RESTING else f"it does not rest: {view.phase}"
        case _:
            return "" if view.phase is WorkerPhase.READY else f"it is {view.phase}, not ready"


def shared_cause(ask: Ask, _standing: Standing | None = None) -> GuardResult:
    """Return whether so few workers are struck that acting on single ones makes sense."""
    struck, size = len(ask.fired), ask.pool_size
    told = f"{struck} of {size} workers of {ask.pool_name}"
    bound = ask.pool.shared_cause_ratio
    if ask.action.kind in SINGLE and struck > 1 and struck > bound * size:
        told += f" at once, more than {bound:.0%}: the cause is shared, a person has to look"
        return _refused("shared_cause", RefusalReason.SHARED_CAUSE, told)
    return _passed("shared_cause", f"{told}, at most {bound:.0%}")


def _in_flight(ask: Ask, standing: Standing) -> GuardResult:
    flying = standing.known.flying.get(ask.pool_name, ())
    told = f"{len(flying)} of {ask.pool.max_in_flight} under way in {ask.pool_name}"
    if len(flying) >= ask.pool.max_in_flight:
        told += f": {', '.join(map(_flying, flying))}"
        return _refused("in_flight", RefusalReason.IN_FLIGHT, told)
    return _passed("in_flight", told)


def _flying(it: Past) -> str:
    waits = " (waits for a person)" if it.status is ActionStatus.WAITING else ""
    return f"{it.plan.kind} on {it.plan.target}{waits}"


def _cooldown(ask: Ask, standing: Standing) -> GuardResult:
    here = standing.known.last.get((ask.name, ask.target))
    anywhere = standing.known.last.get((ask.name, ""))
    for last, span, where in (
        (here, ask.action.cooldown_seconds, f"on {ask.target}"),
        (anywhere, ask.action.action_cooldown_seconds, "on any worker"),
    ):
        if last is not None and standing.at - last < span:
            told = f"the last {where} was {standing.at - last:.0f} s ago, {span:g} s have to be"
            return _refused("cooldown", RefusalReason.COOLDOWN, told)
    last_told = "never" if here is None else f"{standing.at - here:.0f} s ago"
    return _passed("cooldown", f"the last on {ask.target or 'it'}: {last_told}")


def _floor(ask: Ask, standing: Standing) -> GuardResult:
    serving = standing.known.serving
    left = len(serving)
    if ask.action.kind not in SINGLE:
        return _passed("floor", f"{left} serve, none is taken away")
    is_serving = ask.target in serving
    left -= is_serving
    told = f"{left} would be left to serve, min_hot is {standing.bounds.min_hot}"
    if is_serving and left < standing.bounds.min_hot:
        return _refused("floor", RefusalReason.FLOOR, told)
    return _passed("floor", told)


def _ceiling(ask: Ask, standing: Standing) -> GuardResult:
    most = standing.bounds.max_workers
    on = standing.known.on
    told = f"{on} are on, max_workers is {'not set' if most is None else most}"
    if ask.action.kind is ActionKind.WAKE_WORKER and most is not None and on + 1 > most:
        return _refused("ceiling", RefusalReason.CEILING, told)
    return _passed("ceiling", told)


def _budget(ask: Ask, standing: Standing) -> GuardResult:
    budget, view = standing.bounds.budget, standing.worker(ask.target)
    if ask.action.kind is ActionKind.DIVERT_CLASS and budget is not None:
        told = f"{standing.spent() / 1e9:.2f} an hour, of {budget / 1e9:.2f}"
        if standing.spent() > budget:
            return _refused("budget", RefusalReason.BUDGET, told)
        return _passed("budget", told)
    if ask.action.kind is not ActionKind.WAKE_WORKER or budget is None or view is None:
        return _passed("budget", "it costs nothing more" if budget is not None else "none is set")
    price = standing.bounds.prices.get(view.profile, 0)
    told = f"{(standing.spent() + price) / 1e9:.2f} an hour with it, of {budget / 1e9:.2f}"
    if standing.spent() + price > budget:
        return _refused("budget", RefusalReason.BUDGET, told)
    return _passed("budget", told)


def _hold(ask: Ask, standing: Standing) -> GuardResult:
    profile = ask.diverts.profile if ask.diverts is not None else ask.target
    held = hold_on((ask.pool_name, ask.target, profile), standing)
    if held is not None:
        told = f"{held.who} holds {held.target}: {held.why}"
        return _refused("hold", RefusalReason.HOLD, told)
    return _passed("hold", "nobody holds it")


_GUARDS: tuple[Callable[[Ask, Standing], GuardResult], ...] = (
    _target,
    _possible,
    shared_cause,
    _in_flight,
    _cooldown,
    _floor,
    _ceiling,
    _budget,
    _hold,
)
