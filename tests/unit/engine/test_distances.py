from __future__ import annotations

from ds4watch.alerting.rulefile import load_rules
from ds4watch.engine.distances import distances
from ds4watch.engine.rulebook import RuleBook
from ds4watch.promql.memory import MemorySeries
from tests.unit.promql.memory import named

RULES = """\
groups:
  - name: load
    rules:
      - record: fleet:queue
        expr: sum(ds4_queue_depth)
      - alert: Queue
        expr: sum(ds4_queue_depth) > 50
        labels: {severity: critical}
      - alert: Queue
        expr: sum(ds4_queue_depth) > 20
        labels: {severity: warning}
      - alert: Few
        expr: ds4_hot_workers < 2 and ds4_queue_depth > 100
        labels: {severity: info}
      - alert: Gone
        expr: absent(up)
        labels: {severity: critical}
      - alert: Broken
        expr: ds4_queue_depth / 0 > 1
        labels: {severity: info}
      - alert: Watchdog
        expr: vector(1) > 0
        labels: {severity: none}
"""


def test_tiers_of_one_expression_stand_together_with_how_far_each_is() -> None:
    book = RuleBook(load_rules(RULES, "r.yml"))
    series = MemorySeries()
    series.add(named("ds4_queue_depth", worker="a"), [(10.0, 30.0)])
    series.add(named("ds4_hot_workers"), [(10.0, 1.0)])
    alerts = book.evaluate(series, (), 10.0).alerts

    queue, few, broken = distances(book.all(), series, alerts, 10.0)
    assert (queue["name"], queue["op"], queue["value"]) == ("Queue", ">", 30.0)
    assert [(it["severity"], it["threshold"], it["beyond"]) for it in queue["tiers"]] == [
        ("warning", 20.0, 10.0),
        ("critical", 50.0, -20.0),
    ]
    assert [(it["phase"], it["holds"]) for it in queue["tiers"]] == [
        ("firing", True),
        (None, False),
    ]
    (tier,) = few["tiers"]
    assert (few["value"], tier["beyond"], tier["holds"], tier["guarded"]) == (1.0, 1.0, True, True)
    assert (broken["name"], broken["value"], broken["tiers"][0]["beyond"]) == ("Broken", None, None)


def test_what_has_no_value_is_told_without_one() -> None:
    book = RuleBook(load_rules(RULES, "r.yml"))
    queue, few, _ = distances(book.all(), MemorySeries(), (), 10.0)
    assert [it["value"] for it in (queue, few)] == [None, None]
    assert not queue["tiers"][0]["holds"]
