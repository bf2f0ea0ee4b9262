from __future__ import annotations

from dataclasses import replace

import numpy as np

from ds4watch.quality.paired import Allowed, Verdict
from ds4watch.quality.table import Measured, accuracy, advise, classes_of, unbeaten


def scripted(profile: str, *, cost: float, losses: dict[str, float], seed: int = 1) -> Measured:
    """A profile that answers as the reference does, but for a share of wrong answers by class."""
    draw = np.random.default_rng(seed)
    answers = {
        name: {f"{name}-{it}": bool(draw.random() >= share) for it in range(1000)}
        for name, share in losses.items()
    }
    return Measured(profile, answers, cost_per_million=cost)


NONE = {"mathematics": 0.0, "extraction": 0.0}
FULL = scripted("full", cost=4.0, losses=NONE)
EIGHT = scripted("eight", cost=2.0, losses={"mathematics": 0.002, "extraction": 0.002})
FOUR = scripted("four", cost=1.0, losses={"mathematics": 0.06, "extraction": 0.003})


def test_the_cheapest_within_the_loss_is_advised_by_class() -> None:
    advice = {it.work_class: it for it in advise((FULL, EIGHT, FOUR), "full")}
    assert advice["mathematics"].profile == "eight"
    assert advice["extraction"].profile == "four"
    assert advice["mathematics"].losses["four"].verdict is Verdict.TOO_LOSSY


def test_without_certainty_the_reference_stays_and_it_is_said_how_many_more_decide() -> None:
    few = {"mathematics": {f"mathematics-{it}": True for it in range(50)}}
    row = replace(EIGHT, answers=few)
    (extraction, mathematics) = advise((FULL, row), "full")
    assert (extraction.profile, mathematics.profile) == ("full", "full")
    loss = mathematics.losses["eight"]
    assert (loss.verdict, loss.more_questions) == (Verdict.UNDECIDED, 83)
    assert extraction.losses["eight"].questions == 0


def test_a_dearer_profile_is_not_advised_nor_one_whose_cost_is_not_known() -> None:
    dear, unknown = replace(EIGHT, cost_per_million=5.0), replace(EIGHT, cost_per_million=None)
    for row in (dear, unknown):
        assert {it.profile for it in advise((FULL, row), "full")} == {"full"}


def test_what_may_be_lost_can_be_said() -> None:
    generous = Allowed(loss_points=10, bound_points=15)
    advice = advise((FULL, EIGHT, FOUR), "full", generous)
    assert {it.profile for it in advice} == {"four"}


def test_without_the_reference_nothing_is_advised() -> None:
    assert advise((EIGHT, FOUR), "full") == ()


def test_only_profiles_that_another_equals_in_all_and_beats_in_something_are_beaten() -> None:
    worse = replace(FOUR, profile="worse", cost_per_million=3.0)
    assert unbeaten((FULL, EIGHT, FOUR, worse)) == {"full", "eight", "four"}
    assert unbeaten((FULL, replace(FULL, profile="twin"))) == {"full", "twin"}
    fast = replace(FULL, profile="fast", tokens_per_second=9.0)
    slow = replace(FULL, tokens_per_second=8.0)
    assert unbeaten((slow, fast)) == {"fast"}


def test_one_that_was_asked_nothing_beats_nobody_and_is_not_marked() -> None:
    unasked = Measured("unasked", {}, cost_per_million=0.1)
    assert unbeaten((FULL, unasked)) == {"full"}
    assert unbeaten((Measured("a"), Measured("b"))) == set()


def test_accuracy_is_told_by_class_and_in_all() -> None:
    row = Measured("p", {"a": {"1": True, "2": False}, "b": {"3": True}, "c": {}})
    assert classes_of((row,)) == ("a", "b")
    assert (accuracy(row).right, accuracy(row).asked) == (2, 3)
    assert accuracy(row, "a").ratio == 0.5
    assert accuracy(row, "c").ratio is None
    low, high = accuracy(row, "a").interval
    assert 0 < low < 0.5 < high < 1
