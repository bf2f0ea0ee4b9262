from __future__ import annotations

import io

import pytest
from rich.console import Console

from ds4watch.cli.display import money, number, percent, signal, status_view
from ds4watch.cli.hold import seconds_of
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


def test_alerts_are_shown_worst_first_and_the_watchdog_last() -> None:
    given = [
        {"name": "Watchdog", "phase": "firing", "severity": "none"},
        {"name": "Over", "phase": "resolved", "severity": "critical"},
        {"name": "Soon", "phase": "pending", "severity": "critical"},
        {"name": "Bad", "phase": "firing", "severity": "warning"},
        {"name": "Worst", "phase": "firing", "severity": "critical"},
    ]
    shown = text_of({"alerts": given})
    places = [shown.index(name) for name in ("Worst", "Bad", "Soon", "Over", "Watchdog")]
    assert places == sorted(places)
    assert "No alert is pending or firing" not in shown


def test_a_watchdog_alone_is_no_alert_to_worry_about() -> None:
    shown = text_of({"alerts": [{"name": "Watchdog", "phase": "firing", "severity": "none"}]})
    assert "No alert is pending or firing" in shown
    assert "Watchdog" in shown


def text_of(status: dict[str, object]) -> str:
    written = io.StringIO()
    Console(file=written, width=200, no_color=True).print(status_view(status))
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
