"""Rules that a server evaluates: what it is asked, and what its answers make of alerts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ds4watch.alerting.remote import Answers, Elsewhere, read_matchers
from ds4watch.alerting.rulefile import load_rules
from ds4watch.engine.rulebook import Round, RuleBook
from ds4watch.model.alert import AlertState
from ds4watch.model.errors import ConfigError, EdgeReason, QueryError, SourceError
from ds4watch.model.series import STALE_NAN, Labels
from ds4watch.promql.columns import LabelColumn
from tests.unit.engine.server import Server
from tests.unit.promql.memory import WritableMemory, named

RULES = """\
groups:
  - name: g
    rules:
      - record: deep
        expr: sum by (worker) (queue)
      - alert: Long
        expr: deep > 50
        annotations: {ds4_on_no_data: hold}
      - alert: Total
        expr: sum(queue) > 50
        annotations: {ds4_on_no_data: hold}
      - alert: Leaving
        expr: queue > 50
        annotations: {ds4_exit: queue < 10, ds4_on_no_data: hold}
      - alert: Missed
        expr: queue > 1000
        annotations: {ds4_on_no_data: alert}
      - alert: Watchdog
        expr: vector(1)
      - alert: Told
        expr: ds4_rule_evaluation_failed == 1
  - name: slow
    interval: 1m
    rules:
      - alert: Slow
        expr: queue > 70
        labels: {tier: slow}
