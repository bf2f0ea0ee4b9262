from __future__ import annotations

import pytest

from ds4watch.alerting.compiled import compile_rule, evaluate_exit, evaluate_rule, seconds_read
from ds4watch.alerting.durations import format_duration, parse_duration
from ds4watch.alerting.evaluation import Evaluation
from ds4watch.alerting.machine import step
from ds4watch.alerting.series import AlertSeries, recorded
from ds4watch.model.alert import AlertRule, RecordingRule
from ds4watch.model.errors import QueryError
from ds4watch.model.series import Labels
from ds4watch.promql.vectors import Vector, one, vector_of
from tests.unit.alerting.rules import EMPTY, hit, hits
from tests.unit.promql.memory import MemoryStorage, named

RULE = AlertRule("g", "Busy", "load > 1", annotations=(("ds4_exit", "load < 0.5"),))


def test_a_rule_is_evaluated_and_so_is_its_exit() -> None:
    storage = MemoryStorage()
    storage.add(named("load", w="a"), [(10, 2.0)])
    storage.add(named("load", w="b"), [(10, 0.1)])
    compiled = compile_rule(RULE)
    assert pairs(evaluate_rule(compiled, storage, 10).vector) == [(named("load", w="a"), 2.0)]
    leaving = evaluate_exit(compiled, storage, 10)
    assert leaving is not None
    assert pairs(leaving.vector) == [(named("load", w="b"), 0.1)]
    assert seconds_read(compiled) == {"load": 0}


def test_a_rule_reads_as_far_back_as_its_expression_and_its_exit_do() -> None:
    annotations = (("ds4_exit", "rate(load[5m]) < 1"),)
    assert seconds_read(compile_rule(AlertRule("g", "A", "load > x", annotations=annotations))) == {
        "load": 300,
        "x": 0,
    }


def test_a_query_that_fails_is_an_evaluation_with_an_error() -> None:
    storage = MemoryStorage()
    storage.add(named("a", l="1"), [(0, 1.0)])
    storage.add(named("b", l="1"), [(0, 1.0)])
    compiled = compile_rule(AlertRule("g", "A", '-{l="1"}'))
    assert "same labelset" in (evaluate_rule(compiled, storage, 0).error or "")
    assert evaluate_exit(compiled, storage, 0) is None
    assert seconds_read(compiled) is None


def test_a_scalar_is_one_sample_without_labels() -> None:
    compiled = compile_rule(AlertRule("g", "A", "1 + 1"))
    assert pairs(evaluate_rule(compiled, MemoryStorage(), 0).vector) == [((), 2.0)]


def test_a_failed_target_makes_an_evaluation_incomplete_and_an_absent_one_no_data() -> None:
    storage = MemoryStorage()
    assert evaluate_rule(compile_rule(RULE), storage, 0).no_data
    storage.add(named("load"), []).failed = True
    assert evaluate_rule(compile_rule(RULE), storage, 0).incomplete


def pairs(vector: Vector) -> list[tuple[Labels, float]]:
    return list(zip(vector.labels, vector.values.tolist(), strict=True))


def test_active_alerts_are_series() -> None:
    series = AlertSeries()
    states = step(RULE, {}, hit(w="a"), 7.0).states
    assert pairs(series.of(states.values())) == [
        (named("ALERTS", alertname="Busy", alertstate="firing", w="a"), 1.0),
        (named("ALERTS_FOR_STATE", alertname="Busy", w="a"), 7.0),
    ]
    gone = step(RULE, states, EMPTY, 8.0, exit_evaluation=Evaluation(one(1.0))).states
    assert pairs(series.of(gone.values())) == []


def test_the_series_of_the_same_alerts_keep_their_column() -> None:
    series = AlertSeries()
    first = step(RULE, {}, hits({"w": "a"}, {"w": "b"}), 7.0)
    again = step(RULE, first.states, hits({"w": "a"}, {"w": "b"}, value=9.0), 8.0)
    fewer = step(RULE, again.states, hit(w="a"), 9.0, exit_evaluation=Evaluation(one(1.0)))
    columns = [series.of(turn.states.values()).labels for turn in (first, again, fewer)]
    assert columns[0] is columns[1]
    assert [len(column) for column in columns] == [4, 4, 2]


def test_a_recording_rule_writes_under_its_own_name_and_labels() -> None:
    rule = RecordingRule("g", "job:load", "x", (("kind", "sum"),))
    seen = vector_of([named("x", job="a")], [2.0])
    written = recorded(rule, seen)
    assert pairs(written) == [(named("job:load", job="a", kind="sum"), 2.0)]
    assert recorded(rule, seen).labels is written.labels


def test_a_recording_rule_that_would_write_a_series_twice_fails() -> None:
    rule = RecordingRule("g", "r", "x", (("job", "all"),))
    seen = vector_of([named("x", job="a"), named("x", job="b")], [2.0, 2.0])
    with pytest.raises(QueryError, match="two samples with the same labels"):
        recorded(rule, seen)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("5m", 300), ("1h30m", 5400), ("250ms", 0.25), ("1d", 86400), ("2w", 1209600)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "5 m", "-5m", "1m1h", "1.5h", "5x", "\u0665m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a duration"):
        parse_duration(text)


def test_durations_are_written_as_they_are_read() -> None:
    assert [format_duration(s) for s in (0, 90, 3600, 0.25)] == ["0s", "1m30s", "1h", "250ms"]
