from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ds4watch.alerting.evaluation import Evaluation
from ds4watch.alerting.machine import step
from ds4watch.model.alert import AlertPhase, AlertRule, OnNoData
from ds4watch.model.series import Labels
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.doubt import Doubt, Shared
from tests.unit.alerting.rules import (
    EMPTY,
    FAILED,
    INCOMPLETE,
    NO_DATA,
    NONE,
    RULE,
    F,
    P,
    R,
    Run,
    hit,
    hits,
    phases,
    rule,
)
from tests.unit.promql.memory import named

HIT = hit()

TABLE = [
    ("it waits for `for`, then fires", rule(), [(0, HIT, P), (9, HIT, P), (10, HIT, F)]),
    ("without `for` it fires at once", rule(hold=0), [(0, HIT, F)]),
    ("one miss drops a pending alert", rule(), [(0, HIT, P), (5, EMPTY, NONE), (9, HIT, P)]),
    ("a gap in evaluations counts", rule(), [(0, HIT, P), (60, HIT, F)]),
    ("it resolves on the first miss", rule(hold=0), [(0, HIT, F), (1, EMPTY, R)]),
    (
        "keep_firing_for bridges misses and begins anew",
        rule(hold=0, keep=5),
        [(0, HIT, F), (1, EMPTY, F), (5, EMPTY, F), (5.5, HIT, F), (7, EMPTY, F), (12, EMPTY, R)],
    ),
    (
        "with a minimum it fires at least so long, and no longer than it has to",
        replace(rule(hold=0), min_firing_seconds=10),
        [(0, HIT, F), (1, EMPTY, F), (2, HIT, F), (9, EMPTY, F), (10, EMPTY, R)],
    ),
    (
        "what has fired for its minimum ends on the first miss",
        replace(rule(hold=0), min_firing_seconds=10),
        [(0, HIT, F), (20, HIT, F), (21, EMPTY, R)],
    ),
    (
        "resolved is kept for 15 minutes, then forgotten",
        rule(hold=0),
        [(0, HIT, F), (1, EMPTY, R), (900, EMPTY, R), (901, EMPTY, NONE)],
    ),
    (
        "resolved and back again starts as pending",
        rule(),
        [(0, HIT, P), (10, HIT, F), (11, EMPTY, R), (12, HIT, P), (22, HIT, F)],
    ),
    (
        "an error changes nothing",
        rule(),
        [(0, HIT, P), (5, FAILED, P), (10, HIT, F), (11, FAILED, F), (5000, FAILED, F)],
    ),
    (
        "incomplete never ends an alert",
        rule(),
        [(0, HIT, P), (1, INCOMPLETE, P), (10, HIT, F), (11, INCOMPLETE, F), (12, EMPTY, R)],
    ),
    (
        "incomplete may start and continue one",
        rule(),
        [
            (0, replace(HIT, incomplete=True), P),
            (10, replace(HIT, incomplete=True), F),
        ],
    ),
    ("no data resolves by default", rule(hold=0), [(0, HIT, F), (1, NO_DATA, R)]),
    (
        "no data holds if the rule says so",
        rule(hold=0, no_data=OnNoData.HOLD),
        [(0, HIT, F), (1, NO_DATA, F), (9999, NO_DATA, F), (10000, EMPTY, R)],
    ),
    (
        "no data alerts if the rule says so",
        rule(no_data=OnNoData.ALERT),
        [(0, NO_DATA, P), (10, NO_DATA, F), (11, EMPTY, R)],
    ),
    (
        "a clock set back starts the wait anew, and no more",
        rule(),
        [(1000, HIT, P), (100, HIT, P), (105, HIT, P), (110, HIT, F), (50, HIT, F)],
    ),
    (
        "a clock set back does not prolong keep_firing_for beyond itself",
        rule(hold=0, keep=5),
        [(1000, HIT, F), (1001, EMPTY, F), (100, EMPTY, F), (105, EMPTY, R)],
    ),
]


@pytest.mark.parametrize(("alert", "steps"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE])
def test_phases(alert: AlertRule, steps: list[tuple[float, Evaluation, AlertPhase]]) -> None:
    run = Run(alert)
    assert phases(run, [(now, seen) for now, seen, _ in steps]) == [want for *_, want in steps]


