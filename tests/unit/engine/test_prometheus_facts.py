"""Rules, alerts and targets in Prometheus's shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ds4watch.alerting.rulefile import load_rules
from ds4watch.engine.parts import Known
from ds4watch.engine.prometheus_facts import PrometheusFacts
from ds4watch.engine.rulebook import RuleBook
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import ScrapeFailure, ScrapeResult, Target
from ds4watch.scrape.options import ScrapeOptions
from tests.unit.promql.memory import WritableMemory, named

AT = 1_700_000_000.5
RULES = """\
groups:
  - name: g
    interval: 5s
    rules:
      - {record: doubled, expr: 2 * depth, labels: {by: us}}
      - alert: Long
        expr: depth > 10
        for: 1m
        keep_firing_for: 2m
        labels: {severity: warning}
        annotations: {summary: "{{ $value }} wait"}
      - {alert: Broken, expr: depth * on (nothing) many}
  - name: quiet
    rules:
      - {alert: Never, expr: depth < 0}
"""


@pytest.fixture
def facts() -> PrometheusFacts:
    """Return those of a daemon after one round, in which Long began to be pending."""
    book, live = RuleBook(load_rules(RULES, "r.yml")), WritableMemory()
    live.add(named("depth"), [(AT, 23.0)])
    for worker in ("w1", "w2"):
        live.add(named("many", worker=worker), [(AT, 1.0)])
    known = Known(alerts=book.evaluate(live, (), AT).alerts)
    return PrometheusFacts(known, book, {"mine": ScrapeOptions(15.0, 10.0)})


def test_groups_tell_how_their_rules_stand(facts: PrometheusFacts) -> None:
    first, quiet = facts.rule_groups()
    assert (first["name"], first["file"], first["interval"]) == ("g", "r.yml", 5.0)
    assert first["lastEvaluation"] == "2023-11-14T22:13:20.500Z"
    recording, long, broken = first["rules"]
    assert (recording["type"], recording["name"]) == ("recording", "doubled")
    assert (recording["query"], recording["labels"]) == ("2 * depth", {"by": "us"})
    assert (long["type"], long["state"], long["health"]) == ("alerting", "pending", "ok")
    assert (long["duration"], long["keepFiringFor"]) == (60.0, 120.0)
    assert long["annotations"] == {"summary": "{{ $value }} wait"}
    assert long["alerts"] == facts.alerts()
    assert (broken["health"], broken["alerts"]) == ("err", [])
    assert "many" in broken["lastError"]
    (never,) = quiet["rules"]
    assert (never["state"], never["health"]) == ("inactive", "ok")


def test_rules_that_were_not_evaluated_yet_are_unknown() -> None:
    facts = PrometheusFacts(Known(), RuleBook(load_rules(RULES, "r.yml")), {})
    for group in facts.rule_groups():
        assert group["lastEvaluation"].startswith("0001-01-01")
        assert {rule["health"] for rule in group["rules"]} == {"unknown"}


def test_alerts_are_told_as_prometheus_tells_them(facts: PrometheusFacts) -> None:
    assert facts.alerts() == [
        {
            "labels": {"alertname": "Long", "severity": "warning"},
            "annotations": {"summary": "23 wait"},
            "state": "pending",
            "activeAt": "2023-11-14T22:13:20.500Z",
            "value": "2.3e+01",
        }
    ]


def test_targets_tell_of_their_last_scrape(facts: PrometheusFacts) -> None:
    targets = [
        Target(name, f"http://{name}/metrics", (("worker", name),), group)
        for name, group in (("good", "mine"), ("bad", "other"), ("new", "other"))
    ]
    failure = ScrapeFailure(EdgeReason.TIMEOUT, "no answer in 5 s")
    nothing = np.empty(0)
    facts.known.targets = tuple(targets)
    facts.known.scraped = {
        "good": ScrapeResult(targets[0], AT, 1, nothing, None, 0.25),
        "bad": ScrapeResult(targets[1], AT, 0, nothing, failure, 5.0),
    }
    good, bad, new = facts.targets()
    assert good == {
        "discoveredLabels": {},
        "labels": {"worker": "good"},
        "scrapePool": "mine",
        "scrapeUrl": "http://good/metrics",
        "globalUrl": "http://good/metrics",
        "lastError": "",
        "lastScrape": "2023-11-14T22:13:20.500Z",
        "lastScrapeDuration": 0.25,
        "health": "up",
        "scrapeInterval": "15s",
        "scrapeTimeout": "10s",
    }
    assert (bad["health"], bad["lastError"]) == ("down", "no answer in 5 s")
    assert (new["health"], new["lastScrape"][:4]) == ("unknown", "0001")


def test_metadata_tells_types_of_our_own_and_of_the_engines(facts: PrometheusFacts) -> None:
    told: Any = facts.metadata()
    assert told["ds4_queue_depth"][0]["type"] == "gauge"
    assert told["ds4_queue_depth"][0]["help"]
    assert told["vllm:prompt_tokens_total"][0]["type"] == "counter"
    assert told["vllm:prefix_cache_hits"][0]["type"] == "counter"
    assert told["vllm:num_requests_running"][0]["type"] == "gauge"
    assert told["vllm:e2e_request_latency_seconds"][0]["type"] == "histogram"
