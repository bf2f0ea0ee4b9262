"""A scrape that fails behind a recording rule ends no alert on what was recorded."""

from __future__ import annotations

import numpy as np

from ds4watch.alerting.rulefile import load_rules
from ds4watch.engine.rulebook import RuleBook
from ds4watch.history.live import LiveBuffer
from ds4watch.model.alert import AlertState
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import ScrapeFailure, ScrapeResult, Target
from ds4watch.model.series import Schema, SeriesKey

RULES = """\
groups:
  - name: g
    rules:
      - {record: twice, expr: 2 * load}
      - {alert: Busy, expr: 'twice > 2'}
"""
SCHEMA = Schema(1, (SeriesKey("load"),))
NOT_THERE = ScrapeFailure(EdgeReason.TIMEOUT, "no answer")


def scrape(worker: str, at: float, load: float | None) -> ScrapeResult:
    target = Target(worker, "http://x", (("worker", worker),))
    if load is None:
        return ScrapeResult(target, at, 0, np.empty(0), NOT_THERE)
    return ScrapeResult(target, at, SCHEMA.id, np.array([load]))


def play(*rounds: tuple[float | None, float | None]) -> list[list[tuple[str, str, bool]]]:
    """Scrape two workers each second; return the alerts of each (worker, phase, held)."""
    rules = RuleBook(load_rules(RULES, "rules.yml"))
    live = LiveBuffer(window_seconds=60.0, windows=rules.windows_read())
    alerts: tuple[AlertState, ...] = ()
    seen = []
    for second, loads in enumerate(rounds):
        at = 1000.0 + second
        results = [scrape(f"w{n}", at, load) for n, load in enumerate(loads)]
        live.append(results, lambda _: SCHEMA)
        alerts = rules.evaluate(live, alerts, at).alerts
        seen.append([(dict(it.labels)["worker"], it.phase.value, it.held) for it in alerts])
    return seen


def test_an_alert_on_what_cannot_be_recorded_is_held_until_it_can() -> None:
    *_, held, still, back = play((9, 0), (None, 0), (None, 0), (9, 0))
    assert held == still == [("w0", "firing", True)]
    assert back == [("w0", "firing", False)]


def test_what_is_gone_for_good_once_scrapes_are_good_again_ends() -> None:
    rules = RuleBook(load_rules(RULES.replace("2 * load", "2 * (load > 1)"), "rules.yml"))
    live = LiveBuffer(window_seconds=60.0, windows=rules.windows_read())
    alerts: tuple[AlertState, ...] = ()
    seen = []
    for second, load in enumerate([9.0, None, None, 0.0, 0.0]):
        live.append([scrape("w0", 1000.0 + second, load)], lambda _: SCHEMA)
        alerts = rules.evaluate(live, alerts, 1000.0 + second).alerts
        seen += [(it.phase.value, it.held) for it in alerts]
    held = ("firing", True)
    assert seen == [("firing", False), held, held, ("resolved", False), ("resolved", False)]


def test_another_target_s_failure_holds_nothing() -> None:
    assert play((9, 0), (0, None))[-1] == [("w0", "resolved", False)]


def test_the_alert_of_the_last_target_ends_when_it_is_removed_on_purpose() -> None:
    hold = "expr: 'load > 2', annotations: {ds4_on_no_data: hold}"
    text = RULES.replace("expr: 'twice > 2'", hold)
    rules = RuleBook(load_rules(text, "rules.yml"))
    live = LiveBuffer(window_seconds=60.0, windows=rules.windows_read())
    live.append([scrape("w0", 1000.0, 9.0)], lambda _: SCHEMA)
    firing = rules.evaluate(live, (), 1000.0).alerts
    assert [it.phase.value for it in firing] == ["firing"]
    live.remove_target("w0", 1001.0)
    ended = rules.evaluate(live, firing, 1001.0, removed=live.removed.values()).alerts
    assert [it.phase.value for it in ended] == ["resolved"]
    live.append([scrape("w0", 1002.0, 9.0)], lambda _: SCHEMA)
    assert not live.removed
