"""What a hold holds back, and what is let go without it: decided as it would be, done by nobody.

Pure: the same decisions as a tick's, once with the hold and once without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ds4watch.model.action import ActionPlan, ActionStatus, Hold
from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.policy.deciding import decide_actions
from ds4watch.policy.explain import Ladder, ladder_of
from ds4watch.policy.guards import ALL
from ds4watch.policy.ladder import decide
from ds4watch.policy.policyfile import PolicyFile
from ds4watch.policy.pools import ladder_pools
from ds4watch.policy.standing import Standing

_FLEET = "fleet"
_BEFORE_THE_CLAIM = (ActionStatus.WAITING, ActionStatus.PLANNED)
_MOST_TOLD = 10


@dataclass(frozen=True, slots=True)
class Scene:
    """All that a tick decides by."""

    policy: PolicyFile
    alerts: Sequence[AlertState]
    standing: Standing
    ladders: Mapping[str, Ladder]

    def knows(self, target: str) -> bool:
        """Return whether a hold on it can hold anything: a pool, a worker, the fleet, all."""
        names = {ALL, _FLEET, *ladder_pools(self.policy), *self.policy.pools}
        return target in names or self.standing.worker(target) is not None


def hold_told(scene: Scene, hold: Hold) -> str:
    """Return what a hold holds back now, in words."""
    rest = _without(scene, hold.target)
    told = _listed("holds back", _difference(rest, _with(rest, hold)))
    if not scene.knows(hold.target):
        return f"there is no pool and no worker {hold.target}: it holds nothing now"
    return told or "nothing is about to be done that it holds back"


def lift_told(scene: Scene, target: str) -> str:
    """Return what is let go once the hold on a target is lifted, in words."""
    told = _listed("lets go", _difference(_without(scene, target), scene))
    return told or "nothing waits for that"


def _difference(free: Scene, held: Scene) -> list[str]:
    kept = due(held)
    found = [told for key, told in due(free).items() if key not in kept]
    refused = _claimable(held.standing.holds, held) - _claimable(free.standing.holds, free)
    return [*found, *sorted(refused)]


def due(scene: Scene) -> dict[str, str]:
    """Return what would be begun now, in words, by what and on whom."""
    steps = (
        decide(
            ladder_of(scene.ladders, pool).state,
            scene.policy,
            scene.alerts,
            holds=scene.standing.holds,
            in_flight=ladder_of(scene.ladders, pool).in_flight,
            unconfirmed=any(
                not it.confirmed and it.phase is AlertPhase.FIRING for it in scene.alerts
            ),
            now=scene.standing.at,
        ).plan
        for pool in ladder_pools(scene.policy)
    )
    on_workers = decide_actions(scene.policy, scene.alerts, scene.standing).plans
    plans = (*(it for it in steps if it is not None), *on_workers)
    return {f"{it.kind}:{it.target}": _told(it) for it in plans}


def _claimable(holds: Iterable[Hold], scene: Scene) -> set[str]:
    """Return what was decided, is not begun and is under one of the holds: it will be refused."""
    names = {it.target for it in holds}
    return {
        f"{_told(it.plan)} ({it.plan.id}), which is {it.status}"
        for it in scene.standing.past
        if it.status in _BEFORE_THE_CLAIM and not names.isdisjoint((ALL, it.pool, it.plan.target))
    }


def _told(plan: ActionPlan) -> str:
    if plan.is_on_worker:
        return f"{plan.parameters.get('action') or plan.kind} on {plan.target}"
    level, name = plan.parameters["level"], plan.parameters["level_name"]
    return f"level {level} ({name}) of {plan.target}"


def _listed(verb: str, found: Sequence[str]) -> str:
    if not found:
        return ""
    more = f"; and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
    return f"{verb}: {'; '.join(found[:_MOST_TOLD])}{more}"


def _without(scene: Scene, target: str) -> Scene:
    holds = tuple(it for it in scene.standing.holds if it.target != target)
    return replace(scene, standing=replace(scene.standing, holds=holds))


def _with(scene: Scene, hold: Hold) -> Scene:
    standing = replace(scene.standing, holds=(*scene.standing.holds, hold))
    return replace(scene, standing=standing)
