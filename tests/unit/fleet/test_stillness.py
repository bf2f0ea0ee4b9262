"""Requests that stand still in an engine which answers canaries (case 4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.fleet.stillness import (
    Stillness,
    canary_ended,
    canary_sent,
    looked,
    still_seconds,
)
from ds4watch.model.worker import WorkerLoad

IDLE = WorkerLoad(running=0.0, waiting=0.0, kv_usage_ratio=0.0)
RUNS = WorkerLoad(running=1.0, waiting=0.0, kv_usage_ratio=0.0)
WAITS = WorkerLoad(running=0.0, waiting=1.0, kv_usage_ratio=0.0)


def asked(still: Stillness) -> Stillness:
    """A canary that is answered between two looks."""
    return canary_ended(canary_sent(still), answered=True)


@pytest.mark.parametrize("load", [RUNS, WAITS])
def test_case_4_the_verdict_does_not_depend_on_what_kind_of_request_it_is(load: WorkerLoad) -> None:
    still = Stillness()
    for at in range(70):
        still = looked(still, load, float(at), moved=False)
    assert still_seconds(still, 70.0) == 70.0


def test_case_4_canaries_that_are_answered_do_not_hide_a_request_that_stands_still() -> None:
    still = Stillness()
    for at in range(1, 100):
        still = asked(still) if at % 10 == 0 else still
        still = looked(still, RUNS, float(at), moved=at % 10 in (0, 1))
    assert still_seconds(still, 99.0) == pytest.approx(97.0, abs=2.0)


def test_case_2_a_long_prefill_with_canaries_that_wait_for_it_is_not_still() -> None:
    still, longest = Stillness(), 0.0
    for at in range(120):
        if at % 10 == 0:
            still = canary_sent(canary_ended(still, answered=False))
        still = looked(still, RUNS, float(at), moved=at % 3 == 0)
        longest = max(longest, still_seconds(still, float(at)))
    assert longest < 15.0


def test_an_idle_worker_that_is_asked_canaries_is_not_still() -> None:
    still = Stillness()
    for at in range(100):
        is_asked = at % 10 == 0
        still = asked(still) if is_asked else still
        still = looked(still, RUNS if is_asked else IDLE, float(at), moved=is_asked)
        assert still_seconds(still, float(at)) == 0.0


def test_a_request_that_moves_ends_it_and_so_does_a_load_that_is_not_known() -> None:
    still = looked(Stillness(), RUNS, 0.0, moved=False)
    assert still_seconds(looked(still, RUNS, 50.0, moved=True), 50.0) == 0.0
    assert still_seconds(looked(still, WorkerLoad(), 50.0, moved=False), 50.0) == 0.0


def test_a_canary_that_waits_in_an_idle_engine_is_no_request_that_stands_still() -> None:
    still = canary_sent(Stillness())
    for at in range(30):
        still = looked(still, WAITS, float(at), moved=False)
    assert still_seconds(still, 30.0) == 0.0


@given(st.lists(st.booleans(), max_size=60))
def test_without_canaries_it_is_the_time_since_the_engine_last_moved(looks: list[bool]) -> None:
    still, first_flat = Stillness(), None
    for at, moved in enumerate(looks):
        still = looked(still, RUNS, float(at), moved=moved)
        first_flat = None if moved else at if first_flat is None else first_flat
        assert still_seconds(still, float(at)) == (0 if first_flat is None else at - first_flat)
