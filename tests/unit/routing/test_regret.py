from __future__ import annotations

import numpy as np
import pytest

from ds4watch.routing.regret import Served, prefill_seconds_per_token, regret_seconds


def served(
    worker: str = "w", *, wait: float = 0.0, computed: int = 100, cached: int = 0, tokens: int = 10
) -> Served:
    """A worker that computes 1,000 tokens of prompt a second and generates 100."""
    first = wait + computed / 1000
    return Served(worker, 0.0, first, tokens / 100, computed, computed + cached, tokens)


def test_what_a_token_of_prompt_takes_is_found_though_some_stood_in_a_queue() -> None:
    draw = np.random.default_rng(7)
    requests = [
        served(computed=int(size), wait=float(wait))
        for size, wait in zip(
            draw.integers(10, 4000, 200), draw.exponential(0.05, 200), strict=True
        )
    ]
    assert prefill_seconds_per_token(requests) == pytest.approx(0.001, rel=0.1)


def test_too_few_or_equal_prompts_say_nothing_of_it() -> None:
    assert prefill_seconds_per_token([]) == 0
    assert prefill_seconds_per_token([served(), served(wait=3.0)]) == 0


def test_who_stood_in_a_queue_beside_an_idle_worker_regrets_the_wait() -> None:
    others = {"idle": [served("idle")], "busy": [served("busy", wait=5.0)]}
    assert regret_seconds(served(wait=2.0), others, per_token=0.001) == pytest.approx(2.0)


def test_the_best_choice_is_not_regretted() -> None:
    others = {"busy": [served("busy", wait=1.0)]}
    assert regret_seconds(served(), others, per_token=0.001) == 0


def test_a_cache_hit_makes_up_for_a_wait_that_is_shorter_than_the_prefill_saved() -> None:
    mine = served(wait=0.5, computed=100, cached=2000)
    assert regret_seconds(mine, {"idle": [served("idle")]}, per_token=0.001) == 0
    late = served(wait=3.0, computed=100, cached=2000)
    assert regret_seconds(late, {"idle": [served("idle")]}, per_token=0.001) == pytest.approx(1.0)


def test_a_worker_that_decodes_slowly_is_regretted_by_the_tokens() -> None:
    slow = Served("slow", 0.0, 0.1, 4.0, 100, 100, 100)
    assert regret_seconds(slow, {"w": [served()]}, per_token=0.001) == pytest.approx(3.0)


def test_without_another_worker_to_look_at_nothing_is_known() -> None:
    assert regret_seconds(served(), {}, per_token=0.001) is None
    assert regret_seconds(served(), {"new": []}, per_token=0.001) is None
