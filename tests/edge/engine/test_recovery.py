"""A daemon dies between plan and outcome: the next one looks, and never does it blindly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ds4watch.actions.runner import Runner
from ds4watch.actions.set_level import SetLevel
from ds4watch.history.rows import TickCommit
from ds4watch.history.state import StateStore
from ds4watch.model.action import ActionKind, ActionStatus
from ds4watch.model.service_policy import ServicePolicy
from ds4watch.telemetry.metrics import Telemetry
from tests.edge.actions.test_runner import PLAN, Board
from tests.edge.clock import SystemClock


async def after_a_death(path: Path, *, claimed: bool, version: int) -> tuple[StateStore, Board]:
    """Plan an action, claim it or not, die; start again and recover."""
    before = StateStore.open(path, SystemClock())
    await before.load(100.0)
    await before.commit_tick(TickCommit(at=100.0, plans=(PLAN,)))
    if claimed:
        await before.claim_action(101.0)
    await before.close()

    state = StateStore.open(path, SystemClock())
    restored = await state.load(200.0)
    board = Board(obeys=True, policy=replace(ServicePolicy(), version=version))
    handler = SetLevel(board, SystemClock(), lease_seconds=600.0)
    runner = Runner(
        state,
        {ActionKind.SET_LEVEL: handler},
        metrics=Telemetry().process,
        clock=SystemClock(),
    )
    await runner.recover(record.plan for record in restored.actions)
    return state, board


@pytest.mark.parametrize(
    ("claimed", "version", "status"),
    [
        (False, 0, ActionStatus.FAILED),
        (True, 0, ActionStatus.FAILED),
        (True, 1, ActionStatus.APPLIED),
    ],
)
async def test_what_was_left_half_done_is_settled_and_not_done_again(
    tmp_path: Path, claimed: bool, version: int, status: ActionStatus
) -> None:
    state, board = await after_a_death(tmp_path / "state.db", claimed=claimed, version=version)
    assert [record.status for record in await state.actions()] == [status]
    assert await state.claim_action(300.0) is None
    assert board.current.version == version
    await state.close()
