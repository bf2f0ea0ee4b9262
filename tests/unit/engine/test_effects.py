"""An action is looked at once it had time: did what it was for get better?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ds4watch.engine.effects import effect, watch
from ds4watch.model.action import ActionKind, ActionPlan
from ds4watch.model.alert import AlertPhase, AlertState

ALERT = AlertState("r", (("alertname", "Queue"),), AlertPhase.FIRING, active_at=0.0, value=80.0)
PLAN = ActionPlan(
    id="set_level:default:1",
    kind=ActionKind.SET_LEVEL,
    target="default",
    cause=ALERT.fingerprint,
    planned_at=100.0,
    parameters={"level": 1},
)


@pytest.mark.parametrize(
    ("after", "helped", "said"),
    [
        ((replace(ALERT, value=30.0),), True, "Queue went from 80 to 30: it helped"),
        ((replace(ALERT, value=95.0),), False, "Queue went from 80 to 95: no better yet"),
        (
            (replace(ALERT, keep_firing_since=105.0),),
            True,
            "the condition of Queue, at 80 then, no longer holds: it helped",
        ),
        ((replace(ALERT, phase=AlertPhase.RESOLVED),), True, "an alert at 80 is over: it helped"),
        ((), True, "an alert at 80 is over: it helped"),
    ],
)
def test_the_effect_is_told_in_values(
    after: tuple[AlertState, ...], helped: bool, said: str
) -> None:
    watched = watch(PLAN, [ALERT], settle_seconds=10.0)
    assert watched is not None
    assert watched.due_at == 110.0
    found = effect(watched, after, 110.0)
    assert (found.helped, found.summary) == (helped, f"10 s after set_level 1: {said}")


def test_dry_runs_and_what_no_alert_asked_for_have_no_effect_to_look_at() -> None:
    assert watch(replace(PLAN, dry_run=True), [ALERT], settle_seconds=10.0) is None
    assert watch(replace(PLAN, cause="cleared"), [ALERT], settle_seconds=10.0) is None
