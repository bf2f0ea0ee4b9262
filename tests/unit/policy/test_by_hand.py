"""What a person asks for by name: same guards, one level at a time, taken back on request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ds4watch.model.action import ActionKind, ActionStatus, Hold, RefusalReason
from ds4watch.policy.by_hand import Answer, Order, order, undo
from ds4watch.policy.explain import Ladder, explain
from ds4watch.policy.ladder import LadderState, decide
from ds4watch.policy.standing import Bounds, Standing
from tests.unit.policy.worlds import NOW, POLICY, alert, past, policy, standing

ANN = Order(7, "restart-worker", "default", "w0", "ann", "it is odd")
HOLD = Hold("default", NOW + 60, "bob", "hands off", NOW)
CALM = Ladder(LadderState("default"))


def asked(it: Order, world: Standing | None = None, ladder: Ladder = CALM) -> Answer:
    return order(it, policy(), world or standing(), ladder)


def test_an_action_by_hand_goes_through_the_guards() -> None:
    answer = asked(ANN)
    assert answer.ok
    plan = answer.plan
    assert plan is not None
    assert (plan.id, plan.cause, plan.who, plan.reason) == (
        "act:7",
        "operator:ann",
        "ann",
        "it is odd",
    )
    assert plan.parameters["undo_after_seconds"] is None
    refused = asked(ANN, standing(bounds=Bounds(min_hot=4)))
    assert refused.refusal is not None
    assert refused.refusal.reason is RefusalReason.FLOOR
    assert asked(ANN, standing(holds=(HOLD,))).told == "hold: bob holds default: hands off"
    assert asked(replace(ANN, target="")).told == "no_target: no worker is named"


def test_a_dry_run_by_hand_is_told_and_the_first_week_holds_no_person_back() -> None:
    assert asked(replace(ANN, dry_run=True)).told.startswith("would do restart-worker on w0")
    answer = asked(ANN, standing(trial_until=NOW + 1))
    assert answer.plan is not None
    assert answer.plan.first_status is ActionStatus.PLANNED


@pytest.mark.parametrize(
    ("who", "status"), [("ann", ActionStatus.PLANNED), ("bob", ActionStatus.WAITING)]
)
def test_who_may_approve_needs_nobody_elses_yes(who: str, status: ActionStatus) -> None:
    text = POLICY.replace("kind: exclude_worker", "kind: exclude_worker\n    approval: {by: [ann]}")
    answer = order(replace(ANN, name="away", who=who), policy(text), standing(), CALM)
    assert answer.plan is not None
    assert answer.plan.first_status is status


@pytest.mark.parametrize(
    ("name", "level", "said"),
    [
        ("short", 0, "short on default is begun; its id is act:7"),
        ("shorter", 0, "step: level 0 is in force, and one level is taken at a time"),
        ("shorter", 1, "settling: level 1 has 10 s to take effect, 5 are over"),
        ("normal", 2, "normal on default is begun; its id is act:7:normal"),
        ("normal", 0, "step: level 0 is in force already"),
    ],
)
def test_levels_are_climbed_one_at_a_time_by_hand_too(name: str, level: int, said: str) -> None:
    ladder = Ladder(LadderState("default", level=level, since=NOW - 5, version=3))
    assert asked(replace(ANN, name=name), ladder=ladder).told == said


def test_a_level_by_hand_stays_until_it_is_taken_back_by_hand() -> None:
    state = LadderState("default", level=1, since=0.0, action="act:7")
    calm = replace(state, calm_since=0.0)
    nothing = decide(calm, policy(), [], holds=(), in_flight=False, unconfirmed=False, now=NOW)
    assert nothing.plan is None
    own = replace(calm, action="set_level:default:1")
    down = decide(own, policy(), [], holds=(), in_flight=False, unconfirmed=False, now=NOW)
    assert down.plan is not None


def test_what_is_unknown_is_told_with_what_is_known() -> None:
    assert "known: again, away, more, restart-worker" in asked(replace(ANN, name="reboot")).told
    assert asked(replace(ANN, pool="x")).told == "there is no pool 'x' (known: default)"


def test_an_undo_restores_and_is_done_once() -> None:
    it = past()
    world = standing(past=(it,))
    answer = undo(8, "a1", world.past, world, who="ann", why="well again")
    assert answer.plan is not None
    assert (answer.plan.kind, answer.plan.target, answer.plan.undoes) == (it.plan.kind, "w0", "a1")
    begun = standing(past=(it, past(id="undo:a1", undoes="a1")))
    for world, said in (
        (begun, "it is taken back already"),
        (standing(past=(it,), holds=(HOLD,)), "bob holds default: hands off"),
        (standing(past=(past(status=ActionStatus.UNDONE),)), "it is not in force: it is undone"),
        (
            standing(past=(past(ActionKind.RESTART_WORKER),)),
            "a restart_worker cannot be taken back",
        ),
        (standing(), "there is no action 'a1' on a worker"),
    ):
        assert undo(8, "a1", world.past, world, who="ann", why="").told == said


def test_a_dry_run_of_an_undo_tells_what_it_would_do_and_plans_nothing() -> None:
    world = standing(past=(past(),))
    answer = undo(8, "a1", world.past, world, who="ann", why="", dry_run=True)
    assert (answer.ok, answer.plan) == (True, None)
    assert answer.told.startswith("would take exclude_worker on w0 back: gateways let it in")
    held = standing(past=(past(),), holds=(HOLD,))
    assert not undo(8, "a1", held.past, held, who="ann", why="", dry_run=True).ok


def test_an_alert_is_explained_binding_by_binding_guard_by_guard() -> None:
    world = standing(holds=(HOLD,))
    (found,) = explain(policy(), [alert("Slow")], world, {}, {"alertname": "Slow"})
    (asks,) = found["asks"]
    assert asks["asks_for"] == "again (restart_worker) on w0"
    assert asks["then"] == "nothing: hold: bob holds default: hands off"
    assert [guard["guard"] for guard in asks["guards"]][:2] == ["firing", "target"]
    assert not found["supposed"]


def test_an_alert_that_is_not_there_is_supposed_to_fire() -> None:
    labels = {"alertname": "Slow", "worker": "w1"}
    (found,) = explain(policy(), [], standing(), {}, labels)
    assert found["supposed"]
    assert found["asks"][0]["then"] == "done"
    pending = alert("Slow", phase=alert("Slow").phase.PENDING)
    (found,) = explain(policy(), [pending], standing(), {}, {"alertname": "Slow"})
    assert found["asks"][0]["then"].startswith("nothing: firing: it is pending")


def test_a_level_is_explained_with_the_ladder() -> None:
    text = POLICY.replace("bindings:", "bindings:\n  - {match: {alertname: Queue}, level: 2}")
    ladder = Ladder(LadderState("default", level=1, since=NOW - 5), in_flight=True)
    (found,) = explain(policy(text), [], standing(), {"default": ladder}, {"alertname": "Queue"})
    told = {guard["guard"]: guard["told"] for guard in found["asks"][0]["guards"]}
    assert told["step"] == "from level 1 to 2"
    assert told["settling"] == "level 1 has 10 s to take effect, 5 are over"
    assert told["in_flight"] == "a step is under way"
