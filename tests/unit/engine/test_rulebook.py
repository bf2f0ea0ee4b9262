"""Rules in rounds: what is due, what fails, what was removed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.alerting.rulefile import load_rules
from ds4watch.engine.rulebook import Round, RuleBook
from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.model.series import Labels
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.storage import Matcher, MatchOp
from tests.unit.promql.memory import WritableMemory, named

RULES = """\
groups:
  - name: g
    interval: 1s
    rules:
      - record: ds4_doubled
        expr: 2 * ds4_queue_depth
      - alert: Long
        expr: ds4_doubled > 100
        labels: {severity: warning}
      - alert: Long
        expr: ds4_doubled > 400
        labels: {severity: critical}
      - alert: Broken
        expr: ds4_queue_depth * on (nothing) ds4_many
  - name: slow
    interval: 10s
    rules:
      - alert: Slow
        expr: ds4_queue_depth > 50
"""


def write(live: WritableMemory, at: float, *series: Labels, value: float = 1.0) -> None:
    live.write("test", LabelColumn(series), np.full(len(series), value), at)


def depth(live: WritableMemory, value: float, at: float) -> None:
    live.write("depth", LabelColumn((named("ds4_queue_depth"),)), np.array([value]), at)


def phases(turn: Round) -> set[tuple[str, str, str]]:
    return {(it.name, it.tier.value, it.phase.value) for it in turn.alerts}


@pytest.fixture
def live() -> WritableMemory:
    return WritableMemory()


def book(text: str = RULES) -> RuleBook:
    return RuleBook(load_rules(text, "rules.yml"))


def test_rules_run_in_file_order_so_that_later_ones_see_what_earlier_ones_record(
    live: WritableMemory,
) -> None:
    depth(live, 60.0, 1000.0)
    turn = book().evaluate(live, (), 1000.0)
    assert ("Long", "warning", "firing") in phases(turn)
    assert ("Long", "critical", "firing") not in phases(turn)


def test_a_rule_that_fails_is_told_once_and_stops_no_other(
    live: WritableMemory, caplog: pytest.LogCaptureFixture
) -> None:
    rules = book()
    alerts: tuple[AlertState, ...] = ()
    for second in range(3):
        at = 1000.0 + second
        depth(live, 60.0, at)
        write(live, at, named("ds4_many", x="a"), named("ds4_many", x="b"))
        turn = rules.evaluate(live, alerts, at)
        alerts = turn.alerts
    assert [dict(sample.labels)["rule"] for sample in turn.failed] == ["Broken"]
    assert caplog.text.count("rule Broken cannot be evaluated") == 1
    assert ("Long", "warning", "firing") in phases(turn)
    write(live, 1003.0)
    depth(live, 60.0, 1003.0)
    assert rules.evaluate(live, alerts, 1003.0).failed == ()
    assert "rule Broken can be evaluated again" in caplog.text


def test_a_group_is_evaluated_at_its_own_interval_and_keeps_its_alerts_between(
    live: WritableMemory,
) -> None:
    rules = book()
    alerts: tuple[AlertState, ...] = ()
    seen = []
    for second, value in enumerate([60.0] + [0.0] * 10):
        depth(live, value, 1000.0 + second)
        alerts = rules.evaluate(live, alerts, 1000.0 + second).alerts
        seen.append([it.phase for it in alerts if it.name == "Slow"])
    assert seen[:10] == [[AlertPhase.FIRING]] * 10
    assert seen[10] == [AlertPhase.RESOLVED]


@given(st.lists(st.floats(0.0, 0.3), min_size=25, max_size=60))
def test_a_group_misses_no_round_although_waves_end_now_sooner_now_later(
    ends: list[float],
) -> None:
    live, rules = WritableMemory(), book()
    alerts: tuple[AlertState, ...] = ()
    changed = []
    for number, end in enumerate(ends):
        at = 1000.0 + number + end
        depth(live, 60.0 if number % 2 else 0.0, at)
        turn = rules.evaluate(live, alerts, at)
        alerts = turn.alerts
        changed += [number for it in turn.transitions if dict(it.labels)["alertname"] == "Long"]
    assert changed == list(range(1, len(ends)))


@given(st.lists(st.floats(0.0, 0.3), min_size=40, max_size=60))
def test_a_slow_group_keeps_its_pace_although_waves_do_not(ends: list[float]) -> None:
    live, rules = WritableMemory(), book()
    alerts: tuple[AlertState, ...] = ()
    seen = []
    for number, end in enumerate(ends):
        at = 1000.0 + number + end
        depth(live, 100.0 + number, at)
        alerts = rules.evaluate(live, alerts, at).alerts
        seen += [round(it.value - 100.0) for it in alerts if it.name == "Slow"][-1:]
    assert sorted(set(seen)) == list(range(0, len(ends), 10))


def test_a_clock_set_back_does_not_silence_a_group(live: WritableMemory) -> None:
    rules = book()
    depth(live, 0.0, 1000.0)
    rules.evaluate(live, (), 5000.0)
    depth(live, 60.0, 1001.0)
    assert ("Slow", "none", "firing") in phases(rules.evaluate(live, (), 1001.0))


def test_the_alert_of_a_removed_rule_ends_and_says_so(live: WritableMemory) -> None:
    depth(live, 60.0, 1000.0)
    firing = book().evaluate(live, (), 1000.0).alerts
    without = RULES.replace("Slow", "Other")
    depth(live, 60.0, 1001.0)
    turn = book(without).evaluate(live, firing, 1001.0)
    ended = [it for it in turn.transitions if it.new is AlertPhase.RESOLVED]
    assert [it.reason for it in ended] == ["its rule was removed"]
    assert "Slow" not in {it.name for it in turn.alerts}


def test_alerts_are_series_too(live: WritableMemory) -> None:
    depth(live, 60.0, 1000.0)
    book().evaluate(live, (), 1000.0)
    found = live.latest([Matcher("__name__", MatchOp.EQUAL, "ALERTS")], 0.0, 1000.0)
    states = [dict(labels) for labels in found.labels]
    assert (
        dict(named("ALERTS", alertname="Long", alertstate="firing", severity="warning")) in states
    )


def test_what_rules_read_is_known_and_what_has_no_name_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = """\
groups:
  - name: g
    rules:
      - {alert: Named, expr: 'vllm:num_requests_waiting > 5'}
      - {alert: Nameless, expr: 'sum({job="vllm"}) > 5'}
