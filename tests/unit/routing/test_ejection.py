from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.routing.ejection import (
    BUSY,
    UNREACHABLE,
    Backoff,
    Ejections,
    forget_absent,
    local_ease,
    local_eject,
    local_probe,
    local_restore,
)

BOTH = pytest.mark.parametrize("backoff", [UNREACHABLE, BUSY])


def test_a_worker_that_stays_away_is_left_out_for_longer_each_time() -> None:
    ejections, now, spans = Ejections(), 0.0, []
    for _ in range(8):
        ejections = local_eject(ejections, "a", now)
        until = ejections.at(now)["a"]
        spans.append(until - now)
        now = until
    assert spans == [1, 2, 4, 8, 16, 30, 30, 30]


def test_requests_that_fail_together_count_once() -> None:
    ejections = local_eject(Ejections(), "a", 0.0)
    assert local_eject(ejections, "a", 0.5).at(0.5) == {"a": 1.0}


def test_it_is_tried_again_once_its_time_is_over() -> None:
    ejections = local_eject(Ejections(), "a", 0.0)
    assert ejections.at(0.99) == {"a": 1.0}
    assert ejections.at(1.0) == {}


def test_an_answer_wipes_the_slate() -> None:
    ejections = local_eject(local_eject(Ejections(), "a", 0.0), "a", 1.0)
    ejections = local_restore(ejections, "a")
    assert ejections.at(1.5) == {}
    assert local_eject(ejections, "a", 2.0).at(2.0) == {"a": 3.0}
    assert local_restore(ejections, "stranger") is ejections


def test_workers_that_are_gone_are_forgotten() -> None:
    ejections = local_eject(local_eject(Ejections(), "a", 0.0), "b", 0.0)
    assert set(forget_absent(ejections, frozenset({"b", "c"})).at(0.0)) == {"b"}
    assert forget_absent(ejections, frozenset({"a", "b"})) is ejections


@BOTH
def test_one_request_is_let_through_after_a_pause_and_no_second(backoff: Backoff) -> None:
    ejections = local_eject(Ejections(), "a", 0.0, backoff)
    first = backoff.first_seconds
    assert local_probe(ejections, "a", first / 2, backoff) is ejections
    probed = local_probe(ejections, "a", first, backoff)
    assert probed.at(first) == {"a": 2 * first}
    assert local_probe(probed, "a", 1.5 * first, backoff) is probed
    assert local_probe(Ejections(), "a", 0.0, backoff) == Ejections()


@BOTH
def test_a_probe_that_fails_doubles_the_pause(backoff: Backoff) -> None:
    ejections, now, pauses = Ejections(), 0.0, []
    for _ in range(5):
        ejections = local_eject(ejections, "a", now, backoff)
        pauses.append(ejections.at(now)["a"] - now)
        now += pauses[-1]
        ejections = local_probe(ejections, "a", now, backoff)
        now += 0.01
    first, longest = backoff.first_seconds, backoff.longest_seconds
    assert pauses == pytest.approx([min(longest, first * 2**at) for at in range(5)])


def test_an_unreachable_one_of_whose_probe_nothing_is_heard_is_probed_no_sooner() -> None:
    ejections = local_eject(local_eject(Ejections(), "a", 0.0), "a", 1.0)
    gaps, now = [], 3.0
    for _ in range(3):
        ejections = local_probe(ejections, "a", now)
        gaps.append(ejections.at(now)["a"] - now)
        now += gaps[-1]
    assert gaps == [2, 2, 2]


def busy_after(refusals: int) -> tuple[Ejections, float]:
    """Return the table after so many probes that a full worker refused, and the time."""
    ejections, now = Ejections(), 0.0
    for _ in range(refusals):
        ejections = local_eject(local_probe(ejections, "a", now, BUSY), "a", now, BUSY)
        now = ejections.at(now)["a"]
    return ejections, now


def test_a_full_one_that_takes_its_probes_gets_more_step_by_step() -> None:
    ejections, now = busy_after(3)
    gaps = []
    for _ in range(3):
        ejections = local_probe(ejections, "a", now, BUSY)
        gaps.append(ejections.at(now)["a"] - now)
        now += gaps[-1]
    assert gaps == [2.0, 1.0, 0.5]
    assert local_probe(ejections, "a", now, BUSY) == Ejections()


def test_who_ends_at_a_full_one_makes_room_for_one() -> None:
    ejections, now = busy_after(2)
    paused = local_eject(ejections, "a", now, BUSY)
    eased = local_ease(paused, "a", now + 0.1)
    assert eased.at(now + 0.1) == {}  # one may go
    probing = local_probe(eased, "a", now + 0.1, BUSY)
    assert probing.at(now + 0.1) == {"a": pytest.approx(now + 2.1)}  # and no second
    well = [local_ease(probing, "a", now + 1.0)]
    while well[-1].by_worker:
        well.append(local_ease(local_probe(well[-1], "a", now + 1.0, BUSY), "a", now + 1.0))
    assert len(well) == 3  # as often as it had refused
    assert local_ease(Ejections(), "a", 0.0) == Ejections()


@BOTH
@given(
    st.lists(
        st.tuples(st.floats(0.001, 0.4), st.sampled_from(["refused", "silence"])), max_size=300
    )
)
def test_while_it_never_answers_no_two_requests_are_in_one_pause(
    backoff: Backoff, steps: list[tuple[float, str]]
) -> None:
    ejections, now, sent = local_eject(Ejections(), "a", 0.0, backoff), 0.0, [0.0]
    for gap, outcome in steps:
        now += gap
        if "a" in ejections.at(now):
            continue
        if not ejections.by_worker:
            break  # full ones come back by silence
        pause = backoff.seconds(max(1, ejections.by_worker["a"].failures - 1))
        assert now - sent[-1] >= min(backoff.first_seconds, pause)
        sent.append(now)
        ejections = local_probe(ejections, "a", now, backoff)
        if outcome == "refused":
            ejections = local_eject(ejections, "a", now, backoff)


def test_a_full_worker_costs_a_few_attempts_however_many_requests_there_are() -> None:
    ejections, attempts = Ejections(), 0
    for at in range(10_000):  # a thousand a second
        now = at / 1000
        if "a" not in ejections.at(now):
            attempts += 1
            ejections = local_probe(ejections, "a", now, BUSY)
            ejections = local_eject(ejections, "a", now + 0.0001, BUSY)
    assert attempts == 5  # after 0, 0.5, 1.5, 3.5 and 7.5 s
