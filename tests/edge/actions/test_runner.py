"""Claim, run, record: with a log in memory and a board that answers as told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ds4watch.actions.runner import Runner
from ds4watch.actions.set_level import SetLevel
from ds4watch.model.action import ActionKind, ActionPlan, ActionStatus, Outcome
from ds4watch.model.service_policy import Limits, PoolLevel, ServicePolicy
from ds4watch.telemetry.metrics import Telemetry
from tests.edge.clock import SystemClock

PLAN = ActionPlan(
    id="set_level:default:1",
    kind=ActionKind.SET_LEVEL,
    target="default",
    cause="f1",
    planned_at=0.0,
    parameters={
        "version": 1,
        "level": 1,
        "level_name": "short",
        "ladder": [Limits().as_json(), Limits(max_tokens_cap=8).as_json()],
    },
    before={"level": 0},
    reason="Queue is firing",
)


class Log:
    def __init__(self, *plans: ActionPlan) -> None:
        self.plans = list(plans)
        self.outcomes: list[Outcome] = []
        self.policy: Mapping[str, Any] | None = None
        self.empty = asyncio.Event()

    async def claim_action(self, at: float) -> ActionPlan | None:
        assert at > 0
        if not self.plans:
            self.empty.set()
            return None
        return self.plans.pop(0)

    async def finish_action(
        self, outcome: Outcome, *, policy: Mapping[str, Any] | None = None
    ) -> bool:
        self.outcomes.append(outcome)
        self.policy = policy
        return True


class Board:
    """Takes policies; says that gateways obeyed, or not."""

    def __init__(self, *, obeys: bool, policy: ServicePolicy | None = None) -> None:
        self.obeys = obeys
        self.current = policy or ServicePolicy(excluded_workers=("w9",))

    def policy(self) -> ServicePolicy:
        return self.current

    async def publish_policy(self, policy: ServicePolicy, *, timeout_seconds: float) -> bool:
        assert timeout_seconds > 0
        self.current = policy
        return self.obeys


def runner_of(log: Log, board: Board) -> Runner:
    handler = SetLevel(board, SystemClock(), lease_seconds=600.0)
    metrics = Telemetry().process
    return Runner(log, {ActionKind.SET_LEVEL: handler}, metrics=metrics, clock=SystemClock())


async def carried_out(log: Log, board: Board, *, pool: str = "default") -> Outcome:
    runner = runner_of(log, board)
    runner.submit(list(log.plans))
    assert runner.in_flight(pool)
    task = asyncio.create_task(runner.run())
    async with asyncio.timeout(5):
        await log.empty.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not runner.in_flight(pool)
    return log.outcomes[-1]


async def test_a_level_is_applied_once_the_gateways_obey() -> None:
    board = Board(obeys=True)
    log = Log(PLAN)
    outcome = await carried_out(log, board)
    assert outcome.status is ActionStatus.APPLIED
    assert log.policy == board.current.as_json()
    assert board.current.limits.max_tokens_cap == 8
    assert (board.current.version, board.current.level, board.current.reason) == (
        1,
        1,
        "Queue is firing",
    )
    assert board.current.excluded_workers == ("w9",)


async def test_without_an_answer_its_effect_is_unknown_and_not_called_applied() -> None:
    outcome = await carried_out(Log(PLAN), Board(obeys=False))
    assert outcome.status is ActionStatus.UNKNOWN


async def test_a_plan_that_was_claimed_as_it_was_committed_is_begun_in_the_very_next_turn() -> None:
    log, board = Log(), Board(obeys=True)
    runner = runner_of(log, board)
    assert not runner.is_free  # nobody serves yet: a plan has to wait, unclaimed
    task = asyncio.create_task(runner.run())
    await asyncio.sleep(0)
    assert runner.is_free
    runner.submit([PLAN], [PLAN.id])
    assert not runner.is_free
    await asyncio.sleep(0)
    assert board.current.version == 1
    async with asyncio.timeout(5):
        await log.empty.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [outcome.status for outcome in log.outcomes] == [ActionStatus.APPLIED]


async def test_a_plan_that_a_hold_took_away_does_not_block_the_next() -> None:
    log = Log()
    runner = runner_of(log, Board(obeys=True))
    runner.submit([PLAN])
    task = asyncio.create_task(runner.run())
    async with asyncio.timeout(5):
        while runner.in_flight("default"):
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert log.outcomes == []


async def test_a_level_that_somebody_else_changed_is_left_alone() -> None:
    board = Board(obeys=True, policy=ServicePolicy(version=7, level=2))
    outcome = await carried_out(Log(PLAN), board)
    assert outcome.status is ActionStatus.FAILED
    assert board.current.version == 7


@pytest.mark.parametrize(
    ("version", "status"), [(1, ActionStatus.APPLIED), (0, ActionStatus.FAILED)]
)
async def test_what_a_dead_daemon_left_is_looked_at_and_never_done_blindly(
    version: int, status: ActionStatus
) -> None:
    log, board = Log(), Board(obeys=True, policy=replace(ServicePolicy(), version=version))
    await runner_of(log, board).recover([PLAN])
    assert [outcome.status for outcome in log.outcomes] == [status]
    assert board.current.version == version


async def test_the_level_of_a_pool_changes_that_pool_and_nothing_else() -> None:
    pools = (PoolLevel("chat", ("big",)), PoolLevel("code", ("coder",)))
    board = Board(obeys=True, policy=ServicePolicy(version=7, level=2, pools=pools))
    plan = replace(PLAN, id="set_level:chat:8", target="chat", pool="chat")
    log = Log(plan)
    outcome = await carried_out(log, board, pool="chat")
    assert outcome.status is ActionStatus.APPLIED
    assert outcome.after == {"level": 1}
    assert board.current.levels == {"default": 2, "chat": 1, "code": 0}
    assert (board.current.version, board.current.pools[0].action) == (8, plan.id)
    handler = SetLevel(board, SystemClock(), lease_seconds=600.0)
    assert handler.is_in_force(plan)
    assert not handler.is_in_force(replace(plan, id="set_level:chat:9"))
