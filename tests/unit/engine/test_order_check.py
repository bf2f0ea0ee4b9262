"""Scrapes, rule windows, and the bounds of scaler, shedding and router: what has to be ordered."""

from __future__ import annotations

import pytest

from ds4watch.alerting.rulefile import RuleFile, read_rules
from ds4watch.config.files import read_text
from ds4watch.config.lints.findings import Severity
from ds4watch.config.profile import Engine, Profile
from ds4watch.config.settings import FleetSettings, ScrapeSettings, Settings, WorkerSettings
from ds4watch.config.shipped import shipped
from ds4watch.config.source import SourceKind, SourceSettings
from ds4watch.engine.order_check import check_order
from ds4watch.policy.policyfile import PolicyFile, load_policy

SHIPPED = [
    read_rules(read_text(path), path.name) for path in sorted(shipped("rules").glob("*.yml"))
]
POLICY = load_policy(read_text(shipped("serving/policy.yml")), "policy.yml")
SPARE = WorkerSettings(profile="p", count=4, spare=2)
PAIR = WorkerSettings(profile="p", count=2)


def profile(**more: object) -> Profile:
    return Profile.model_validate(
        {"name": "p", "engine": Engine.SIM, "served_names": ["p"], "max_num_seqs": 8, **more}
    )


def rules(expr: str, alert: str = "QueueDepthHigh") -> RuleFile:
    return read_rules(
        "groups:\n  - name: g\n    rules:\n"
        f"      - alert: {alert}\n        expr: {expr}\n        labels: {{severity: warning}}\n",
        "r.yml",
    )


def told(
    files: list[RuleFile],
    *,
    settings: Settings | None = None,
    workers: WorkerSettings = SPARE,
    own: Profile | None = None,
    policy: PolicyFile = POLICY,
) -> list[tuple[Severity, str]]:
    found = check_order(
        settings or Settings(), {"p": own or profile()}, [workers], files, policy, file="d.yml"
    )
    return [(it.severity, str(it.found)) for it in found]


@pytest.mark.parametrize("workers", [PAIR, SPARE])
def test_what_ships_is_in_order(workers: WorkerSettings) -> None:
    assert told(SHIPPED, workers=workers) == []


@pytest.mark.parametrize(
    ("interval", "severity", "words"),
    [
        (10.0, None, ""),
        (15.0, None, ""),
        (20.0, Severity.WARNING, "holds too few where one is late"),
        (30.0, Severity.WARNING, "holds too few where one is late"),
        (30.1, Severity.ERROR, "hardly ever holds two"),
    ],
)
def test_a_rules_window_has_to_hold_several_scrapes(
    interval: float, severity: Severity | None, words: str
) -> None:
    settings = Settings(scrape=ScrapeSettings(interval_seconds=interval))
    files = [rules("sum(rate(ds4_x_total[5m])) / sum(rate(ds4_y_total[1m])) > 1", alert="A")]
    found = told(files, settings=settings)
    assert [it for it, _ in found] == ([severity] if severity else [])
    for _, line in found:
        assert line.startswith("r.yml:5: groups[0].rules[0].expr: A: its window of 60 s")
        assert words in line


def test_windows_over_somebody_elses_scrapes_are_not_ours_to_judge() -> None:
    source = SourceSettings.model_validate({"kind": SourceKind.PROMETHEUS, "url": "http://p:9090"})
    settings = Settings(scrape=ScrapeSettings(interval_seconds=30), source=source)
    assert told([rules("rate(x[1m]) > 0", alert="A")], settings=settings) == []


@pytest.mark.parametrize(
    ("expr", "bound"),
    [
        ("sum(ds4_queue_depth) > 12", "only over 12 (fleet.wake_waiting x 3 ready workers)"),
        ("10 < sum(ds4_queue_depth unless on (worker) x == 1)", "only over 12"),
        ("ds4_kv_usage_ratio > 0.8 and on () up", "only over 0.85 (fleet.wake_kv_usage_ratio)"),
    ],
)
def test_who_degrades_before_anybody_is_called_is_told(expr: str, bound: str) -> None:
    ((severity, line),) = told([rules(expr)])
    assert severity is Severity.WARNING
    assert line.startswith("r.yml:5: groups[0].rules[0].expr: QueueDepthHigh degrades")
    assert bound in line
    assert told([rules(expr)], workers=PAIR) == [], "nobody rests: nobody could be called"
    assert told([rules(expr, alert="OnlyTold")]) == [], "no binding: it only tells"


def test_a_bound_above_that_of_the_scaler_is_in_order() -> None:
    assert told([rules("sum(ds4_queue_depth) > 13")]) == []
    assert told([rules("ds4_kv_usage_ratio > 0.9")]) == []


def test_sleepers_count_only_where_workers_are_put_to_sleep() -> None:
    sleepy = profile(sleep=True)
    files = [rules("sum(ds4_queue_depth) > 1")]
    assert told(files, workers=PAIR, own=sleepy) == []
    fleet = Settings(fleet=FleetSettings(sleep_after_seconds=60))
    assert len(told(files, workers=PAIR, own=sleepy, settings=fleet)) == 1


def test_a_router_that_lets_too_few_wait_never_lets_the_scaler_see_it() -> None:
    ((severity, line),) = told([], own=profile(max_inflight=10))
    assert severity is Severity.WARNING
    assert line == (
        "d.yml: fleet.wake_waiting: is 4, but at a worker of p never more than 2 wait: the gateway "
        "has 10 open there at most, and 8 of them run (lower it, or raise max_inflight of p)"
    )
    assert told([], own=profile(max_inflight=13)) == []
    assert told([], own=profile(max_inflight=10), workers=PAIR) == []
