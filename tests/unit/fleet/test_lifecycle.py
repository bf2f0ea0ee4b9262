"""The life of one worker, as tables."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.fleet.life import (
    Deed,
    Life,
    LifeLimits,
    Seen,
    Work,
    adopted,
    backoff_seconds,
    could_not_start,
    progressed,
    stall_floor_seconds,
    started,
    still_ready,
)
from ds4watch.fleet.lifecycle import (
    LONGEST_LOAD,
    SILENT_LOAD_SECONDS,
    advance,
    deed,
    served,
)
from ds4watch.model.worker import WorkerPhase

LIMITS = LifeLimits(
    start_timeout_seconds=100.0,
    canary_interval_seconds=10.0,
    backoff_seconds=2.0,
    backoff_max_seconds=60.0,
)
ALIVE = Seen(alive=True)
HEALTHY = Seen(alive=True, healthy=True)
ANSWERED = Seen(alive=True, canary_ok=True)
SILENT = Seen(alive=True, canary_ok=False, detail="no answer in time")
DEAD = Seen(alive=False, exit_code=-9)


def silent(asked_at: float) -> Seen:
    return replace(SILENT, asked_at=asked_at)


READY = Life(phase=WorkerPhase.READY, since=0.0, proved_at=0.0)


def test_a_worker_is_ready_only_after_it_answered_a_canary() -> None:
    life = started(Life(), 0.0)
    phases = [life.phase]
    for at, seen in ((1.0, Seen(alive=True, healthy=False)), (40.0, HEALTHY), (41.0, ANSWERED)):
        life = advance(life, seen, LIMITS, at)
        phases.append(life.phase)
    assert phases == [
        WorkerPhase.STARTING,
        WorkerPhase.LOADING,
        WorkerPhase.WARMING,
        WorkerPhase.READY,
    ]


def test_green_health_alone_never_makes_a_worker_ready() -> None:
    life = started(Life(), 0.0)
    for at in range(1, 90):
        life = advance(life, HEALTHY, LIMITS, float(at))
        assert life.phase is not WorkerPhase.READY


def test_one_unanswered_canary_is_forgiven_and_the_second_is_a_hang() -> None:
    once = advance(READY, silent(10.0), LIMITS, 20.0)
    assert once.phase is WorkerPhase.READY
    assert deed(once, LIMITS, 20.1) is Deed.CANARY
    twice = advance(once, silent(20.1), LIMITS, 50.1)
    assert twice.phase is WorkerPhase.FAILED
    assert "hangs" in twice.reason


def test_a_canary_that_we_were_too_starved_to_wait_for_counts_for_nothing_thrice() -> None:
    """No restart of a healthy worker by a daemon that does not run; a hang is found at last."""
    life = READY
    for asked_at in (10.0, 40.0, 70.0):
        life = advance(life, replace(silent(asked_at), lost_ratio=0.6), LIMITS, asked_at + 30.0)
        assert (life.phase, life.canary_failures) == (WorkerPhase.READY, 0)
    for asked_at in (100.0, 130.0):
        life = advance(life, replace(silent(asked_at), lost_ratio=0.6), LIMITS, asked_at + 30.0)
    assert life.phase is WorkerPhase.FAILED


def test_a_starved_daemon_does_not_take_one_canary_for_a_hang_of_who_has_work() -> None:
    busy, late = Work(is_busy=True), replace(silent(10.0), lost_ratio=0.6)
    limits = replace(LIMITS, stall_seconds=20.0)
    assert advance(READY, silent(10.0), limits, 90.0, busy).phase is WorkerPhase.FAILED
    assert advance(READY, late, limits, 90.0, busy).phase is WorkerPhase.READY


def test_a_loaded_worker_is_not_started_anew_for_a_canary_that_we_did_not_wait_for() -> None:
    warming = advance(started(Life(), 0.0), HEALTHY, LIMITS, 5.0)
    assert warming.phase is WorkerPhase.WARMING
    late = LIMITS.start_timeout_seconds + 1.0
    assert advance(warming, silent(late), LIMITS, late).phase is WorkerPhase.FAILED
    pardoned = advance(warming, replace(silent(late), lost_ratio=0.9), LIMITS, late)
    assert pardoned.phase is WorkerPhase.WARMING
    assert advance(pardoned, silent(late), LIMITS, late + 9.0).phase is WorkerPhase.FAILED


def test_an_answer_or_a_fair_look_ends_the_pardons() -> None:
    starved = replace(silent(10.0), lost_ratio=0.6)
    pardoned = advance(READY, starved, LIMITS, 40.0)
    assert pardoned.pardons == 1
    assert advance(pardoned, Seen(alive=True, canary_ok=True), LIMITS, 41.0).pardons == 0
    assert advance(pardoned, silent(41.0), LIMITS, 71.0).canary_failures == 1


def test_case_7_canaries_refused_at_once_are_asked_again_only_an_interval_later() -> None:
    once = advance(READY, silent(10.0), LIMITS, 10.0)
    assert [deed(once, LIMITS, at) for at in (10.5, 19.9, 20.0)] == [
        Deed.NOTHING,
        Deed.NOTHING,
        Deed.CANARY,
    ]


def test_case_7_a_canary_that_waits_while_others_are_served_counts_for_nothing() -> None:
    life = READY
    for asked_at in (10.0, 40.0, 70.0, 100.0):
        life = served(life, asked_at + 25.0)  # a gateway's record; scrapes may fail all the while
        life = advance(life, silent(asked_at), LIMITS, asked_at + 30.0)
        assert (life.phase, life.canary_failures) == (WorkerPhase.READY, 0)


def test_a_canary_that_waits_in_silence_for_an_interval_counts_whatever_moved_before() -> None:
    life = progressed(READY, 10.5)
    assert advance(life, silent(10.0), LIMITS, 20.0).canary_failures == 0
    assert advance(life, silent(10.0), LIMITS, 20.5).canary_failures == 1


def test_what_was_served_before_it_was_ready_or_proved_is_no_news() -> None:
    life = replace(READY, since=100.0, proved_at=120.0)
    assert [served(life, at).proved_at for at in (90.0, 110.0, 130.0)] == [120.0, 120.0, 130.0]


def test_a_clock_that_was_set_back_puts_no_canary_off() -> None:
    life = replace(READY, proved_at=5000.0)
    assert deed(life, LIMITS, 1000.0) is Deed.CANARY
    once = advance(life, silent(1000.0), LIMITS, 1030.0)
    assert once.canary_failures == 1


@given(timeout=st.floats(0.0, 60.0), gaps=st.lists(st.floats(0.1, 9.9), max_size=20))
def test_case_2_what_moves_is_left_alone_and_a_stall_is_found_within_two_canary_periods(
    timeout: float, gaps: list[float]
) -> None:
    """A long prefill moves some counter now and then; after the last movement all stands still."""
    life, now, stalled_at = READY, 0.0, sum(gaps)
    moves = list(accumulate(gaps))
    while life.phase is WorkerPhase.READY:
        asked_at, todo = now, deed(life, LIMITS, now)
        now += timeout if todo is Deed.CANARY else 0.0
        while moves and moves[0] <= now:
            life = progressed(life, moves.pop(0))
        if todo is Deed.CANARY:
            life = advance(life, silent(asked_at), LIMITS, now)
        now += 0.5
    period = LIMITS.canary_interval_seconds + timeout
    assert stalled_at < now <= stalled_at + 2 * period + 4 * 0.5


def test_an_answer_between_two_silences_starts_the_count_anew() -> None:
    life = READY
    for seen in (SILENT, ANSWERED, SILENT):
        life = advance(life, seen, LIMITS, 20.0)
    assert life.phase is WorkerPhase.READY


def test_a_worker_that_moves_its_counters_needs_no_canary() -> None:
    assert deed(READY, LIMITS, 10.0) is Deed.CANARY
    assert deed(progressed(READY, 9.0), LIMITS, 10.0) is Deed.NOTHING


def test_progress_is_no_proof_before_the_first_canary() -> None:
    warming = Life(phase=WorkerPhase.WARMING)
    assert progressed(warming, 5.0) == warming


@pytest.mark.parametrize(
    "phase",
    [WorkerPhase.STARTING, WorkerPhase.LOADING, WorkerPhase.WARMING, WorkerPhase.READY],
)
def test_a_death_is_seen_in_every_phase_and_told_with_its_cause(phase: WorkerPhase) -> None:
    life = advance(Life(phase=phase), DEAD, LIMITS, 5.0)
    assert (life.phase, life.retry_at) == (WorkerPhase.FAILED, 7.0)
    assert "signal 9" in life.reason


def test_a_load_that_takes_too_long_fails() -> None:
    loading = Life(phase=WorkerPhase.LOADING, started_at=0.0)
    slow = advance(loading, Seen(alive=True, healthy=False), LIMITS, 100.0)
    assert slow.phase is WorkerPhase.LOADING
    assert advance(slow, Seen(alive=True, healthy=False), LIMITS, 101.0).phase is WorkerPhase.FAILED


def test_case_41_a_load_that_still_makes_progress_is_left_alone_for_so_long() -> None:
    """Probes that kill large models before they are loaded: a crash loop (kserve/kserve#5062)."""
    life = advance(started(Life(), 0.0), Seen(alive=True, healthy=False), LIMITS, 1.0)
    end = LONGEST_LOAD * LIMITS.start_timeout_seconds
    for now in (LIMITS.start_timeout_seconds + 1, end):
        seen = Seen(alive=True, healthy=False, said_at=now - SILENT_LOAD_SECONDS)
        life = advance(life, seen, LIMITS, now)
        assert life.phase is WorkerPhase.LOADING
        assert "its log still grows" in life.reason
    silent = Seen(alive=True, healthy=False, said_at=end - SILENT_LOAD_SECONDS - 1)
    assert advance(life, silent, LIMITS, end).phase is WorkerPhase.FAILED
    talks_on = Seen(alive=True, healthy=False, said_at=end + 1)
    assert advance(life, talks_on, LIMITS, end + 1).phase is WorkerPhase.FAILED


def test_failures_in_a_row_wait_longer_and_a_settled_worker_starts_from_new() -> None:
    assert [backoff_seconds(count, LIMITS) for count in range(7)] == [0, 2, 4, 8, 16, 32, 60]
    life = replace(READY, failures=3)
    assert advance(life, ANSWERED, LIMITS, 59.0).failures == 3
    assert advance(life, ANSWERED, LIMITS, 60.0).failures == 0


def test_a_failed_worker_is_started_again_once_its_wait_is_over() -> None:
    failed = could_not_start(Life(), "no such file", LIMITS, 10.0)
    assert deed(failed, LIMITS, 11.9) is Deed.NOTHING
    assert deed(failed, LIMITS, 12.0) is Deed.START


def test_a_worker_that_lies_dead_while_it_waits_does_not_fail_over_and_over() -> None:
    failed = advance(READY, DEAD, LIMITS, 10.0)
    again = advance(failed, Seen(alive=False), LIMITS, 10.5)
    assert again == failed
    assert deed(again, LIMITS, 12.0) is Deed.STOP  # it may have left something running
    cleared = advance(again, Seen(alive=False, gone=True), LIMITS, 11.0)
    assert deed(cleared, LIMITS, 11.9) is Deed.NOTHING
    assert deed(cleared, LIMITS, 12.0) is Deed.START


def test_case_28_a_death_is_told_with_what_it_was_doing() -> None:
    seen = Seen(alive=False, exit_code=1, detail="with requests in it; last seen with 3 running")
    reason = advance(READY, seen, LIMITS, 5.0).reason
    assert reason == (
        "its process ended with status 1 with requests in it; last seen with 3 running"
    )


def test_an_adopted_worker_has_to_answer_before_it_is_ready_again() -> None:
    life = adopted(started_at=0.0, now=5000.0)
    life = advance(life, HEALTHY, LIMITS, 5000.5)
    assert life.phase is WorkerPhase.WARMING
    assert advance(life, ANSWERED, LIMITS, 5001.0).phase is WorkerPhase.READY


def test_a_worker_that_was_ready_before_serves_on_and_is_asked_at_once() -> None:
    life = still_ready(adopted(started_at=0.0, now=5000.0), since=100.0)
    assert (life.phase, life.since) == (WorkerPhase.READY, 100.0)
    assert deed(life, LIMITS, 5000.0) is Deed.CANARY
    life = advance(life, silent(5000.0), LIMITS, 5030.0)
    assert advance(life, silent(5030.0), LIMITS, 5060.0).phase is WorkerPhase.FAILED


@given(st.lists(st.sampled_from([ALIVE, HEALTHY, ANSWERED, SILENT, DEAD]), max_size=30))
def test_ready_always_comes_straight_after_an_answered_canary(looks: list[Seen]) -> None:
    life = started(Life(), 0.0)
    for at, seen in enumerate(looks, 1):
        before, life = life, advance(life, seen, LIMITS, float(at))
        if life.phase is WorkerPhase.READY and before.phase is not WorkerPhase.READY:
            assert seen.canary_ok


@pytest.mark.parametrize(
    ("interval", "timeout", "floor"), [(1.0, 5.0, 15.0), (15.0, 10.0, 40.0), (0.5, 120.0, 121.0)]
)
def test_what_scrapes_cannot_tell_yet_is_no_standstill(
    interval: float, timeout: float, floor: float
) -> None:
    assert stall_floor_seconds(interval, timeout) == floor
