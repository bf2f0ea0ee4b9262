from __future__ import annotations

import json

from ds4watch.alerting.rulefile import load_rules
from ds4watch.engine.explained import explained
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
        expr: fleet:queue > 20
        labels: {severity: warning}
      - alert: Queue
        expr: fleet:queue > 50
        labels: {severity: critical}
      - alert: Share
        expr: ds4_queue_depth / 0 > 1
"""


def test_tiers_come_with_their_own_alerts_and_parts() -> None:
    book = RuleBook(load_rules(RULES, "r.yml"))
    series = MemorySeries()
    series.add(named("ds4_queue_depth", worker="a"), [(10.0, 30.0)])
    alerts = book.evaluate(series, (), 10.0).alerts

    low, high = explained(book.named("Queue"), series, alerts, 10.0)
    assert (low["severity"], low["elements"], high["severity"], high["elements"]) == (
        "warning",
        1,
        "critical",
        0,
    )
    assert [alert["phase"] for alert in low["alerts"]] == ["firing"]
    assert high["alerts"] == []
    assert high["conditions"][0]["nearest"][0]["beyond"] == -20.0
    assert low["parts"][0]["expression"] == "fleet:queue"

    (recording,) = explained(book.named("fleet:queue"), series, alerts, 10.0)
    assert (recording["severity"], recording["elements"]) == (None, 1)
    assert explained(book.named("Gone"), series, alerts, 10.0) == []
    assert book.names() == ("fleet:queue", "Queue", "Share")


def test_infinities_go_into_json_as_texts() -> None:
    book = RuleBook(load_rules(RULES, "r.yml"))
    series = MemorySeries()
    series.add(named("ds4_queue_depth", worker="a"), [(10.0, 30.0)])
    (share,) = explained(book.named("Share"), series, (), 10.0)
    assert share["conditions"][0]["nearest"][0]["value"] == "+Inf"
    json.dumps(share, allow_nan=False)
