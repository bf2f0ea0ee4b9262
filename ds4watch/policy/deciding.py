"""From alerts to actions on workers: which are asked for, planned, refused. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ds4watch.alerting.telling import outranked
from ds4watch.model.action import (
    ActionKind,
    ActionPlan,
    ActionStatus,
    GuardResult,
    Refusal,
    RefusalReason,
)
from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerPhase
from ds4watch.policy.diverting import diverting_of
from ds4watch.policy.guards import ALL, Ask, check, first_refusal, is_dry, refused_by, shared_cause
from ds4watch.policy.policyfile import Action, Binding, PolicyFile, Pool, labels_match
from ds4watch.policy.standing import Past, Standing

DRY = "dry"
MOST_ALIKE = 5
"""So many refusals that are alike are told one by one."""
_TRY = ":try"


@dataclass(frozen=True, slots=True)
class Asked:
    """What one alert asks for by one binding."""

    ask: Ask
    alert: AlertState

    @property
    def id(self) -> str:
        """The claim: one of a kind for each target and each time that the alert fires."""
        fired_at = self.alert.fired_at if self.alert.fired_at is not None else self.alert.active_at
        target = ALL if self.ask.label == ALL else self.ask.target
        episode = f"{self.alert.fingerprint}:{round(fired_at * 1000)}"
        return f"{self.ask.action.kind}:{target}:{episode}"


@dataclass(frozen=True, slots=True)
class Decided:
    """What is to be done, and what is not and why."""

    plans: tuple[ActionPlan, ...] = ()
    refusals: tuple[Refusal, ...] = ()


def acts(alert: AlertState) -> bool:
    """Return whether an alert may ask for anything: it fires, confirmed, on fresh data."""
    return alert.phase is AlertPhase.FIRING and alert.confirmed and not alert.held


def asked(policy: PolicyFile, alerts: Sequence[AlertState], standing: Standing) -> Iterator[Asked]:
    """Yield what the alerts ask for; of the tiers of one alert only the highest that is bound."""
    lower = outranked(it for it in alerts if acts(it) and is_bound(policy, it))
    for binding in policy.bindings:
        if binding.action is None:
            continue
        action = policy.actions[binding.action]
        pool = policy.pools.get(binding.pool, Pool())
        firing = [it for it in alerts if acts(it) and labels_match(binding, dict(it.labels))]
        members = frozenset(it.id for it in standing.of_pool(pool))
        fired = members.intersection(dict(it.labels).get(binding.target, "") for it in firing)
        for alert in firing:
            if alert.labels not in lower:
                ask = ask_of(binding, action, pool, alert, standing)
                yield Asked(replace(ask, fired=fired, pool_size=len(members)), alert)


def is_bound(policy: PolicyFile, alert: AlertState) -> bool:
    """Return whether some binding asks for an action on a worker by this alert."""
    labels = dict(alert.labels)
    return any(it.action is not None and labels_match(it, labels) for it in policy.bindings)


def ask_of(
    binding: Binding, action: Action, pool: Pool, alert: AlertState, standing: Standing
) -> Ask:
    """Return what a binding asks for by an alert."""
    name = binding.action or ""
    labels = dict(alert.labels)
    if action.kind is ActionKind.DIVERT_CLASS:
        diverts = diverting_of(labels, standing)
        return Ask(name, action, binding.pool, pool, diverts.target, diverts=diverts)
    target = labels.get(binding.target, "")
    if binding.target == ALL:
        target = resting(pool, standing)
    return Ask(name, action, binding.pool, pool, target, binding.target)


def resting(pool: Pool, standing: Standing) -> str:
    """Return who is called if nobody is named: a sleeper before one that is not started."""
    found = standing.of_pool(pool)
    for phase in (WorkerPhase.ASLEEP, WorkerPhase.ABSENT):
        for view in found:
            if view.phase is phase:
                return view.id
    return ""


def decide_actions(policy: PolicyFile, alerts: Sequence[AlertState], standing: Standing) -> Decided:
    """Return what is to be done now. Each plan counts as under way for the ones after it.

    Of what is refused alike for many workers only the first are told one by one.
    """
    plans: list[ActionPlan] = []
    refusals = _Refusals()
    decided_before = _decided_before(standing.past)
    for it in asked(policy, alerts, standing):
        if it.id in decided_before or refusals.is_struck(it):
            continue  # this time it was decided already, or for the whole pool
        shared = shared_cause(it.ask)
        if not shared.passed:
            refusals.strike(it, shared, standing.at)
            continue
        if refusals.is_one_more(it, standing):
            continue
        results = check(it.ask, standing)
        claim = again(it.id, standing.past)
        decided = conclude(it.ask, results, standing, claim=claim, cause=it.alert.fingerprint)
        if isinstance(decided, Refusal):
            refusals.add(it, decided)
            continue
        before = {**decided.before, "alert": it.alert.value}
        plans.append(replace(decided, reason=told(it.alert), before=before))
        decided_before.add(it.id)
        standing = with_plan(standing, plans[-1])
    return Decided(tuple(plans), (*refusals.found, *refusals.of_many(standing.at)))


def _decided_before(past: Iterable[Past]) -> set[str]:
    """Return the claims that are taken. What failed may be tried again; its cooldown says when."""
    return {_claim(it) for it in past if it.status is not ActionStatus.FAILED}


def _claim(it: Past) -> str:
    return it.plan.id.removesuffix(f":{DRY}").partition(_TRY)[0]


def again(claim: str, past: Iterable[Past]) -> str:
    """Return the claim with its number, if it was tried before and failed."""
    tries = sum(it.status is ActionStatus.FAILED and _claim(it) == claim for it in past)
    return f"{claim}{_TRY}{tries + 1}" if tries else claim


class _Refusals:
    """What is refused in a tick, with an end to how much of it is told one by one."""

    def __init__(self) -> None:
        self.found: list[Refusal] = []
        self._struck: set[tuple[str, str]] = set()
        self._alike: dict[tuple[str, str, RefusalReason], int] = {}
        self._many: dict[tuple[str, str, RefusalReason], tuple[Asked, GuardResult]] = {}

    def is_struck(self, it: Asked) -> bool:
        """Return whether it is refused for the whole pool."""
        return (it.ask.name, it.ask.pool_name) in self._struck

    def strike(self, it: Asked, shared: GuardResult, at: UnixSeconds) -> None:
        """Refuse it for all workers that a shared cause struck, at once."""
        self._struck.add((it.ask.name, it.ask.pool_name))
        self.found.append(_pool_refusal(it, shared, at, shared.told))

    def add(self, it: Asked, refusal: Refusal) -> None:
        """Refuse it."""
        key = (it.ask.name, it.ask.pool_name, refusal.reason)
        self._alike[key] = self._alike.get(key, 0) + 1
        self.found.append(refusal)

    def is_one_more(self, it: Asked, standing: Standing) -> bool:
        """Return whether it is refused as enough others were; it is told with them then."""
        if len(self.found) < MOST_ALIKE:
            return False
        guard = refused_by(it.ask, standing)
        if guard is None or guard.reason is None:
            return False
        key = (it.ask.name, it.ask.pool_name, guard.reason)
        if self._alike.get(key, 0) < MOST_ALIKE:
            return False
        self._many.setdefault(key, (it, guard))
        return True

    def of_many(self, at: UnixSeconds) -> list[Refusal]:
        """Return one refusal for all that are not told one by one."""
        return [
            _pool_refusal(it, guard, at, f"so it is for more workers than are told: {guard.told}")
            for it, guard in self._many.values()
        ]


def _pool_refusal(it: Asked, guard: GuardResult, at: UnixSeconds, told: str) -> Refusal:
    return Refusal(
        kind=it.ask.action.kind,
        target=it.ask.pool_name,
        reason=guard.reason or RefusalReason.SHARED_CAUSE,
        detail=told,
        cause=it.alert.name,
        at=at,
        guards=(guard,),
    )


def conclude(
    ask: Ask,
    results: tuple[GuardResult, ...],
    standing: Standing,
    *,
    claim: str,
    cause: str,
    who: str = "",
    dry_run: bool = False,
) -> ActionPlan | Refusal:
    """Return the plan, or the refusal by the first guard that does not let it pass."""
    refusal = first_refusal(results)
    kind = ask.action.kind
    if refusal is not None and refusal.reason is not None:
        return Refusal(
            kind=kind,
            target=ask.target or ask.pool_name,
            reason=refusal.reason,
            detail=refusal.told,
            cause=cause,
            at=standing.at,
            guards=results,
            who=who,
        )
    why_dry = is_dry(ask, standing) or ("dry run was asked for" if dry_run else "")
    approval = ask.action.approval
    approvers = approval.by if approval is not None and not why_dry else ()
    needs = bool(approvers) and not (who and may_approve(approvers, who))
    view = standing.worker(ask.target)
    return ActionPlan(
        id=f"{claim}:{DRY}" if why_dry else claim,
        kind=kind,
        target=ask.target,
        cause=cause,
        planned_at=standing.at,
        parameters=parameters_of(ask, why_dry=why_dry),
        before={"phase": str(view.phase) if view is not None else "", "spent": standing.spent()},
        dry_run=bool(why_dry),
        pool=ask.pool_name,
        guards=(*results, *_last_guards(why_dry, approvers, needs=needs)),
        expires_at=standing.at + approval.expires_seconds if needs and approval else None,
        approvers=approvers if needs else (),
        who=who,
    )


def _last_guards(
    why_dry: str, approvers: tuple[str, ...], *, needs: bool
) -> tuple[GuardResult, ...]:
    found = [GuardResult("dry_run", passed=not why_dry, told=why_dry or "off")]
    if approvers:
        told = f"of {', '.join(approvers)}"
        found.append(GuardResult("approval", passed=not needs, told=told))
    return tuple(found)


def may_approve(approvers: Iterable[str], who: str) -> bool:
    """Return whether a person is among those who may say yes."""
    return any(it in (ALL, who) for it in approvers)


def parameters_of(ask: Ask, *, why_dry: str = "") -> dict[str, Any]:
    """Return what is kept of the policy with an action: it is verified and undone by that."""
    verify = ask.action.verify
    undoes = ask.action.kind is not ActionKind.RESTART_WORKER and not ask.by_hand
    found: dict[str, Any] = {
        "action": ask.name,
        "verify_seconds": verify.within_seconds,
        "signal": verify.signal,
        "better": verify.better,
        "otherwise": verify.otherwise,
        "undo_after_seconds": ask.action.undo_after_seconds if undoes else None,
    }
    if ask.diverts is not None:
        found |= ask.diverts.parameters() | {"undo_after_seconds": None}
    return found | {"why_dry": why_dry} if why_dry else found


def with_plan(standing: Standing, plan: ActionPlan) -> Standing:
    """Return the standing in which a plan is under way, or was told in a dry run."""
    return replace(standing, past=(*standing.past, Past(plan, plan.first_status)))


def told(alert: AlertState) -> str:
    """Return why, in words."""
    return f"{alert.name} ({alert.tier.value}) is firing at {alert.value:g}"