"""
W1, W2 = {"worker": "w1", "instance": "a:1"}, {"worker": "w2", "instance": "b:1"}


def up(labels: dict[str, str]) -> Labels:
    return named("up", job="vllm", instance=labels["instance"])


def queue(labels: dict[str, str]) -> Labels:
    return named("queue", job="vllm", **labels)


class Case:
    """A rule book, a server, and what is known here."""

    def __init__(self, text: str = RULES, elsewhere: Elsewhere | None = None) -> None:
        self.book = RuleBook(load_rules(text, "rules.yml"), elsewhere or Elsewhere())
        self.server = Server()
        self.here = WritableMemory()
        self.alerts: tuple[AlertState, ...] = ()
        self.now = 1000.0

    def samples(self, *values: tuple[dict[str, str], float | None]) -> None:
        """Scrape workers a step later; None is a scrape that failed."""
        self.now += 15
        for labels, value in values:
            storage = self.server.storage
            storage.add(up(labels), [(self.now, float(value is not None))])
            storage.add(queue(labels), [(self.now, STALE_NAN if value is None else value)])

    def turn(
        self, ask: Callable[[tuple[str, ...], float], Answers] | None = None
    ) -> tuple[Round, set[tuple[str, str, str]]]:
        """Ask for a round, evaluate it; return what there is as (alert, worker, phase)."""
        asked = self.book.questions(self.alerts, self.now)
        answers = (ask or self.server.round)(asked, self.now)
        found = self.book.evaluate(self.here, self.alerts, self.now + 0.2, answers=answers)
        self.alerts = found.alerts
        return found, {
            (it.name, dict(it.labels).get("worker", ""), "held" if it.held else it.phase.value)
            for it in self.alerts
            if it.name != "Watchdog"
        }


@pytest.fixture
def case() -> Case:
    return Case()


def test_alerts_begin_and_end_as_the_server_says_at_the_instant_of_the_question(
    case: Case,
) -> None:
    case.samples((W1, 60), (W2, 5))
    _, found = case.turn()
    both = {("Long", "w1", "firing"), ("Leaving", "w1", "firing"), ("Total", "", "firing")}
    assert found == both
    assert {it.fired_at for it in case.alerts if it.name != "Watchdog"} == {case.now}
    case.samples((W1, 5), (W2, 5))
    assert {it[2] for it in case.turn()[1]} == {"resolved"}


def test_alerts_stay_between_rounds_and_what_is_about_us_is_evaluated_here(case: Case) -> None:
    case.samples((W1, 60))
    case.turn()
    found = case.book.evaluate(case.here, case.alerts, case.now + 1)
    assert found.transitions == ()
    assert {it.name for it in found.alerts} == {"Long", "Total", "Leaving", "Watchdog"}
    assert not any("vector(1)" in it or "ds4_rule" in it for it in case.server.asked)


def test_a_failed_question_changes_no_alert_and_is_told(case: Case) -> None:
    case.samples((W1, 60))
    before = case.turn()[1]
    case.samples((W1, 5))
    case.server.fails = lambda _: SourceError("boom", reason=EdgeReason.STATUS)
    turn, found = case.turn()
    assert found == before
    assert turn.transitions == ()
    names = {dict(it.labels)["rule"] for it in turn.failed}
    assert names == {"deep", "Long", "Total", "Leaving", "Missed"}
    failing = LabelColumn(tuple(named(it.name, **dict(it.labels)) for it in turn.failed))
    case.here.write("own", failing, np.ones(len(failing)), case.now + 1)
    told = case.book.evaluate(case.here, case.alerts, case.now + 1)
    assert sum(it.name == "Told" for it in told.alerts) == len(names)
    case.server.fails = lambda _: None
    assert case.turn()[0].failed == ()


def test_a_partial_answer_begins_alerts_and_ends_none(case: Case) -> None:
    case.samples((W1, 60), (W2, 5))
    case.turn()
    case.samples((W1, 5), (W2, 60))
    case.server.partial = True
    found = case.turn()[1]
    assert {("Long", "w1", "held"), ("Long", "w2", "firing")} <= found
    case.server.partial = False
    assert ("Long", "w1", "resolved") in case.turn()[1]


def test_data_that_are_too_old_are_no_data_and_end_nothing(case: Case) -> None:
    case.samples((W1, 60))
    case.turn()
    case.samples((W1, 5))
    found = case.turn(case.server.stale)[1]
    assert {("Long", "w1", "held"), ("Total", "", "held"), ("Missed", "", "firing")} <= found


def test_a_target_that_is_down_on_the_server_holds_the_alerts_it_bears_upon(case: Case) -> None:
    case.samples((W1, 60), (W2, 60))
    case.turn()
    case.samples((W1, None), (W2, 5))
    found = case.turn()[1]
    assert ("Leaving", "w1", "held") in found
    assert ("Leaving", "w2", "resolved") in found
    assert ("Total", "", "held") in found  # what is missing may be what made it fire


def test_a_series_that_ends_while_its_target_is_up_ends_its_alerts(case: Case) -> None:
    case.samples((W1, 60), (W2, 5))
    case.turn()
    case.samples((W1, 5), (W2, 5))
    case.server.storage.series[queue(W1)].values[-1] = STALE_NAN
    # Nothing says that the exit of the other holds.
    assert {("Long", "w1", "resolved"), ("Leaving", "w1", "firing")} <= case.turn()[1]


def test_no_sample_at_all_is_no_data(case: Case) -> None:
    case.samples((W1, 60))
    case.turn()
    case.now += 400
    found = case.turn()[1]
    assert {("Long", "w1", "held"), ("Total", "", "held"), ("Missed", "", "firing")} <= found


def test_a_worker_that_we_cannot_scrape_holds_what_comes_by_way_of_our_page(case: Case) -> None:
    case.samples((W1, 60), (W2, 60))
    case.turn()
    # The server takes our page, which is well; the series of w1 are gone from it.
    here = case.here.add(named("queue", worker="w1", instance="w1:8000", job="fleet"), [(990, 60)])
    here.failed = True
    case.samples((W1, 5), (W2, 5))
    case.server.storage.series[queue(W1)].values[-1] = STALE_NAN
    found = case.turn()[1]
    assert {("Long", "w1", "held"), ("Long", "w2", "resolved")} <= found


def test_an_alert_with_an_exit_leaves_only_when_the_server_says_so(case: Case) -> None:
    case.samples((W1, 60))
    case.turn()
    case.samples((W1, 20))
    assert ("Leaving", "w1", "firing") in case.turn()[1]
    case.samples((W1, 5))
    assert ("Leaving", "w1", "resolved") in case.turn()[1]


def test_groups_are_asked_at_their_own_interval(case: Case) -> None:
    case.samples((W1, 1))
    case.turn()
    slow = "queue > 70"
    assert case.server.asked.count(slow) == 1
    for _ in range(4):
        case.samples((W1, 1))
        case.turn()
    assert case.server.asked.count(slow) == 2


def test_what_only_alerts_need_is_asked_only_for_alerts(case: Case) -> None:
    case.samples((W1, 1))
    asked = case.book.questions((), case.now)
    assert len(asked) == len(set(asked))
    assert not any("count(" in it or "last_over_time" in it for it in asked)


def test_series_that_the_server_records_are_left_alone() -> None:
    case = Case(elsewhere=Elsewhere(inline=False))
    case.samples((W1, 1))
    case.turn()
    assert "deep > 50" in case.server.asked
    assert not any("sum by" in it for it in case.server.asked)


def test_what_is_recorded_can_be_read_here(case: Case) -> None:
    case.samples((W1, 7))
    case.turn()
    assert named("deep", worker="w1") in case.here.series


def test_matchers_are_added_to_every_selector() -> None:
    only = read_matchers('{job=~"ds4watch|vllm"}')
    case = Case(elsewhere=Elsewhere(only=only))
    case.samples((W1, 60))
    case.turn()
    case.samples((W1, 60))
    case.turn()
    for text in case.server.asked:
        assert text.count('job=~"ds4watch|vllm"') == text.count("queue") + text.count("up{")


@pytest.mark.parametrize("text", ["job", "{", '{job="x"} + 1', '{__name__="x"}', '{job=~"("}'])
def test_what_are_no_matchers_is_refused(text: str) -> None:
    with pytest.raises(QueryError):
        read_matchers(text)


def test_a_rule_that_cannot_be_asked_is_told_with_its_place() -> None:
    text = "groups: [{name: g, rules: [{record: a, expr: a + 1}, {alert: B, expr: a > 1}]}]"
    with pytest.raises(ConfigError) as caught:
        RuleBook(load_rules(text, "rules.yml"), Elsewhere())
    first, second = map(str, caught.value.findings)
    assert first.startswith("rules.yml: g: a: a is recorded from itself")
    assert second.startswith("rules.yml: g: B: a is recorded from itself")
