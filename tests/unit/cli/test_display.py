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
