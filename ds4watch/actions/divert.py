"""Action on a class of work: the gateways have another model answer it, for good."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ds4watch.actions.runner import Done
from ds4watch.actions.set_level import PolicyBoard
from ds4watch.model.action import ActionPlan, ActionStatus, Outcome
from ds4watch.model.ports import Clock
from ds4watch.model.service_policy import Diversion

_ACKNOWLEDGE_SECONDS = 2.0


class DivertClass:
    """Handler of ActionKind.DIVERT_CLASS. No lease ends it, nor a change of the level."""

    def __init__(self, board: PolicyBoard, clock: Clock) -> None:
        self._board = board
        self._clock = clock

    def is_in_force(self, plan: ActionPlan) -> bool:
        """Return whether the class is diverted, or is no longer, in the policy in force."""
        there = set(self._board.policy().diversions)
        wanted = set(_rows(plan))
        return not wanted & there if plan.undoes else wanted <= there

    async def run(self, plan: ActionPlan) -> Done:
        """Divert the class, or let it be answered as before if it still is diverted."""
        if self.is_in_force(plan):
            return self._done(plan, ActionStatus.APPLIED, "it is so already: left as it is", 0.0)
        current = self._board.policy()
        rows = set(_rows(plan))
        asked = {(it.model, it.work_class) for it in rows}
        kept = [it for it in current.diversions if (it.model, it.work_class) not in asked]
        if plan.undoes:
            kept = [it for it in current.diversions if it not in rows]
        changed = kept if plan.undoes else [*kept, *rows]
        policy = replace(
            current, version=current.version + 1, diversions=tuple(sorted(changed, key=_order))
        )
        began = self._clock.monotonic()
        obeyed = await self._board.publish_policy(policy, timeout_seconds=_ACKNOWLEDGE_SECONDS)
        took = self._clock.monotonic() - began
        what = "answered as before" if plan.undoes else f"answered by {plan.parameters['serves']}"
        detail = f"{what} after {took * 1000:.1f} ms" if obeyed else "written; no gateway answered"
        status = ActionStatus.APPLIED if obeyed else ActionStatus.UNKNOWN
        done = self._done(plan, status, detail, took)
        return replace(done, policy=self._board.policy().as_json())

    def _done(self, plan: ActionPlan, status: ActionStatus, detail: str, took: float) -> Done:
        return Done(Outcome(plan.id, status, self._clock.now(), took, detail))


def _rows(plan: ActionPlan) -> Iterable[Diversion]:
    work_class, serves = plan.parameters["work_class"], plan.parameters["serves"]
    return [Diversion(name, work_class, serves) for name in plan.parameters["models"]]


def _order(it: Diversion) -> tuple[str, str]:
    return it.model, it.work_class
