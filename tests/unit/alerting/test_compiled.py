from __future__ import annotations

import pytest

from ds4watch.alerting.compiled import compile_rule, evaluate_exit, evaluate_rule, names_read
from ds4watch.alerting.durations import format_duration, parse_duration
from ds4watch.alerting.machine import step
from ds4watch.alerting.series import alert_samples, recorded_samples
from ds4watch.model.alert import AlertRule, Evaluation, RecordingRule
from ds4watch.model.errors import QueryError
from ds4watch.model.series import Sample
from tests.unit.promql.memory import MemoryStorage, named

RULE = AlertRule("g", "Busy", "load > 1", annotations=(("ds4_exit", "load < 0.5"),))


def test_a_rule_is_evaluated_and_so_is_its_exit() -> None:
    storage = MemoryStorage()
    storage.add(named("load", w="a"), [(10, 2.0)])
    storage.add(named("load", w="b"), [(10, 0.1)])
    compiled = compile_rule(RULE)
    assert evaluate_rule(compiled, storage, 10).samples == (Sample("load", (("w", "a"),), 2.0),)
    leaving = evaluate_exit(compiled, storage, 10)
    assert leaving is not None
    assert leaving.samples == (Sample("load", (("w", "b"),), 0.1),)
    assert names_read(compiled) == frozenset({"load"})


def test_a_query_that_fails_is_an_evaluation_with_an_error() -> None:
    storage = MemoryStorage()
    storage.add(named("a", l="1"), [(0, 1.0)])
    storage.add(named("b", l="1"), [(0, 1.0)])
    compiled = compile_rule(AlertRule("g", "A", '-{l="1"}'))
    assert "same labelset" in (evaluate_rule(compiled, storage, 0).error or "")
    assert evaluate_exit(compiled, storage, 0) is None
    assert names_read(compiled) is None


def test_a_scalar_is_one_sample_without_labels() -> None:
    compiled = compile_rule(AlertRule("g", "A", "1 + 1"))
    assert evaluate_rule(compiled, MemoryStorage(), 0) == Evaluation((Sample("", (), 2.0),))


def test_a_failed_target_makes_an_evaluation_incomplete_and_an_absent_one_no_data() -> None:
    storage = MemoryStorage()
    assert evaluate_rule(compile_rule(RULE), storage, 0).no_data
    storage.add(named("load"), []).failed = True
    assert evaluate_rule(compile_rule(RULE), storage, 0).incomplete


def test_active_alerts_are_series() -> None:
    result = step(RULE, {}, Evaluation((Sample("load", (("w", "a"),), 2.0),)), 7.0)
    labels = (("alertname", "Busy"), ("w", "a"))
    assert alert_samples(result.states.values()) == (
        Sample("ALERTS", (("alertname", "Busy"), ("alertstate", "firing"), ("w", "a")), 1.0),
        Sample("ALERTS_FOR_STATE", labels, 7.0),
    )
    gone = step(RULE, result.states, Evaluation(), 8.0, exit_evaluation=Evaluation((_ALL,)))
    assert alert_samples(gone.states.values()) == ()


_ALL = Sample("", (), 1.0)


def test_a_recording_rule_writes_under_its_own_name_and_labels() -> None:
    rule = RecordingRule("g", "job:load", "x", (("kind", "sum"),))
    seen = Evaluation((Sample("x", (("job", "a"),), 2.0),))
    labels = (("job", "a"), ("kind", "sum"))
    assert recorded_samples(rule, seen) == (Sample("job:load", labels, 2.0),)


def test_a_recording_rule_that_would_write_a_series_twice_fails() -> None:
    rule = RecordingRule("g", "r", "x", (("job", "all"),))
    seen = Evaluation((Sample("x", (("job", "a"),), 2.0), Sample("x", (("job", "b"),), 2.0)))
    with pytest.raises(QueryError, match="two samples with the same labels"):
        recorded_samples(rule, seen)


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
