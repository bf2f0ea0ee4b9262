from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.quality.divergence import Divergence, DivergenceRefusal, divergence

LOGPROBS = st.lists(st.lists(st.floats(-50, 0), min_size=1, max_size=8), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("reference", "quantized", "expected"),
    [
        ([[-1.0]], [[-1.5]], Divergence(0.5, tokens=1, prompts=1)),
        ([[-1.5]], [[-1.0]], Divergence(0.5, tokens=1, prompts=1)),
        ([[-1.0, -2.0]], [[-1.25, -1.0]], Divergence(0.625, tokens=2, prompts=1)),
        # each token weighs the same: (0.5 + 0 + 0 + 1) / 4, not the mean of 0.5 and 1/3
        ([[-1.0], [-1.0, -2.0, -3.0]], [[-1.5], [-1.0, -2.0, -4.0]], Divergence(0.375, 4, 2)),
        # a prompt of one token has no log-probability and adds nothing
        ([[], [-2.0]], [[], [-4.0]], Divergence(2.0, tokens=1, prompts=2)),
    ],
)
def test_it_is_the_mean_absolute_difference_over_all_tokens(
    reference: list[list[float]], quantized: list[list[float]], expected: Divergence
) -> None:
    assert divergence(reference, quantized) == expected


@pytest.mark.parametrize(
    ("reference", "quantized", "expected"),
    [
        ([], [], DivergenceRefusal.NO_TOKENS),
        ([[]], [[]], DivergenceRefusal.NO_TOKENS),
        ([[-1.0]], [[-1.0], [-2.0]], DivergenceRefusal.PROMPT_COUNT),
        ([[-1.0, -2.0]], [[-1.0]], DivergenceRefusal.TOKEN_COUNT),
        # the same number of tokens in all, split otherwise
        ([[-1.0, -2.0], [-3.0]], [[-1.0], [-2.0, -3.0]], DivergenceRefusal.TOKEN_COUNT),
        ([[-1.0]], [[math.nan]], DivergenceRefusal.NOT_FINITE),
        ([[-math.inf]], [[-1.0]], DivergenceRefusal.NOT_FINITE),
    ],
)
def test_what_cannot_be_compared_is_refused(
    reference: list[list[float]], quantized: list[list[float]], expected: DivergenceRefusal
) -> None:
    assert divergence(reference, quantized) is expected


@given(LOGPROBS)
def test_a_model_does_not_diverge_from_itself(logprobs: list[list[float]]) -> None:
    result = divergence(logprobs, logprobs)
    assert isinstance(result, Divergence)
    assert result.mean_abs_delta_logp == 0.0


@given(LOGPROBS, st.floats(0, 10))
def test_a_constant_shift_is_the_divergence_whichever_side_it_is_on(
    logprobs: list[list[float]], shift: float
) -> None:
    shifted = [[value - shift for value in values] for values in logprobs]
    there, back = divergence(logprobs, shifted), divergence(shifted, logprobs)
    assert there == back
    assert isinstance(there, Divergence)
    assert there.mean_abs_delta_logp == pytest.approx(shift, abs=1e-9)