@pytest.mark.parametrize(("alert", "steps"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE])
def test_a_restart_at_any_midpoint_changes_no_phase(
    alert: AlertRule, steps: list[tuple[float, Evaluation, AlertPhase]]
) -> None:
    for midpoint in range(1, len(steps)):
        run = Run(alert)
        for position, (now, seen, want) in enumerate(steps):
            if position == midpoint:
                run.restart(run.last_tick_at)
            assert run.at(now, seen) is want


def test_down_time_does_not_count_towards_for() -> None:
    run = Run(rule())
    run.at(0, HIT)
    run.at(6, HIT)
    run.restart(106)
    assert run.only.active_at == 100
    assert phases(run, [(107, HIT), (109, HIT), (110, HIT)]) == [P, P, F]


def test_after_more_than_an_hour_down_a_pending_alert_starts_anew() -> None:
    run = Run(rule())
    run.at(0, HIT)
    run.at(9, HIT)
    run.restart(4000)
    assert phases(run, [(4001, HIT), (4009, HIT), (4010, HIT)]) == [P, P, F]


def test_a_firing_alert_fires_on_after_any_down_time_and_goes_on_keeping_fire() -> None:
    run = Run(rule(hold=0, keep=10))
    run.at(0, HIT)
    run.at(1, EMPTY)
    run.restart(90_001)
    assert run.phase is F
    assert run.only.keep_firing_since == 90_001
    assert phases(run, [(90_010, EMPTY), (90_011, EMPTY)]) == [F, R]


def test_what_a_restart_brings_back_is_unconfirmed_until_it_is_seen_afresh() -> None:
    run = Run(rule(hold=0))
    run.at(0, HIT)
    run.restart(5)
    assert not run.only.confirmed
    run.at(6, FAILED)
    assert not run.only.confirmed
    run.at(7, INCOMPLETE)
    assert not run.only.confirmed
    run.at(8, HIT)
    assert run.only.confirmed


def test_what_is_kept_for_want_of_data_is_held_and_what_is_seen_is_not() -> None:
    run = Run(rule(hold=0))
    run.at(0, HIT)
    run.at(1, INCOMPLETE)
    assert run.only.held
    run.at(2, HIT)
    assert not run.only.held


def test_two_samples_that_make_one_alert_are_an_error_and_change_nothing() -> None:
    alert = replace(RULE, labels=(("worker", "all"),))
    first = step(alert, {}, hit(worker="a"), 0.0)
    both = hits({"worker": "a"}, {"worker": "b"})
    result = step(alert, first.states, both, 1.0)
    assert result.error is not None
    assert "'worker': 'all'" in result.error
    assert result.states == first.states
    assert not result.transitions


def test_alerts_of_different_labels_live_their_own_lives() -> None:
    first = step(RULE, {}, hits({"w": "a"}, {"w": "b"}), 0.0)
    second = step(RULE, first.states, hit(w="b"), 10.0)
    assert [(t.old, t.new, dict(t.labels)["w"]) for t in second.transitions] == [
        (P, F, "b"),
        (P, NONE, "a"),
    ]


def test_labels_and_annotations_are_filled_in_and_the_name_is_dropped() -> None:
    alert = AlertRule(
        group="g",
        name="Full",
        expression="x",
        labels=(("severity", "warning"), ("where", "{{ $labels.worker }}!")),
        annotations=(("summary", "{{ $labels.worker }} at {{ $value | humanizePercentage }}"),),
    )
    result = step(alert, {}, hit(0.5, worker="a"), 3.0)
    (state,) = result.states.values()
    assert dict(state.labels) == {
        "alertname": "Full",
        "severity": "warning",
        "where": "a!",
        "worker": "a",
    }
    assert dict(state.annotations) == {"summary": "a at 50%"}
    (change,) = result.transitions
    assert (change.old, change.new, change.at, change.value) == (NONE, F, 3.0, 0.5)
    assert change.annotations == state.annotations


