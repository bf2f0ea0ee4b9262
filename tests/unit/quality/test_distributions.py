from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.quality.distributions import Distance, Metric, Position, distance, kl_lumped
from ds4watch.quality.divergence import DivergenceRefusal

HALF, QUARTER, EIGHTH = math.log(0.5), math.log(0.25), math.log(0.125)


def position(actual: float, **top: float) -> Position:
    return Position(actual, {name: math.log(value) for name, value in top.items()})


def value(found: Distance | DivergenceRefusal, metric: Metric) -> float:
    assert isinstance(found, Distance), found
    return found.estimates[metric].value


def test_a_hand_made_case_is_exact() -> None:
    # one position: p = (1/2, 1/4, rest 1/4), q = (1/4, 1/2, rest 1/4)
    mine, theirs = position(HALF, a=0.5, b=0.25), position(QUARTER, a=0.25, b=0.5)
    found = distance([[mine]], [[theirs]], seed=1)
    assert value(found, Metric.MEAN_ABS_DELTA_LOGP) == pytest.approx(math.log(2))
    assert value(found, Metric.MEAN_KL) == pytest.approx(0.25 * math.log(2))
    assert value(found, Metric.TAIL_MASS) == pytest.approx(0.25)
    assert value(found, Metric.TOP1_AGREEMENT) == 0.0
    assert value(found, Metric.PERPLEXITY) == pytest.approx(2.0)


def test_what_only_one_names_counts_among_the_others() -> None:
    mine = {"a": HALF, "b": QUARTER, "only mine": EIGHTH}
    theirs = {"a": QUARTER, "b": QUARTER, "only theirs": HALF}
    kl, tail = kl_lumped(mine, theirs)
    assert tail == pytest.approx(0.25)
    assert kl == pytest.approx(0.5 * math.log(2) + 0.25 * math.log(0.25 / 0.5))


def test_each_token_weighs_the_same_whichever_prompt_it_stands_in() -> None:
    long = [position(HALF, a=0.5)] * 3, [position(QUARTER, a=0.5)] * 3
    short = [position(HALF, a=0.5)], [position(HALF, a=0.5)]
    found = distance([long[0], short[0]], [long[1], short[1]], seed=1)
    assert value(found, Metric.MEAN_ABS_DELTA_LOGP) == pytest.approx(0.75 * math.log(2))
    assert isinstance(found, Distance)
    assert (found.tokens, found.prompts) == (4, 2)


def test_a_copy_differs_in_nothing_and_is_sure_of_it() -> None:
    rows = [[position(HALF, a=0.4, b=0.4), position(QUARTER, c=0.7, a=0.1)]] * 5
    found = distance(rows, rows, seed=3)
    assert isinstance(found, Distance)
    for metric, estimate in found.estimates.items():
        wanted = 1.0 if metric in (Metric.TOP1_AGREEMENT, Metric.PERPLEXITY) else 0.0
        if metric is not Metric.TAIL_MASS:
            assert (estimate.low, estimate.value, estimate.high) == (wanted,) * 3


@pytest.mark.parametrize(
    ("reference", "quantized", "refusal"),
    [
        ([[]], [], DivergenceRefusal.PROMPT_COUNT),
        ([[position(HALF, a=0.5)]], [[]], DivergenceRefusal.TOKEN_COUNT),
        ([[]], [[]], DivergenceRefusal.NO_TOKENS),
        ([[position(-math.inf, a=0.5)]], [[position(HALF, a=0.5)]], DivergenceRefusal.NOT_FINITE),
        ([[position(HALF)]], [[position(HALF)]], DivergenceRefusal.NOT_FINITE),
    ],
)
def test_what_cannot_be_compared_is_refused(
    reference: list[list[Position]], quantized: list[list[Position]], refusal: DivergenceRefusal
) -> None:
    assert distance(reference, quantized, seed=1) is refusal


weights = st.lists(st.floats(0.001, 1.0), min_size=3, max_size=8)


@given(mine=weights, theirs=weights, kept=st.integers(1, 8))
def test_lumping_never_says_more_than_the_true_divergence(
    mine: list[float], theirs: list[float], kept: int
) -> None:
    size = min(len(mine), len(theirs))
    p, q = (np.array(it[:size]) / sum(it[:size]) for it in (mine, theirs))
    true = float((p * np.log(p / q)).sum())
    top = [{str(it): float(np.log(row[it])) for it in range(min(kept, size))} for row in (p, q)]
    kl, tail = kl_lumped(*top)
    assert 0 <= kl <= true + 1e-6
    assert tail == pytest.approx(float(p[kept:].sum()), abs=1e-9)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    draw = np.random.default_rng(20260101)
    hits = 0
    for number in range(200):
        shifts = draw.exponential(0.1, size=40)
        mine = [[Position(-1.0, {"a": -0.1})] * 5 for _ in shifts]
        theirs = [[Position(-1.0 - shift, {"a": -0.1})] * 5 for shift in shifts]
        found = distance(mine, theirs, seed=number)
        assert isinstance(found, Distance)
        estimate = found.estimates[Metric.MEAN_ABS_DELTA_LOGP]
        hits += estimate.low <= 0.1 <= estimate.high
    assert 0.88 <= hits / 200 <= 0.98


def test_the_same_seed_gives_the_same_interval() -> None:
    mine = [[position(HALF, a=0.5)], [position(QUARTER, a=0.5)], [position(HALF, a=0.6)]]
    theirs = [[position(QUARTER, a=0.5)], [position(QUARTER, a=0.5)], [position(EIGHTH, a=0.5)]]
    assert distance(mine, theirs, seed=5) == distance(mine, theirs, seed=5)
