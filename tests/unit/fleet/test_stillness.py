"""Requests that stand still in an engine which answers canaries (case 4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.fleet.stillness import Stillness, canary_sent, looked, still_seconds
from ds4watch.model.worker import WorkerLoad

IDLE = WorkerLoad(running=0.0, waiting=0.0, kv_usage_ratio=0.0)
RUNS = WorkerLoad(running=1.0, waiting=0.0, kv_usage_ratio=0.0)
WAITS = WorkerLoad(running=0.0, waiting=1.0, kv_usage_ratio=0.0)


@pytest.mark.parametrize("load", [RUNS, WAITS])
def test_case_4_the_verdict_does_not_depend_on_what_kind_of_request_it_is(load: WorkerLoad) -> None:
    still = Stillness()
    for at in range(70):
        still = looked(still, load, float(at), moved=False)
    assert still_seconds(still, 70.0) == 70.0


def test_case_4_canaries_that_are_answered_do_not_hide_a_request_that_stands_still() -> None:
    still = Stillness()
    for at in range(1, 100):
        asked = at % 10 == 0
        still = canary_sent(still) if asked else still
        still = looked(still, RUNS, float(at), moved=at % 10 in (0, 1))
    assert still_seconds(still, 99.0) == pytest.approx(97.0, abs=2.0)


def test_an_idle_worker_that_is_asked_canaries_is_not_still() -> None:
    still = Stillness()
    for at in range(100):
        asked = at % 10 == 0
        still = canary_sent(still) if asked else still
        still = looked(still, RUNS if asked else IDLE, float(at), moved=asked)
        assert still_seconds(still, float(at)) == 0.0


def test_a_request_that_moves_ends_it_and_so_does_a_load_that_is_not_known() -> None:
    still = looked(Stillness(), RUNS, 0.0, moved=False)
    assert still_seconds(looked(still, RUNS, 50.0, moved=True), 50.0) == 0.0
    assert still_seconds(looked(still, WorkerLoad(), 50.0, moved=False), 50.0) == 0.0


@given(st.lists(st.sampled_from(["moved", "flat", "canary"]), max_size=60))
def test_it_is_never_longer_than_the_time_since_the_engine_last_moved(looks: list[str]) -> None:
    still, moved_at = Stillness(), 0.0
    for at, look in enumerate(looks):
        if look == "canary":
            still = canary_sent(still)
        moved_at = float(at) if look == "moved" and not still.doubtful else moved_at
        still = looked(still, RUNS, float(at), moved=look == "moved")
        assert still_seconds(still, float(at)) <= at - moved_at
