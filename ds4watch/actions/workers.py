"""Actions on one worker: restart, drain, exclude, wake; each but the first is taken back too."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from ds4watch.actions.runner import Done
from ds4watch.actions.set_level import PolicyBoard
from ds4watch.model.action import ActionKind, ActionPlan, ActionStatus, Outcome
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.service_policy import ServicePolicy

_ACKNOWLEDGE_SECONDS = 2.0


class Hands(Protocol):
    """Who makes workers what an action says, and goes on until it is let go of."""

    async def take(self, worker: str, kind: ActionKind, *, at: UnixSeconds, why: str) -> None:
        """Make the worker so."""
        ...

    async def let_go(self, worker: str, kind: ActionKind) -> bool:
        """Leave the worker to the others again; False if it was no longer ours."""
        ...

    def has(self, worker: str, kind: ActionKind, *, since: UnixSeconds) -> bool:
        """Return whether we make the worker so, or it was started anew since then."""
        ...


class OnWorker:
    """Handler of what the supervisor does: it is asked, and the effect is verified later."""

    def __init__(self, hands: Hands, clock: Clock) -> None:
        self._hands = hands
        self._clock = clock

    def is_in_force(self, plan: ActionPlan) -> bool:
        """Return whether the supervisor has been asked; of a restart, also whether it was made."""
        has = self._hands.has(plan.target, plan.kind, since=plan.planned_at)
        return has != bool(plan.undoes)

    async def run(self, plan: ActionPlan) -> Done:
        """Ask, or leave the worker to the others again."""
        if plan.undoes is None:
            await self._hands.take(plan.target, plan.kind, at=plan.planned_at, why=plan.reason)
            return _done(plan, self._clock, "the supervisor sees to it")
        was_ours = await self._hands.let_go(plan.target, plan.kind)
        told = "left to the settings again" if was_ours else "it was no longer ours: left as it is"
        return _done(plan, self._clock, told)


class ExcludeWorker:
    """Handler of ActionKind.EXCLUDE_WORKER: gateways pass the worker over, for good."""

    def __init__(self, board: PolicyBoard, clock: Clock) -> None:
        self._board = board
        self._clock = clock

    def is_in_force(self, plan: ActionPlan) -> bool:
        """Return whether the worker is excluded, or let in again, in the policy in force."""
        return (plan.target in self._board.policy().excluded_workers) != bool(plan.undoes)

    async def run(self, plan: ActionPlan) -> Done:
        """Exclude the worker, or let it in again if it still is excluded."""
        current = self._board.policy()
        names = set(current.excluded_workers)
        is_there = plan.target in names
        if is_there != bool(plan.undoes):
            told = "it is no longer excluded" if plan.undoes else "it is excluded already"
            return _done(plan, self._clock, f"{told}: left as it is")
        changed = names - {plan.target} if plan.undoes else names | {plan.target}
        policy = replace(
            current, version=current.version + 1, excluded_workers=tuple(sorted(changed))
        )
        return await self._published(plan, policy)

    async def _published(self, plan: ActionPlan, policy: ServicePolicy) -> Done:
        began = self._clock.monotonic()
        obeyed = await self._board.publish_policy(policy, timeout_seconds=_ACKNOWLEDGE_SECONDS)
        took = self._clock.monotonic() - began
        what = "let in again" if plan.undoes else "passed over"
        detail = f"{what} after {took * 1000:.1f} ms" if obeyed else "written; no gateway answered"
        status = ActionStatus.APPLIED if obeyed else ActionStatus.UNKNOWN
        done = _done(plan, self._clock, detail, status=status, took=took)
        return replace(done, policy=self._board.policy().as_json())


def _done(
    plan: ActionPlan,
    clock: Clock,
    detail: str,
    *,
    status: ActionStatus = ActionStatus.APPLIED,
    took: float = 0.0,
) -> Done:
    return Done(Outcome(plan.id, status, clock.now(), took, detail))