def test_value_and_annotations_follow_while_active_at_stays() -> None:
    run = Run(rule(summary="{{ $value }}"))
    run.at(0, hit(2.0))
    run.at(1, hit(3.0))
    assert run.only.value == 3.0
    assert dict(run.only.annotations)["summary"] == "3"
    assert run.only.active_at == 0


def test_a_rule_with_an_exit_leaves_only_when_the_exit_holds() -> None:
    run = Run(rule(hold=0, ds4_exit="load < 0.5"))
    worker = hit(worker="a")
    assert run.at(0, worker) is F
    assert run.at(1, EMPTY, EMPTY) is F
    assert not run.only.held
    assert run.at(2, EMPTY, hit(worker="b")) is F
    assert run.at(3, EMPTY, hit(worker="a")) is R


@pytest.mark.parametrize("leaving", [None, FAILED, INCOMPLETE, NO_DATA])
def test_an_exit_that_cannot_be_told_holds(leaving: Evaluation | None) -> None:
    run = Run(rule(hold=0, ds4_exit="load < 0.5"))
    run.at(0, HIT)
    assert run.at(1, EMPTY, leaving) is F
    assert run.only.held


def test_an_exit_is_followed_by_keep_firing_for() -> None:
    run = Run(rule(hold=0, keep=5, ds4_exit="load < 0.5"))
    run.at(0, HIT)
    steps = [(1, HIT), (3, EMPTY), (4, HIT), (8, HIT), (9, HIT)]
    assert [run.at(now, EMPTY, leaving) for now, leaving in steps] == [F, F, F, F, R]


def test_the_alert_for_no_data_carries_the_labels_of_the_rule_alone() -> None:
    alert = replace(RULE, labels=(("severity", "warning"),), on_no_data=OnNoData.ALERT)
    run = Run(alert)
    run.at(0, NO_DATA)
    assert dict(run.only.labels) == {"alertname": "Busy", "severity": "warning"}
    assert math.isnan(run.only.value)


def test_too_many_alerts_are_an_error_not_an_all_clear() -> None:
    crowd = hits(*({"n": str(n)} for n in range(10_001)))
    first = step(RULE, {}, hit(n="1"), 0.0)
    result = step(RULE, first.states, crowd, 1.0)
    assert result.error == "10001 alerts, more than 10000"
    assert result.states == first.states


def test_a_failed_scrape_holds_the_alerts_of_its_own_target_and_no_others() -> None:
    missing = Doubt(LabelColumn((named("load", w="a"),)), Shared())
    alert = rule(hold=0)
    first = step(alert, {}, hits({"w": "a"}, {"w": "b"}), 0.0)
    partial = replace(INCOMPLETE, doubts=(missing,))
    second = step(alert, first.states, partial, 1.0)
    found = {dict(it.labels)["w"]: (it.phase, it.held) for it in second.states.values()}
    assert found == {"a": (F, True), "b": (R, False)}


def test_an_exit_that_is_in_doubt_holds_only_what_the_doubt_touches() -> None:
    missing = Doubt(LabelColumn((named("load", w="a"),)), Shared())
    alert = rule(hold=0, ds4_exit="load < 0.5")
    first = step(alert, {}, hits({"w": "a"}, {"w": "b"}), 0.0)
    leaving = replace(hits({"w": "b"}), incomplete=True, doubts=(missing,))
    second = step(alert, first.states, EMPTY, 1.0, exit_evaluation=leaving)
    found = {dict(it.labels)["w"]: (it.phase, it.held) for it in second.states.values()}
    assert found == {"a": (F, True), "b": (R, False)}


@pytest.mark.parametrize(
    ("target", "phase"),
    [
        ((("job", "vllm"), ("worker", "w1")), R),
        ((("job", "vllm"), ("worker", "w2")), F),
        ((("job", "vllm"), ("profile", "full")), F),
    ],
)
def test_of_a_target_removed_on_purpose_no_data_is_no_reason_to_hold(
    target: Labels, phase: AlertPhase
) -> None:
    held = rule(hold=0, no_data=OnNoData.HOLD)
    firing = step(held, {}, hit(worker="w1"), 0.0).states
    after = step(held, firing, NO_DATA, 1.0, removed=[target])
    assert [it.phase for it in after.states.values()] == [phase]
