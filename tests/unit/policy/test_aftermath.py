"""What follows on an action: approval expires, its effect is told, it is taken back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ds4watch.model.action import ActionKind, ActionStatus, Hold
from ds4watch.model.alert import AlertState
from ds4watch.model.worker import WorkerPhase
from ds4watch.policy.aftermath import Aftermath, look_after
from tests.unit.policy.worlds import NOW, alert, past, standing, view

BAD = alert("Bad")
EXCLUDED: dict[str, Any] = {
    "cause": BAD.fingerprint,
    "parameters": {"action": "away", "otherwise": "undo", "undo_after_seconds": 30.0},
    "verify_by": NOW + 10,
}


def after(
    *pasts: Any, alerts: tuple[AlertState, ...] = (), at: float = NOW, **world: Any
) -> Aftermath:
    calm = world.pop("calm", {})
    signals = world.pop("signals", {})
    held = standing(**{"excluded": frozenset({"w0"}), **world}, past=pasts)
    return look_after(replace(held, at=at), alerts, signals, calm)


def waiting(**changes: Any) -> Any:
    own = {"cause": BAD.fingerprint, "expires_at": NOW + 5, **changes}
    return past(status=ActionStatus.WAITING, **own)


@pytest.mark.parametrize(
    ("at", "alerts", "why"),
    [
        (NOW, (BAD,), None),
        (NOW + 5, (BAD,), "nobody said yes in time, which means no"),
        (NOW, (), "what asked for it is over"),
    ],
)
def test_no_answer_means_no(at: float, alerts: tuple[AlertState, ...], why: str | None) -> None:
    expired = after(waiting(), alerts=alerts, at=at).expired
    assert expired == ((("a1", why),) if why else ())


def test_what_a_person_asked_for_waits_for_as_long_as_it_may() -> None:
    assert after(waiting(cause="operator:ann")).expired == ()


def test_an_alert_that_ends_is_an_action_that_helped() -> None:
    (verdict,) = after(past(**EXCLUDED)).verdicts
    assert verdict.helped
    assert verdict.told == "w0 is excluded; the alert is over: it helped"


def test_an_action_without_effect_in_time_is_told_and_taken_back() -> None:
    assert after(past(**EXCLUDED), alerts=(BAD,)).verdicts == ()
    late = after(past(**EXCLUDED), alerts=(BAD,), at=NOW + 10)
    (verdict,) = late.verdicts
    assert not verdict.helped
    assert verdict.attention.startswith("exclude_worker on w0 did not help")
    (plan,) = late.undo
    assert (plan.id, plan.undoes, plan.parameters["undo"]) == ("undo:a1", "a1", True)


def test_with_escalate_it_is_told_and_left() -> None:
    parameters = {**EXCLUDED["parameters"], "otherwise": "escalate"}
    late = after(past(**EXCLUDED | {"parameters": parameters}), alerts=(BAD,), at=NOW + 10)
    assert late.verdicts[0].attention
    assert late.undo == ()


@pytest.mark.parametrize(("value", "helped"), [(2.0, True), (5.0, False), (None, False)])
def test_a_signal_of_its_own_has_to_improve(value: float | None, *, helped: bool) -> None:
    parameters = {"signal": "ds4_x", "better": "lower", "otherwise": "escalate"}
    it = past(**EXCLUDED | {"parameters": parameters, "before": {"signal": 4.0}})
    signals = {} if value is None else {"a1": value}
    assert after(it, alerts=(BAD,), signals=signals).verdicts == ()
    (verdict,) = after(it, alerts=(BAD,), signals=signals, at=NOW + 10).verdicts
    assert verdict.helped is helped


@pytest.mark.parametrize(
    ("phase", "since", "helped"),
    [
        (WorkerPhase.READY, NOW, True),
        (WorkerPhase.READY, NOW - 60, False),
        (WorkerPhase.LOADING, NOW, False),
    ],
)
def test_a_restart_worked_once_the_worker_is_ready_anew(
    phase: WorkerPhase, since: float, *, helped: bool
) -> None:
    it = past(ActionKind.RESTART_WORKER, cause="f", verify_by=NOW)
    worker = replace(view("w0", phase), since=since)
    (verdict,) = after(it, workers=(worker,)).verdicts
    assert verdict.helped is helped


def test_it_is_taken_back_once_its_alert_has_been_over_for_long_enough() -> None:
    it = past(**EXCLUDED | {"verified_at": NOW - 1, "helped": True})
    first = after(it)
    assert first.undo == ()
    assert first.calm == {"a1": NOW}
    assert after(it, at=NOW + 29, calm=first.calm).undo == ()
    assert [plan.undoes for plan in after(it, at=NOW + 30, calm=first.calm).undo] == ["a1"]
    fires_again = after(it, alerts=(BAD,), at=NOW + 20, calm=first.calm)
    assert fires_again.calm == {}


def test_taking_back_waits_for_the_end_of_a_hold_and_is_done_once() -> None:
    it = past(**EXCLUDED | {"verified_at": NOW - 1, "helped": True})
    hold = Hold("w0", NOW + 60, "ann", "leave it", NOW)
    held = after(it, at=NOW + 30, calm={"a1": NOW}, holds=(hold,))
    assert held.undo == ()
    assert held.refusals[0].detail == "ann holds w0: leave it"
    begun = past(id="undo:a1", undoes="a1", status=ActionStatus.RUNNING)
    assert after(it, begun, at=NOW + 30, calm={"a1": NOW}).undo == ()


def test_a_restart_and_what_a_person_asked_for_are_not_taken_back_by_themselves() -> None:
    done: dict[str, Any] = {
        "verified_at": NOW - 1,
        "helped": True,
        "parameters": {"undo_after_seconds": 0.0},
    }
    for it in (
        past(ActionKind.RESTART_WORKER, **done),
        past(cause="operator:ann", **done),
    ):
        assert after(it, at=NOW + 9, calm={"a1": NOW}).undo == ()
