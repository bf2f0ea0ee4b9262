"""What a hold would hold back and a lift would let go: as the next tick decides, done by nobody."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.action import ActionStatus, Hold
from ds4watch.policy.deciding import decide_actions
from ds4watch.policy.rehearsal import Scene, due, hold_told, lift_told
from tests.unit.policy.worlds import NOW, POLICY, alert, past, policy, standing

LEVELS = POLICY + "  - {match: {alertname: Queue}, level: 1}\n"


def hold(target: str) -> Hold:
    return Hold(target, NOW + 60, "bob", "hands off", NOW)


def scene(*names: str, holds: tuple[Hold, ...] = (), **changes: Any) -> Scene:
    return Scene(policy(LEVELS), [alert(it) for it in names], standing(holds=holds, **changes), {})


@pytest.mark.parametrize(
    ("names", "target", "told"),
    [
        (("Slow",), "*", "holds back: again on w0"),
        (("Slow",), "default", "holds back: again on w0"),
        (("Slow",), "w0", "holds back: again on w0"),
        (("Slow",), "w1", "nothing is about to be done that it holds back"),
        (("Queue", "Slow"), "*", "holds back: level 1 (short) of default; again on w0"),
        (("Queue", "Slow"), "w0", "holds back: again on w0"),
        ((), "*", "nothing is about to be done that it holds back"),
        ((), "defualt", "there is no pool and no worker defualt: it holds nothing now"),
    ],
)
def test_a_hold_tells_what_it_holds_back(names: tuple[str, ...], target: str, told: str) -> None:
    assert hold_told(scene(*names), hold(target)) == told
    held = scene(*names, holds=(hold(target),))
    let_go = told.replace("holds back", "lets go")
    assert lift_told(held, target) == (
        let_go if "holds back:" in told else "nothing waits for that"
    )


def test_what_waits_for_approval_or_its_turn_is_told_with_its_id() -> None:
    waits = past(status=ActionStatus.WAITING)
    told = hold_told(scene(past=(waits,)), hold("default"))
    assert told == "holds back: exclude_worker on w0 (a1), which is waiting"
    assert lift_told(scene(past=(waits,), holds=(hold("w0"),)), "w0").startswith("lets go: exclude")


def test_another_hold_on_the_same_goes_on_to_hold() -> None:
    both = scene("Slow", holds=(hold("*"), hold("w0")))
    assert lift_told(both, "w0") == "nothing waits for that"


@given(
    st.lists(st.sampled_from(["Slow", "Bad", "Full", "Queue"]), unique=True),
    st.sampled_from(["*", "default", "w0", "w1", "x"]),
)
def test_a_rehearsal_says_what_is_done_once_it_is_so(names: list[str], target: str) -> None:
    free, held = scene(*names), scene(*names, holds=(hold(target),))
    assert due(held).keys() <= due(free).keys()
    gone = due(free).keys() - due(held).keys()
    assert bool(gone) == hold_told(free, hold(target)).startswith("holds back")
    begun = {
        f"{it.kind}:{it.target}"
        for it in decide_actions(free.policy, free.alerts, free.standing).plans
    }
    assert begun <= due(free).keys()
