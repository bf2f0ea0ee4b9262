"""Case 59: a worker that misses scrapes while it is over a threshold makes one message."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ds4watch.alerting.rulefile import load_rules
from ds4watch.alerting.telling import tell
from ds4watch.engine.rulebook import RuleBook
from ds4watch.history.live import LiveBuffer
from ds4watch.model.alert import AlertState
from tests.edge.engine.test_recorded_doubt import SCHEMA, scrape

RULES = """\
groups:
  - name: g
    rules:
      - {alert: Busy, expr: 'load > 2', for: 30s}
      - {alert: BusyLately, expr: 'avg_over_time(load[1m]) > 2', for: 30s}
      - {alert: AnyBusy, expr: 'max(load) > 2'}
      - {record: twice, expr: 2 * load}
      - {alert: BusyTwice, expr: 'twice > 4'}
"""
STEP_SECONDS = 5


@dataclass
class People:
    """What they are told of a worker that is scraped in a row, by alert."""

    rules: RuleBook = field(default_factory=lambda: RuleBook(load_rules(RULES, "rules.yml")))
    at: float = 1000.0
    alerts: tuple[AlertState, ...] = ()
    told: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._live = LiveBuffer(window_seconds=120.0, windows=self.rules.windows_read())

    def see(self, seconds: int, load: float | None) -> None:
        for _ in range(seconds // STEP_SECONDS):
            self.at += STEP_SECONDS
            self._live.append([scrape("w0", self.at, load)], lambda _: SCHEMA)
            found = self.rules.evaluate(self._live, self.alerts, self.at)
            telling = tell(self.alerts, found.alerts, found.transitions, self.at)
            self.alerts = telling.alerts
            self.told += [(dict(it.labels)["alertname"], it.new.value) for it in telling.messages]


NAMES = ("Busy", "BusyLately", "AnyBusy", "BusyTwice")


@pytest.mark.parametrize("missed_seconds", range(10, 100, 20))
def test_no_end_is_told_without_a_good_sample_and_nothing_is_told_twice(
    missed_seconds: int,
) -> None:
    """Failed scrapes made alerts resolve and fire anew (prometheus/prometheus#14085, #17482)."""
    people = People()
    people.see(120, 9.0)
    for _ in range(3):
        people.see(missed_seconds, None)
        people.see(600 - missed_seconds, 9.0)
    assert sorted(people.told) == sorted((name, "firing") for name in NAMES)
    people.see(120, 0.0)
    ended = [name for name, phase in people.told if phase == "resolved"]
    assert sorted(ended) == sorted(NAMES)


def test_an_alert_that_is_about_to_fire_is_not_put_off_by_missed_scrapes() -> None:
    """`for` begins anew at each miss elsewhere; here what is not seen changes nothing."""
    people = People()
    people.see(15, 9.0)
    people.see(10, None)
    people.see(15, 9.0)
    assert ("Busy", "firing") in people.told
