from __future__ import annotations

import io

import pytest
from rich.console import Console, Group

from ds4watch.cli.display import money, number, percent, shortened, signal
from ds4watch.cli.hold import seconds_of
from ds4watch.cli.status_view import status_parts
from ds4watch.model.errors import ConfigError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (float("nan"), "-"),
        (0, "0"),
        (23.0, "23"),
        (12345.0, "12,345"),
        (812.456, "812.46"),
        (0.123456, "0.1235"),
        (True, "-"),
    ],
)
def test_a_number_is_short_and_absence_is_a_dash(value: float | None, text: str) -> None:
    assert number(value) == text


def test_signals_are_shown_in_the_unit_of_their_name() -> None:
    assert signal("ds4_cache_miss_ratio", 0.25) == "25.0 %"
    assert signal("ds4_gpu_memory_used_bytes", 3 * 2**30) == "3.00 GiB"
    assert signal("ds4_gpu_memory_used_bytes", None) == "-"
    assert percent(None) == "-"


def test_money_has_four_places_under_one_unit() -> None:
    assert money("0.0317", "USD") == "0.0317 USD"
    assert money("12.4", "EUR") == "12.40 EUR"
    assert money(None, "EUR") == "-"


def test_spans_are_read_and_nonsense_is_refused() -> None:
    assert [seconds_of(span) for span in ("30", "30s", "1.5m", "2h", "1d")] == [
        30, 30, 90, 7200, 86400,
    ]  # fmt: skip
    for span in ("", "0", "-1", "soon", "1w"):
        with pytest.raises(ConfigError):
            seconds_of(span)


@pytest.mark.parametrize("state", ["unmonitored", "no engine metrics"])
def test_case_25_and_26_a_worker_that_cannot_be_seen_is_said_to_be_so(state: str) -> None:
    worker = {"id": "a-0", "phase": "ready", "models": ["a"], "reason": "answered a canary"}
    seen = worker | {"monitoring": {"state": "monitored", "since": 0.0, "why": ""}}
    blind = worker | {"monitoring": {"state": state, "since": 0.0, "why": "answered 500"}}
    assert f"ready, {state}" in text_of({"fleet": [blind]})
    assert "answered 500" in text_of({"fleet": [blind]})
    assert "monitored" not in text_of({"fleet": [seen]})


def test_case_4_requests_that_stand_still_are_said_to_do_so() -> None:
    worker = {"id": "a-0", "phase": "ready", "models": ["a"], "standstill_seconds": 75.0}
    assert "stood still for 75 s" in text_of({"fleet": [worker]})
    assert "stood still" not in text_of({"fleet": [worker | {"standstill_seconds": 2.0}]})


def test_alerts_are_shown_worst_first_then_the_watchdog_and_what_is_over() -> None:
    given = [
        {"name": "Watchdog", "phase": "firing", "severity": "none"},
        {"name": "Over", "phase": "resolved", "severity": "critical"},
        {"name": "Soon", "phase": "pending", "severity": "critical"},
        {"name": "Bad", "phase": "firing", "severity": "warning"},
        {"name": "Worst", "phase": "firing", "severity": "critical"},
    ]
    shown = text_of({"alerts": given})
    places = [shown.index(name) for name in ("Worst", "Bad", "Soon", "Watchdog", "Over")]
    assert places == sorted(places)
    assert "No alert is pending or firing" not in shown


def test_a_watchdog_alone_is_no_alert_to_worry_about() -> None:
    shown = text_of({"alerts": [{"name": "Watchdog", "phase": "firing", "severity": "none"}]})
    assert "No alert is pending or firing" in shown
    assert "Watchdog" in shown


def test_what_is_over_takes_one_line_with_how_many() -> None:
    alerts = [alert("CacheMissHigh", f"a-{it}", phase="resolved") for it in range(6)]
    alerts.append({"name": "QueueDepthHigh", "phase": "resolved", "severity": "info"})
    shown = text_of({"alerts": alerts})
    assert "resolved lately: CacheMissHigh (6), QueueDepthHigh" in shown
    assert "No alert is pending or firing" in shown


def test_many_alike_share_a_row_that_names_some_and_few_have_one_each() -> None:
    shown = text_of({"alerts": [alert("ScrapeDown", f"a-{it}") for it in range(9)]})
    assert shown.count("ScrapeDown") == 1
    assert "a-0 is silent (and 8 alike: a-1, a-2, a-3, 5 more)" in shown
    assert (
        text_of({"alerts": [alert("ScrapeDown", f"a-{it}") for it in range(3)]}).count("Scr") == 3
    )


def test_80_columns_are_enough_and_a_long_name_keeps_its_end() -> None:
    name = "a-very-long-name-of-a-model-that-somebody-chose-0"
    worker = {"id": name, "phase": "failed", "models": ["a"], "reason": "it ended with status 2"}
    alerts = [alert("ScrapeDown", name), alert("WorkerNotReady", name)]
    shown = text_of({"fleet": [worker, worker | {"id": "b-1"}], "alerts": alerts}, width=80)
    lines = shown.splitlines()
    assert f"{shortened(name, 24)}  failed" in shown
    assert f"{name}: it ended with status 2" in shown
    assert "ScrapeDown (warning, firing since" in shown
    assert max(map(len, lines)) <= 80
    assert len(lines) < 20


def test_a_name_is_shortened_in_its_middle() -> None:
    assert shortened("worker-17", 9) == "worker-17"
    assert shortened("sim-quantized-17", 9) == "sim-…d-17"


def test_what_waits_for_approval_says_who_may_and_how() -> None:
    action: dict[str, object] = {
        "id": "restart_worker:a-0:1",
        "kind": "restart_worker",
        "target": "a-0",
    }
    action |= {"status": "waiting", "reason": "it is slow", "approvers": ["*"], "expires_at": 1.8e9}
    told = "restart_worker on a-0: it is slow; anybody may say yes until "
    shown = text_of({"steering": {"actions": [action]}})
    assert f"waits for approval: {told}" in shown
    assert "ds4watch approve restart_worker:a-0:1" in shown


def alert(name: str, worker: str, phase: str = "firing") -> dict[str, object]:
    labels = {"alertname": name, "worker": worker}
    told = {"summary": f"{worker} is silent", "since": 1.8e9, "value": 1}
    return {"name": name, "phase": phase, "severity": "warning", "labels": labels} | told


def text_of(status: dict[str, object], width: int = 200) -> str:
    written = io.StringIO()
    Console(file=written, width=width, no_color=True).print(Group(*status_parts(status, width)))
    return written.getvalue()


def test_a_rolling_change_is_shown_while_it_is_under_way() -> None:
    change = {
        "status": "running",
        "paused": False,
        "at": 2,
        "steps": [{}] * 4,
        "waiting": "a waits",
    }
    assert "rolling change running, step 2 of 4: a waits" in text_of({"change": change})
    done = change | {"status": "done"}
    assert "rolling change" not in text_of({"change": done})
