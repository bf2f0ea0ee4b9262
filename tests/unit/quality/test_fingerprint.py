from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ds4watch.quality.fingerprint import (
    Fingerprint,
    Noise,
    Step,
    Unlike,
    as_document,
    checksum,
    distance,
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
    assert unlike(BEFORE, BEFORE) is None
    for seed in range(50):
        assert unlike(BEFORE, (answer(seed, noise=0.02), answer(seed + 1, noise=0.02))) is None


def test_a_turn_at_a_near_tie_is_noise_and_what_follows_is_not_compared() -> None:
    old = answer(1, lead=0.1)
    turned = (replace(old[0], token="u0"), *(Step("other", {"other": -9.0}) for _ in range(7)))
    assert unlike((old,), (turned,)) is None


def test_another_first_choice_that_is_no_near_tie_is_another_model() -> None:
    turned = (replace(BEFORE[0][0], token="u0"), *BEFORE[0][1:])
    told = "prompt 1: token 1 is 'u0', it was 't0' by 1.00 nats"
    assert unlike(BEFORE, (turned, BEFORE[1])) == Unlike(told, is_certain=False)
    far = (answer(1, lead=2.0), BEFORE[1])
    certain = unlike(far, (turned, BEFORE[1]))
    assert certain is not None
    assert certain.is_certain


def test_a_shift_of_all_log_probabilities_is_told_though_the_words_are_the_same() -> None:
    shifted = tuple(
        tuple(replace(step, top={k: v - 0.1 for k, v in step.top.items()}) for step in prompt)
        for prompt in BEFORE
    )
    told = "log-probabilities of the same tokens differ by 0.100 nats on average"
    assert unlike(BEFORE, shifted) == Unlike(told, is_certain=False)


def test_one_log_probability_that_jumps_is_told() -> None:
    jumped = replace(BEFORE[1][3], top=dict(BEFORE[1][3].top) | {"t3": -2.0})
    told = unlike(BEFORE, (BEFORE[0], (*BEFORE[1][:3], jumped, *BEFORE[1][4:])))
    assert told == Unlike(
        "prompt 2: token 4: a log-probability moved by 1.50 nats", is_certain=True
    )


def test_an_answer_that_ends_early_is_told() -> None:
    told = Unlike("prompt 1: the answer has 3 tokens, it had 8", is_certain=False)
    assert unlike(BEFORE, (BEFORE[0][:3], BEFORE[1])) == told


def test_a_first_choice_from_beyond_those_told_is_noise_where_all_are_about_as_likely() -> None:
    flat = Step("a", {"a": -6.00, "b": -6.01, "c": -6.02})
    steep = Step("a", {"a": -0.1, "b": -3.0, "c": -3.1})
    other = Step("z", {"z": -5.99, "a": -6.00, "b": -6.01})
    assert unlike(((flat,),), ((other,),)) is None
    told = unlike(((steep,),), ((other,),))
    assert told is not None
    assert told.is_certain


def test_what_is_next_to_impossible_may_move_by_far() -> None:
    old = Step("a", {"a": -0.001, "b": -9.0})
    new = Step("a", {"a": -0.001, "b": -11.0})
    assert unlike(((old,),), ((new,),)) is None


def test_a_certain_difference_is_told_before_a_doubt() -> None:
    shifted = tuple(replace(it, top={k: v - 3 for k, v in it.top.items()}) for it in BEFORE[1])
    doubtful = (replace(BEFORE[0][0], token="u0"), *BEFORE[0][1:])
    told = unlike(BEFORE, (doubtful, shifted))
    assert told is not None
    assert told.is_certain
    assert told.told.startswith("prompt 2")


def test_other_prompts_than_before_are_not_compared() -> None:
    assert unlike(BEFORE, (answer(9, lead=-3.0),)) is None


def test_it_is_kept_as_json_and_the_same_values_have_the_same_checksum() -> None:
    kept = json.loads(json.dumps(as_document(BEFORE)))
    assert from_document(kept) == BEFORE
    noisy = (answer(1, noise=1e-6), answer(2, noise=1e-6))
    assert checksum(BEFORE) == checksum(noisy) != checksum((answer(1), answer(2, lead=2.0)))


@pytest.mark.parametrize("document", [None, 3, [[["t"]]], [[["t", {"a": "x"}]]], [[["t", 3]]]])
def test_what_is_no_fingerprint_is_not_taken_for_one(document: object) -> None:
    assert from_document(document) is None


def shifted(nats: float) -> Fingerprint:
    """Return what was given before with all log-probabilities elsewhere."""
    return tuple(
        tuple(replace(step, top={k: v - nats for k, v in step.top.items()}) for step in prompt)
        for prompt in BEFORE
    )


def test_the_distance_is_the_mean_over_the_likely_tokens_that_both_tell() -> None:
    assert distance(BEFORE, BEFORE) == 0
    assert distance(BEFORE, shifted(0.03)) == pytest.approx(0.03)
    old = Step("a", {"a": -0.1, "b": -3.0, "c": -9.0, "d": -2.0})
    new = Step("a", {"a": -0.3, "b": -3.4, "c": -12.0, "e": -2.0})
    assert distance(((old,) * 2,), ((new,) * 2,)) == pytest.approx(0.3)


def test_where_answers_part_still_counts_and_what_follows_does_not() -> None:
    old = answer(1, lead=0.1)
    moved = {k: v - 0.02 for k, v in old[2].top.items()}
    turned = (*old[:2], Step("u2", moved), *(Step("x", {"t3": -1.0, "u3": -1.5}) for _ in range(5)))
    assert distance((old,), (turned,)) == pytest.approx(0.04 / 6)


def test_too_little_to_compare_is_no_distance() -> None:
    assert distance((answer(1)[:1],), (answer(1)[:1],)) is None
    assert distance(((),), ((),)) is None


def test_small_damage_is_told_once_it_is_known_what_good_starts_differ_by() -> None:
    small = shifted(0.01)
    noise = Noise(nats=0.0003)
    for starts in range(3):
        assert noise == Noise(starts, 0.0003)
        assert noise.bound_nats is None
        assert unlike(BEFORE, small, noise) is None
        noise = noise.learnt(0.0002, None)
    assert noise.bound_nats == pytest.approx(0.002)
    told = (
        "log-probabilities differ by 0.0100 nats on average, those of 3 good starts by 0.0003 "
        "at most"
    )
    assert unlike(BEFORE, small, noise) == Unlike(told, is_certain=False)
    assert unlike(BEFORE, shifted(0.001), noise) is None


def test_of_starts_that_differ_more_more_is_allowed_but_never_more_than_before() -> None:
    noise = Noise(3, 0.01)
    assert unlike(BEFORE, shifted(0.035), noise) is None
    assert unlike(BEFORE, shifted(0.045), noise) is not None
    assert unlike(BEFORE, shifted(0.06), Noise(3, 0.04)) is not None


def test_far_beyond_what_good_starts_differ_by_is_certain() -> None:
    far = shifted(0.1)
    for noise, is_certain in ((None, False), (Noise(3, 0.0003), True), (Noise(3, 0.02), False)):
        found = unlike(BEFORE, far, noise)
        assert found is not None
        assert found.is_certain is is_certain


def test_after_eight_starts_nothing_is_learnt_so_that_no_drift_widens_the_bound_for_ever() -> None:
    noise = Noise()
    for _ in range(8):
        noise = noise.learnt(0.001)
    assert noise.learnt(0.04) == noise == Noise(8, 0.001)


@pytest.mark.parametrize("sigma", [1e-6, 0.003, 0.02])
def test_a_machine_that_repeats_itself_only_so_well_is_not_told_for_it(sigma: float) -> None:
    noise = Noise()
    for seed in range(0, 400, 2):
        now = (answer(seed, noise=sigma), answer(seed + 1, noise=sigma))
        assert unlike(BEFORE, now, noise) is None
        noise = noise.learnt(distance(BEFORE, now))
