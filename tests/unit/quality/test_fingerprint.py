from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ds4watch.quality.fingerprint import (
    Fingerprint,
    Step,
    as_document,
    checksum,
    from_document,
    unlike,
)


def answer(seed: int, *, noise: float = 0.0, lead: float = 1.0) -> tuple[Step, ...]:
    """Eight steps; of each the first choice leads by `lead` nats."""
    draw = np.random.default_rng(seed)
    steps = []
    for place in range(8):
        first = -0.5 + noise * draw.standard_normal()
        second = -0.5 - lead + noise * draw.standard_normal()
        steps.append(Step(f"t{place}", {f"t{place}": first, f"u{place}": second}))
    return tuple(steps)


BEFORE: Fingerprint = (answer(1), answer(2))


def test_the_same_model_is_the_same_also_with_the_noise_of_kernels() -> None:
    assert unlike(BEFORE, BEFORE) == ""
    for seed in range(50):
        assert unlike(BEFORE, (answer(seed, noise=0.02), answer(seed + 1, noise=0.02))) == ""


def test_a_turn_at_a_near_tie_is_noise_and_what_follows_is_not_compared() -> None:
    old = answer(1, lead=0.1)
    turned = (replace(old[0], token="u0"), *(Step("other", {"other": -9.0}) for _ in range(7)))
    assert unlike((old,), (turned,)) == ""


def test_another_first_choice_that_is_no_near_tie_is_another_model() -> None:
    turned = (replace(BEFORE[0][0], token="u0"), *BEFORE[0][1:])
    told = unlike(BEFORE, (turned, BEFORE[1]))
    assert told == "prompt 1: token 1 is 'u0', it was 't0' by far"


def test_a_shift_of_all_log_probabilities_is_told_though_the_words_are_the_same() -> None:
    shifted = tuple(
        tuple(replace(step, top={k: v - 0.1 for k, v in step.top.items()}) for step in prompt)
        for prompt in BEFORE
    )
    assert unlike(BEFORE, shifted) == (
        "log-probabilities of the same tokens differ by 0.100 nats on average"
    )


def test_one_log_probability_that_jumps_is_told() -> None:
    jumped = replace(BEFORE[1][3], top=dict(BEFORE[1][3].top) | {"t3": -2.0})
    told = unlike(BEFORE, (BEFORE[0], (*BEFORE[1][:3], jumped, *BEFORE[1][4:])))
    assert told == "prompt 2: token 4: a log-probability moved by 1.50 nats"


def test_an_answer_that_ends_early_is_told() -> None:
    assert "has 3 tokens, it had 8" in unlike(BEFORE, (BEFORE[0][:3], BEFORE[1]))


def test_other_prompts_than_before_are_not_compared() -> None:
    assert unlike(BEFORE, (answer(9, lead=-3.0),)) == ""


def test_it_is_kept_as_json_and_the_same_values_have_the_same_checksum() -> None:
    kept = json.loads(json.dumps(as_document(BEFORE)))
    assert from_document(kept) == BEFORE
    noisy = (answer(1, noise=1e-6), answer(2, noise=1e-6))
    assert checksum(BEFORE) == checksum(noisy) != checksum((answer(1), answer(2, lead=2.0)))


@pytest.mark.parametrize("document", [None, 3, [[["t"]]], [[["t", {"a": "x"}]]], [[["t", 3]]]])
def test_what_is_no_fingerprint_is_not_taken_for_one(document: object) -> None:
    assert from_document(document) is None