"""
    assert book(text).windows_read() == {"vllm:num_requests_waiting": 0}
    assert "Nameless" in caplog.text


def test_a_rule_sees_the_alerts_of_the_rules_before_it(live: WritableMemory) -> None:
    text = """\
groups:
  - name: g
    rules:
      - {alert: Busy, expr: 'load > 1'}
      - {alert: Any, expr: 'count(ALERTS{alertname="Busy"}) > 0'}
"""
    write(live, 1000.0, named("load", x="a"), value=2.0)
    assert {it.name for it in book(text).evaluate(live, (), 1000.0).alerts} == {"Busy", "Any"}


def test_two_rules_whose_alerts_have_the_same_labels_both_go_on(live: WritableMemory) -> None:
    text = """\
groups:
  - {name: a, rules: [{alert: Busy, expr: 'load > 1'}]}
  - {name: b, rules: [{alert: Busy, expr: 'load > 2', for: 1m}]}
"""
    rules, alerts = book(text), tuple[AlertState, ...]()
    for second in range(3):
        write(live, 1000.0 + second, named("load", x="a"), value=3.0)
        alerts = rules.evaluate(live, alerts, 1000.0 + second).alerts
    assert phases_of(alerts) == [AlertPhase.FIRING, AlertPhase.PENDING]
    assert len(set(rules.pages)) == 2


def phases_of(alerts: tuple[AlertState, ...]) -> list[AlertPhase]:
    return [alert.phase for alert in alerts]


def test_a_page_keeps_its_name_when_its_rule_moves(live: WritableMemory) -> None:
    moved = RULES.replace("name: g\n", "name: other\n").replace("for: 1m", "for: 2m")
    assert book(moved).pages == book().pages
    depth(live, 60.0, 1000.0)
    written = book().evaluate(live, (), 1000.0).written
    assert {it.producer.partition("/")[0] for it in written} >= {"rule:ds4_doubled", "rule:Long"}


def test_two_samples_of_one_alert_fail_the_rule_and_name_the_labels(
    live: WritableMemory,
) -> None:
    text = """\
groups:
  - name: g
    rules:
      - alert: Busy
        expr: load > 1
        labels: {x: same}
"""
    rules = book(text)
    write(live, 1000.0, named("load", x="a"), named("load", x="b"), value=3.0)
    assert rules.evaluate(live, (), 1000.0).alerts == ()
    assert "two samples make one alert, with the labels" in rules.errors()["Busy"]
