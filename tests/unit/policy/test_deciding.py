"""From alerts to actions on workers: every guard as a row of a table, and what never happens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.action import ActionKind, ActionStatus, Hold, RefusalReason
from ds4watch.model.alert import AlertPhase
from ds4watch.model.worker import WorkerPhase
from ds4watch.policy.deciding import decide_actions
from ds4watch.policy.standing import Bounds, Past
from tests.unit.policy.worlds import (
    ASLEEP,
    NOW,
    POLICY,
    READY,
    alert,
    past,
    policy,
    standing,
    view,
)

HELD = Hold("w0", NOW + 60, "ann", "a look", NOW - 60)
AGAIN = {"action": "again"}


def test_a_firing_alert_leads_to_its_action_with_what_every_guard_said() -> None:
    decided = decide_actions(policy(), [alert("Slow")], standing())
    (plan,) = decided.plans
    assert (plan.kind, plan.target, plan.pool) == (ActionKind.RESTART_WORKER, "w0", "default")
    assert plan.reason == "Slow (warning) is firing at 7"
    assert plan.before["alert"] == 7.0
    assert all(guard.passed for guard in plan.guards)
    told = {guard.guard: guard.told for guard in plan.guards}
    assert told["floor"] == "3 would be left to serve, min_hot is 0"
    assert told["shared_cause"] == "1 of 4 workers of default, at most 50%"
    assert plan.first_status is ActionStatus.PLANNED


@pytest.mark.parametrize(
    "changes",
    [
        {"phase": AlertPhase.PENDING},
        {"phase": AlertPhase.RESOLVED},
        {"held": True},
        {"confirmed": False},
    ],
)
def test_what_does_not_fire_on_fresh_data_leads_to_nothing(changes: dict[str, Any]) -> None:
    decided = decide_actions(policy(), [alert("Slow", **changes)], standing())
    assert decided.plans == ()
    assert decided.refusals == ()


@pytest.mark.parametrize(
    ("name", "worker", "world", "reason", "said"),
    [
        ("Slow", "", {}, RefusalReason.NO_TARGET, "no label 'worker' names a worker"),
        ("Slow", "w9", {}, RefusalReason.NO_TARGET, "there is no worker 'w9'"),
        (
            "Slow",
            "w0",
            {"workers": (view("w0", ASLEEP), view("w1"))},
            RefusalReason.NOT_POSSIBLE,
            "it is asleep, not ready",
        ),
        (
            "Slow",
            "w0",
            {"foreign": frozenset({"w0"})},
            RefusalReason.NOT_POSSIBLE,
            "it is run by somebody else, who has to restart it",
        ),
        (
            "Bad",
            "w0",
            {"excluded": frozenset({"w0"})},
            RefusalReason.NOT_POSSIBLE,
            "it is excluded already",
        ),
        ("Slow", "w0", {"holds": (HELD,)}, RefusalReason.HOLD, "ann holds w0: a look"),
        (
            "Slow",
            "w0",
            {"holds": (replace(HELD, target="default"),)},
            RefusalReason.HOLD,
            "ann holds default: a look",
        ),
        (
            "Slow",
            "w0",
            {"bounds": Bounds(min_hot=4)},
            RefusalReason.FLOOR,
            "3 would be left to serve, min_hot is 4",
        ),
        (
            "Slow",
            "w0",
            {"past": (past(ActionKind.RESTART_WORKER, parameters=AGAIN),)},
            RefusalReason.COOLDOWN,
            "the last on w0 was 50 s ago, 1000 s have to be",
        ),
        (
            "Slow",
            "w1",
            {"past": (past(ActionKind.RESTART_WORKER, parameters=AGAIN, planned_at=NOW - 5),)},
            RefusalReason.COOLDOWN,
            "the last on any worker was 5 s ago, 10 s have to be",
        ),
        (
            "Bad",
            "w0",
            {
                "past": (
                    past(target="w1", status=ActionStatus.WAITING, id="x"),
                    past(target="w2", verify_by=NOW + 1, id="y"),
                )
            },
            RefusalReason.IN_FLIGHT,
            (
                "2 of 2 under way in default: exclude_worker on w1 (waits for a person), "
                "exclude_worker on w2"
            ),
        ),
        (
            "Full",
            "",
            {"workers": (view("w0"), view("w1", ASLEEP)), "bounds": Bounds(max_workers=1)},
            RefusalReason.CEILING,
            "1 are on, max_workers is 1",
        ),
        (
            "Full",
            "",
            {
                "workers": (view("w0"), view("w1", ASLEEP)),
                "bounds": Bounds(budget=10**9, prices={"p": 6 * 10**8}),
            },
            RefusalReason.BUDGET,
            "1.20 an hour with it, of 1.00",
        ),
    ],
)
def test_each_guard_refuses_with_its_values(
    name: str, worker: str, world: dict[str, Any], reason: RefusalReason, said: str
) -> None:
    decided = decide_actions(policy(), [alert(name, worker)], standing(**world))
    assert decided.plans == ()
    (refusal,) = decided.refusals
    assert (refusal.reason, refusal.detail) == (reason, said)
    assert next(it.guard for it in refusal.guards if not it.passed) == _guard_of(reason)


def _guard_of(reason: RefusalReason) -> str:
    names = {RefusalReason.NO_TARGET: "target", RefusalReason.NOT_POSSIBLE: "possible"}
    return names.get(reason, reason.value)


def test_a_cause_that_many_share_stops_actions_on_single_workers() -> None:
    alerts = [alert("Slow", f"w{number}") for number in range(3)]
    decided = decide_actions(policy(), alerts, standing())
    assert decided.plans == ()
    (refusal,) = decided.refusals  # one for all of them
    assert (refusal.reason, refusal.target) == (RefusalReason.SHARED_CAUSE, "default")
    assert refusal.detail.startswith("3 of 4 workers of default at once, more than 50%")


def test_a_time_that_an_alert_fires_is_acted_on_once() -> None:
    world, slow = standing(), alert("Slow")
    (plan,) = decide_actions(policy(), [slow], world).plans
    for status in set(ActionStatus) - {ActionStatus.FAILED}:
        again = decide_actions(policy(), [slow], replace(world, past=(Past(plan, status),)))
        assert (again.plans, again.refusals) == ((), ())
    later = alert("Slow", fired_at=NOW + 5000)
    (other,) = decide_actions(
        policy(), [later], replace(world, at=NOW + 5000, past=(Past(plan, ActionStatus.APPLIED),))
    ).plans
    assert other.id != plan.id


def test_of_the_tiers_of_an_alert_the_highest_acts() -> None:
    higher = alert("Bad")
    labels = tuple(
        (name, "critical" if name == "severity" else value) for name, value in higher.labels
    )
    (plan,) = decide_actions(policy(), [higher, replace(higher, labels=labels)], standing()).plans
    assert plan.reason.startswith("Bad (critical)")


@pytest.mark.parametrize(
    ("changes", "world", "why"),
    [
        ({"dry_run": True}, {"is_dry": True}, "the policy has dry_run: true"),
        ({}, {"trial_until": NOW + 1, "foreign": frozenset({"w0"})}, "the first week"),
    ],
)
def test_a_dry_run_decides_all_and_does_nothing(
    changes: dict[str, Any], world: dict[str, Any], why: str
) -> None:
    (plan,) = decide_actions(policy(**changes), [alert("Bad")], standing(**world)).plans
    assert plan.first_status is ActionStatus.WOULD_DO
    assert plan.id.endswith(":dry")
    assert plan.parameters["why_dry"].startswith(why)


def test_in_the_first_week_scaling_is_told_and_own_workers_are_cared_for() -> None:
    world = standing(READY, ASLEEP, trial_until=NOW + 1)
    woken, restarted = decide_actions(policy(), [alert("Slow"), alert("Full", "")], world).plans[
        ::-1
    ]
    assert (woken.kind, woken.first_status) == (ActionKind.WAKE_WORKER, ActionStatus.WOULD_DO)
    assert woken.target == "w1"
    assert restarted.first_status is ActionStatus.PLANNED


def test_with_an_approver_an_action_waits_until_it_expires() -> None:
    text = POLICY.replace(
        "kind: restart_worker",
        "kind: restart_worker\n    approval: {by: [ann], expires_seconds: 60}",
    )
    (plan,) = decide_actions(policy(text), [alert("Slow")], standing()).plans
    assert plan.first_status is ActionStatus.WAITING
    assert (plan.approvers, plan.expires_at) == (("ann",), NOW + 60)


STATUSES = st.sampled_from(ActionStatus)
PHASES = st.sampled_from([READY, ASLEEP, WorkerPhase.DRAINING, WorkerPhase.FAILED])
PASTS = st.builds(
    lambda target, status, ago, verify: past(
        target=target,
        status=status,
        planned_at=NOW - ago,
        verify_by=NOW + verify,
        id=f"{target}-{ago}",
        parameters={"action": "away"},
    ),
    st.sampled_from(["w0", "w1", "w2"]),
    STATUSES,
    st.floats(0, 5000),
    st.floats(-10, 10),
)


@given(
    phases=st.lists(PHASES, min_size=1, max_size=5),
    pasts=st.lists(PASTS, max_size=4),
    names=st.lists(
        st.tuples(st.sampled_from(["Slow", "Bad", "Full"]), st.integers(0, 5)), max_size=6
    ),
    held=st.booleans(),
    min_hot=st.integers(0, 3),
)
def test_never_over_the_limits_and_never_with_a_hold(
    phases: list[WorkerPhase],
    pasts: list[Past],
    names: list[tuple[str, int]],
    held: bool,
    min_hot: int,
) -> None:
    holds = (replace(HELD, target="*"),) if held else ()
    world = standing(*phases, past=tuple(pasts), holds=holds, bounds=Bounds(min_hot=min_hot))
    alerts = [alert(name, f"w{number}") for name, number in names]
    decided = decide_actions(policy(), alerts, world)
    assert not (held and decided.plans)
    after = [*pasts, *(Past(it, it.first_status) for it in decided.plans)]
    before = len(world.known.flying.get("default", ()))
    flying = standing(past=tuple(after)).known.flying.get("default", ())
    assert len(flying) <= max(2, before)
    assert len({it.id for it in decided.plans}) == len(decided.plans)
    taken = {it.target for it in decided.plans if it.kind is not ActionKind.WAKE_WORKER}
    serving = world.known.serving  # who is about to leave is taken away already
    assert not taken & serving or len(serving - taken) >= min_hot


def test_many_single_workers_are_acted_on_one_by_one_and_the_rest_is_told_in_a_few_rows() -> None:
    world = standing(*(READY,) * 1000)
    alerts = [alert("Bad", f"w{number}") for number in range(400)]
    decided = decide_actions(policy(), alerts, world)
    assert [it.target for it in decided.plans] == ["w0", "w1"]  # max_in_flight
    assert {it.reason for it in decided.refusals} == {RefusalReason.IN_FLIGHT}
    *single, rest = decided.refusals
    assert [it.target for it in single] == ["w2", "w3", "w4", "w5", "w6"]
    assert (rest.target, rest.cause) == ("default", "Bad")
    assert rest.detail.startswith("so it is for more workers than are told: 2 of 2 under way")


def test_what_failed_is_asked_for_again_after_its_cooldown_under_another_claim() -> None:
    (first,) = decide_actions(policy(), [alert("Slow")], standing()).plans
    failed = Past(first, ActionStatus.FAILED, finished_at=NOW)
    soon = decide_actions(policy(), [alert("Slow")], standing(past=(failed,), at=NOW + 999))
    assert (soon.plans, soon.refusals[0].reason) == ((), RefusalReason.COOLDOWN)
    later = decide_actions(policy(), [alert("Slow")], standing(past=(failed,), at=NOW + 1000))
    assert [it.id for it in later.plans] == [f"{first.id}:try2"]
    done = (failed, Past(later.plans[0], ActionStatus.APPLIED))
    assert decide_actions(policy(), [alert("Slow")], standing(past=done, at=NOW + 3000)) == (
        decide_actions(policy(), [], standing())
    )
