"""Actions on one worker: what is asked of supervisor and gateways, and what is left alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ds4watch.actions.workers import ExcludeWorker, OnWorker
from ds4watch.engine.policy_wishes import PolicyWishes
from ds4watch.fleet.wish import By, Wanted, Wish
from ds4watch.model.action import ActionKind, ActionPlan, ActionStatus
from ds4watch.model.service_policy import ServicePolicy
from ds4watch.policy.standing import Past
from tests.edge.actions.test_runner import Board
from tests.edge.clock import SystemClock

PLAN = ActionPlan("a1", ActionKind.EXCLUDE_WORKER, "w1", "f", 5.0, reason="it is odd")
UNDO = replace(PLAN, id="undo:a1", undoes="a1")


class Supervisor:
    def __init__(self) -> None:
        self.wanted: dict[str, Wanted] = {}

    async def wish(self, by: By, wanted: Mapping[str, Wanted]) -> None:
        assert by is By.POLICY
        self.wanted = dict(wanted)


@pytest.mark.parametrize("obeys", [True, False])
async def test_an_exclusion_leaves_the_level_alone_and_is_taken_back(*, obeys: bool) -> None:
    board = Board(obeys=obeys, policy=ServicePolicy(4, 2, "two", action="set_level:default:4"))
    handler = ExcludeWorker(board, SystemClock())
    done = await handler.run(PLAN)
    wanted = ActionStatus.APPLIED if obeys else ActionStatus.UNKNOWN
    assert done.outcome.status is wanted
    policy = board.policy()
    assert (policy.version, policy.level, policy.excluded_workers) == (5, 2, ("w1",))
    assert policy.action == "set_level:default:4"
    assert handler.is_in_force(PLAN)
    await handler.run(UNDO)
    assert board.policy().excluded_workers == ()
    assert handler.is_in_force(UNDO)


async def test_what_somebody_else_changed_meanwhile_is_left_as_it_is() -> None:
    board = Board(obeys=True, policy=ServicePolicy(4))
    done = await ExcludeWorker(board, SystemClock()).run(UNDO)
    assert done.outcome.detail == "it is no longer excluded: left as it is"
    assert board.policy().version == 4


async def test_wishes_of_several_actions_are_one_and_are_let_go_of_one_by_one() -> None:
    supervisor = Supervisor()
    wishes = PolicyWishes(supervisor)
    handler = OnWorker(wishes, SystemClock())
    drain = replace(PLAN, kind=ActionKind.DRAIN_WORKER)
    await handler.run(drain)
    await handler.run(replace(PLAN, kind=ActionKind.RESTART_WORKER))
    wanted = supervisor.wanted["w1"]
    assert (wanted.wish, wanted.restart_at) == (Wish.DRAINED, 5.0)
    assert handler.is_in_force(drain)
    done = await handler.run(replace(drain, id="undo:a1", undoes="a1"))
    assert done.outcome.status is ActionStatus.APPLIED
    assert supervisor.wanted["w1"].wish is None


async def test_after_a_restart_of_the_daemon_what_is_in_force_is_wished_again() -> None:
    supervisor = Supervisor()
    kinds = (ActionKind.DRAIN_WORKER, ActionKind.WAKE_WORKER, ActionKind.RESTART_WORKER)
    plans = [replace(PLAN, id=kind, kind=kind, target=f"w{kind}") for kind in kinds]
    past = [Past(plan, ActionStatus.APPLIED, verify_by=9.0) for plan in plans]
    undone = Past(replace(plans[0], target="w9"), ActionStatus.UNDONE)
    await PolicyWishes(supervisor).restore([*past, undone])
    assert [it.wish for it in supervisor.wanted.values()] == [Wish.DRAINED, None, Wish.READY]
    assert supervisor.wanted["wrestart_worker"].restart_at == 5.0
