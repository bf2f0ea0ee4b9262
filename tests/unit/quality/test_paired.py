from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.quality.paired import (
    Allowed,
    Verdict,
    compared,
    loss_bound,
    loss_of,
    mcnemar,
    wilson,
)

Z = 1.6448536269514722


@pytest.mark.parametrize(
    ("right", "asked", "interval"),
    [
        # R. G. Newcombe, "Two-sided confidence intervals for the single proportion", 1998, table I
        (81, 263, (0.2553, 0.3662)),
        (15, 148, (0.0624, 0.1605)),
        (0, 20, (0.0, 0.1611)),
        (1, 29, (0.0061, 0.1718)),
        (0, 0, (0.0, 1.0)),
    ],
)
def test_wilsons_interval_is_the_published_one(
    right: int, asked: int, interval: tuple[float, float]
) -> None:
    assert wilson(right, asked) == pytest.approx(interval, abs=5e-5)


@pytest.mark.parametrize(
    ("worse", "better", "p_value"),
    [(0, 0, 1.0), (5, 5, 1.0), (10, 2, 158 / 4096), (2, 10, 158 / 4096), (8, 0, 2 / 256)],
)
def test_mcnemars_p_value_is_that_of_the_binomial_distribution(
    worse: int, better: int, p_value: float
) -> None:
    assert mcnemar(worse, better) == pytest.approx(p_value)


def test_many_pairs_are_told_by_the_normal_distribution() -> None:
    assert mcnemar(560, 440) == pytest.approx(1.7e-4, rel=0.05)
    assert mcnemar(510, 490) == pytest.approx(mcnemar(509, 490), abs=0.03)


@given(st.integers(1, 400), st.data())
def test_the_bound_is_where_the_likeliest_rates_under_it_are_as_far_off_as_said(
    questions: int, data: st.DataObject
) -> None:
    worse = data.draw(st.integers(0, questions))
    better = data.draw(st.integers(0, questions - worse))
    bound = loss_bound(worse, better, questions, z=Z)
    lower = loss_bound(worse, better, questions, z=-Z)
    assert -1 <= lower <= (worse - better) / questions <= bound <= 1
    # the roles of the two exchanged, the loss has the other sign
    assert loss_bound(better, worse, questions, z=Z) == pytest.approx(-lower, abs=1e-9)


def test_the_bound_fits_a_search_for_the_likeliest_rates() -> None:
    worse, better, questions = 12, 2, 50
    bound = loss_bound(worse, better, questions, z=Z)
    rates = np.linspace(1e-9, (1 - bound) / 2, 400_001)
    likelihood = (
        better * np.log(rates)
        + worse * np.log(rates + bound)
        + (questions - worse - better) * np.log(1 - 2 * rates - bound + 1e-15)
    )
    rate = float(rates[np.argmax(likelihood)])
    deviation = math.sqrt(questions * (2 * rate + bound * (1 - bound)))
    assert (worse - better - questions * bound) / deviation == pytest.approx(-Z, abs=1e-3)


@pytest.mark.parametrize(
    ("questions", "worse", "better"), [(133, 0, 0), (500, 3, 0), (500, 6, 2), (2000, 60, 42)]
)
def test_a_small_loss_that_is_sure_is_recommended(questions: int, worse: int, better: int) -> None:
    loss = loss_of(worse, better, questions, Allowed())
    assert loss.verdict is Verdict.RECOMMENDED
    assert loss.points <= 0.9
    assert loss.upper_points <= 2
    assert loss.more_questions == 0


def test_without_a_difference_too_few_questions_decide_nothing() -> None:
    loss = loss_of(0, 0, 132, Allowed())
    assert (loss.verdict, loss.more_questions) == (Verdict.UNDECIDED, 1)
    assert loss_of(0, 0, 0, Allowed()).verdict is Verdict.UNDECIDED


def test_a_loss_beyond_doubt_is_not_undecided() -> None:
    assert loss_of(30, 0, 500, Allowed()).verdict is Verdict.TOO_LOSSY


@pytest.mark.parametrize(("questions", "worse", "better"), [(200, 3, 2), (500, 10, 4), (300, 9, 2)])
def test_as_many_more_as_said_decide_it_and_one_fewer_does_not(
    questions: int, worse: int, better: int
) -> None:
    loss = loss_of(worse, better, questions, Allowed())
    assert loss.verdict is Verdict.UNDECIDED

    def at(total: int) -> tuple[float, float]:
        scale = total / questions
        bounds = [loss_bound(worse * scale, better * scale, total, z=z) for z in (Z, -Z)]
        return 100 * bounds[0], 100 * bounds[1]

    upper, lower = at(questions + loss.more_questions)
    assert upper <= 2 or lower > 0.9
    upper, lower = at(questions + loss.more_questions - 1)
    assert upper > 2 if loss.points <= 0.9 else lower <= 0.9


def test_only_questions_that_both_answered_count() -> None:
    reference = {"a": True, "b": True, "c": False, "d": True}
    candidate = {"a": False, "b": True, "c": True, "e": False}
    loss = compared(reference, candidate)
    assert (loss.questions, loss.worse, loss.better) == (3, 1, 1)


@pytest.mark.parametrize(
    ("questions", "worse", "better"), [(500, 0.02, 0.01), (500, 0.03, 0.03), (100, 0.1, 0.05)]
)
def test_the_bound_holds_the_true_loss_about_as_often_as_it_says(
    questions: int, worse: float, better: float
) -> None:
    draw = np.random.default_rng(20260102)
    answers = draw.multinomial(questions, [worse, better, 1 - worse - better], size=1000)
    true = worse - better
    held = np.mean([loss_bound(int(b), int(c), questions, z=Z) >= true for b, c, _ in answers])
    assert 0.93 <= held <= 0.97


def test_wilsons_interval_holds_the_true_share_about_as_often_as_it_says() -> None:
    draw = np.random.default_rng(20260103)
    intervals = [wilson(int(right), 120) for right in draw.binomial(120, 0.8, size=2000)]
    assert 0.93 <= np.mean([low <= 0.8 <= high for low, high in intervals]) <= 0.97


def test_a_profile_that_loses_more_than_allowed_is_seldom_recommended() -> None:
    draw = np.random.default_rng(20260104)
    answers = draw.multinomial(500, [0.03, 0.005, 0.965], size=500)  # loses 2.5 points
    verdicts = [loss_of(int(b), int(c), 500, Allowed()).verdict for b, c, _ in answers]
    assert verdicts.count(Verdict.RECOMMENDED) / 500 <= 0.05


def test_a_copy_is_never_called_lossy_and_mostly_recommended() -> None:
    draw = np.random.default_rng(20260105)
    answers = draw.multinomial(1000, [0.004, 0.004, 0.992], size=500)  # noise, both ways
    verdicts = [loss_of(int(b), int(c), 1000, Allowed()).verdict for b, c, _ in answers]
    assert verdicts.count(Verdict.TOO_LOSSY) / 500 <= 0.02
    assert verdicts.count(Verdict.RECOMMENDED) / 500 >= 0.9
