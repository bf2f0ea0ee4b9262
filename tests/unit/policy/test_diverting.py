"""Classes of work that go to the reference: what an alert's labels lead to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ds4watch.model.action import ActionKind, ActionStatus, Hold
from ds4watch.model.alert import AlertState
from ds4watch.model.series import labels_of
from ds4watch.model.worker import WorkerView
from ds4watch.policy.aftermath import look_after, undoing
from ds4watch.policy.by_hand import Order, order
from ds4watch.policy.deciding import decide_actions
from ds4watch.policy.explain import Ladder
from ds4watch.policy.ladder import LadderState
from ds4watch.policy.standing import Bounds, Past, Standing
from tests.unit.policy.worlds import ASLEEP, NOW, READY, alert, policy

POLICY = policy(
    """\
pools: {default: {}}
actions: {back: {kind: divert_class, cooldown_seconds: 0}}
bindings:
  - {match: {alertname: QualityBoundBroken, severity: critical}, action: back}
"""
)
LABELS = {
    "alertname": "QualityBoundBroken", "severity": "critical",
    "profile": "int4", "reference": "full", "class": "mathematics",
}  # fmt: skip
WORKERS = (
    WorkerView("i", "int4", ("model", "model-int4"), "http://w", READY, since=1.0),
    WorkerView("f", "full", ("model", "model-full"), "http://w", READY, since=1.0),
)
WORLD = Standing(NOW, WORKERS)


def broken(**labels: str) -> AlertState:
    return replace(alert("x"), labels=labels_of(LABELS | labels))


def test_the_class_goes_to_the_reference_and_nothing_ever_takes_it_back() -> None:
    (plan,) = decide_actions(POLICY, [broken()], WORLD).plans
    assert (plan.kind, plan.target) == (ActionKind.DIVERT_CLASS, "int4:mathematics")
    # `model` says nothing of who answers: both do.
    names = {"models": ["model-int4"], "work_class": "mathematics", "serves": "model-full"}
    assert plan.parameters.items() >= names.items()
    done = Past(plan, ActionStatus.APPLIED, NOW, verify_by=NOW + 5)
    diverted = frozenset({("model-int4", "mathematics")})
    later = replace(WORLD, at=NOW + 30 * 86_400, past=(done,), diverted=diverted)
    after = look_after(later, [], {}, {plan.id: NOW})
    assert after.undo == ()
    assert [it.helped for it in after.verdicts] == [True]
    undo = undoing(plan, later, cause="operator:ann", reason="r", who="ann")
    assert undo.parameters.items() >= names.items()


@pytest.mark.parametrize(
    ("alerts", "changes", "told"),
    [
        (broken(reference=""), {}, "no_target: only an alert with the labels"),
        (
            broken(),
            {"workers": (WORKERS[0], replace(WORKERS[1], phase=ASLEEP))},
            "not_possible: no ready worker of full serves a model that int4 does not",
        ),
        (broken(), {"excluded": frozenset({"f"})}, "not_possible: no ready worker of full"),
        (
            broken(),
            {"diverted": frozenset({("model-int4", "mathematics")})},
            "not_possible: it is diverted already",
        ),
        (
            broken(),
            {"bounds": Bounds(budget=1, prices={"full": 2})},
            "budget: 0.00 an hour, of 0.00",
        ),
        (broken(), {"holds": (Hold("int4", NOW + 9, "ann", "no", NOW),)}, "hold: ann holds int4"),
    ],
)
def test_it_is_refused_with_a_reason(
    alerts: AlertState, changes: dict[str, Any], told: str
) -> None:
    decided = decide_actions(POLICY, [alerts], replace(WORLD, **changes))
    assert decided.plans == ()
    (refusal,) = decided.refusals
    assert f"{refusal.reason}: {refusal.detail}".startswith(told)


def test_a_person_cannot_ask_for_what_only_an_alert_can_say() -> None:
    asked = Order(1, "back", "default", "i", "ann", "x")
    answer = order(asked, POLICY, WORLD, Ladder(LadderState("default")))
    assert answer.told.startswith("no_target: only an alert with the labels profile, reference")
