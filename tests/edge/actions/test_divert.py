"""A class of work that another model answers: what gateways are told, what is left alone."""

from __future__ import annotations

from dataclasses import replace

from ds4watch.actions.divert import DivertClass
from ds4watch.actions.set_level import SetLevel
from ds4watch.model.action import ActionKind, ActionPlan, ActionStatus
from ds4watch.model.limits import Limits
from ds4watch.model.service_policy import Diversion, ServicePolicy
from tests.edge.actions.test_runner import Board
from tests.edge.clock import SystemClock

PLAN = ActionPlan(
    "d1",
    ActionKind.DIVERT_CLASS,
    "p:mathematics",
    "f",
    5.0,
    {"models": ["small", "tiny"], "work_class": "mathematics", "serves": "big"},
)
ROWS = (Diversion("small", "mathematics", "big"), Diversion("tiny", "mathematics", "big"))
OTHER = Diversion("small", "chat", "big")


async def test_a_class_is_diverted_beside_others_and_answered_as_before_once_that_is_undone() -> (
    None
):
    board = Board(obeys=True, policy=ServicePolicy(4, 2, "two", diversions=(OTHER,)))
    handler = DivertClass(board, SystemClock())
    assert not handler.is_in_force(PLAN)
    done = await handler.run(PLAN)
    assert done.outcome.status is ActionStatus.APPLIED
    assert board.policy().diversions == (OTHER, *ROWS)
    assert (board.policy().version, board.policy().level) == (5, 2)
    assert ServicePolicy.from_json(done.policy or {}) == board.policy()
    again = await handler.run(PLAN)
    assert (again.outcome.detail, board.policy().version) == ("it is so already: left as it is", 5)
    undo = replace(PLAN, id="undo:d1", undoes="d1")
    assert not handler.is_in_force(undo)
    await handler.run(undo)
    assert board.policy().diversions == (OTHER,)
    assert handler.is_in_force(undo)


async def test_levels_come_and_go_and_diversions_stay() -> None:
    board = Board(obeys=True, policy=ServicePolicy(4, diversions=ROWS))
    parameters = {"version": 5, "level": 0, "level_name": "n", "ladder": [Limits().as_json()]}
    plan = ActionPlan("s", ActionKind.SET_LEVEL, "default", "f", 1.0, parameters, {"level": 0})
    await SetLevel(board, SystemClock(), lease_seconds=60.0).run(plan)
    assert board.policy().diversions == ROWS
