"""Move the degradation ladder: write the ServicePolicy, wait for the last gateway's word."""

from __future__ import annotations

from typing import Protocol

from ds4watch.actions.runner import Done
from ds4watch.model.action import ActionPlan, ActionStatus, Outcome
from ds4watch.model.ports import Clock
from ds4watch.model.service_policy import Limits, ServicePolicy

_ACKNOWLEDGE_SECONDS = 2.0


class PolicyBoard(Protocol):
    """Where the policy in force stands."""

    def policy(self) -> ServicePolicy:
        """Return the policy in force."""
        ...

    async def publish_policy(self, policy: ServicePolicy, *, timeout_seconds: float) -> bool:
        """Put a policy in force; return whether every live gateway acknowledged it."""
        ...


class SetLevel:
    """Handler of ActionKind.SET_LEVEL."""

    def __init__(self, board: PolicyBoard, clock: Clock, *, lease_seconds: float) -> None:
        self._board = board
        self._clock = clock
        self._lease_seconds = lease_seconds

    def is_in_force(self, plan: ActionPlan) -> bool:
        """Return whether the level in force is the plan's."""
        policy = self._board.policy().of_pool(plan.target)
        if policy.action:
            return policy.action == plan.id
        return bool(policy.version == plan.parameters["version"])

    async def run(self, plan: ActionPlan) -> Done:
        """Publish the level; applied once the last live gateway obeys."""
        whole = self._board.policy()
        current = whole.of_pool(plan.target)
        if current.level != plan.before["level"]:
            detail = f"level {current.level} is in force, not {plan.before['level']} as planned on"
            return self._done(plan, ActionStatus.FAILED, detail, 0.0)
        began = self._clock.monotonic()
        obeyed = await self._board.publish_policy(
            whole.with_level(plan.target, self._policy(plan, current)),
            timeout_seconds=_ACKNOWLEDGE_SECONDS,
        )
        took = self._clock.monotonic() - began
        name = plan.parameters["level_name"]
        if not obeyed:
            detail = f"level {plan.parameters['level']} ({name}) is written; no gateway answered"
            return self._done(plan, ActionStatus.UNKNOWN, detail, took)
        detail = f"level {plan.parameters['level']} ({name}) obeyed after {took * 1000:.1f} ms"
        return self._done(plan, ActionStatus.APPLIED, detail, took)

    def _policy(self, plan: ActionPlan, current: ServicePolicy) -> ServicePolicy:
        ladder = tuple(Limits.from_json(limits) for limits in plan.parameters["ladder"])
        return ServicePolicy(
            # An exclusion may have used up the number that was planned on.
            version=max(plan.parameters["version"], current.version + 1),
            level=plan.parameters["level"],
            level_name=plan.parameters["level_name"],
            limits=ladder[-1],
            ladder=ladder,
            excluded_workers=current.excluded_workers,
            diversions=current.diversions,
            reason=plan.reason,
            since=self._clock.now(),
            lease_seconds=self._lease_seconds,
            action=plan.id,
        )

    def _done(self, plan: ActionPlan, status: ActionStatus, detail: str, took: float) -> Done:
        policy = self._board.policy()
        level = policy.of_pool(plan.target).level
        outcome = Outcome(
            plan_id=plan.id,
            status=status,
            at=self._clock.now(),
            took_seconds=took,
            detail=detail,
            after={"level": level},
        )
        return Done(outcome, policy.as_json())
