from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from ds4watch.cli.top_view import Past, Room, bar, frame, sparkline

RATE = 'ds4_tokens_per_second{kind="generated"}'


def status(rate: float, waiting: float = 0, **more: Any) -> dict[str, Any]:
    worker = {
        "id": "w-0",
        "phase": "ready",
        "load": {"running": 3, "waiting": waiting, "kv_usage_ratio": 0.95},
        "signals": {RATE: rate, "ds4_cache_miss_ratio": 0.25},
    }
    return {
        "at": 1.8e9,
        "version": "0.1.0",
        "policy": {"level": 1, "level_name": "shorter", "reason": "QueueDepthHigh"},
        "cost": {"currency": "USD", "per_hour": "1.9", "spent_today": "0.5"},
        "fleet": [worker],
        "signals": {"ds4_queue_depth": waiting},
        "alerts": [],
    } | more


def drawn(found: Any, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width, no_color=True)
    console.print(found)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_frame_shows_load_level_cost_and_the_story() -> None:
    past = Past()
    for rate in (0.0, 50.0, 100.0):
        past.add(status(rate))
    row = {"at": 1.8e9, "kind": "level", "summary": "level 1", "target": "default"}
    text = drawn(frame(status(100.0), [row], past, Room(160)))
    assert "level 1 (shorter)" in text
    assert "why: QueueDepthHigh" in text
    assert "1.90 USD an hour" in text
    assert "██████████ 95.0 %" in text
    assert "75.0 %" in text
    assert "▁" in text
    assert "█" in text
    assert "none is pending or firing" in text
    assert "level 1" in text.splitlines()[-1]


def test_an_alert_says_what_it_is_about() -> None:
    alert = {"name": "QueueDepthHigh", "phase": "firing", "severity": "warning", "value": 61}
    watchdog = {"name": "Watchdog", "phase": "firing", "severity": "none"}
    alerts = [alert | {"summary": "61 wait"}, watchdog]
    text = drawn(frame(status(1.0, alerts=alerts), [], Past(), Room(160)))
    assert "QueueDepthHigh (warning, firing since" in text
    assert "61 wait" in text
    assert "Watchdog" not in text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (60, 20), (200, 60)])
def test_a_frame_of_a_big_fleet_in_trouble_fits_the_terminal(width: int, height: int) -> None:
    busy = status(100.0)
    worker = busy["fleet"][0]
    busy["fleet"] = [worker | {"id": f"a-long-name-of-a-model-{it}"} for it in range(50)]
    busy["fleet"][-1] |= {"phase": "quarantined"}
    alert = {"phase": "firing", "severity": "warning", "value": 1, "summary": "it is bad"}
    busy["alerts"] = [alert | {"name": f"Rule{it}"} for it in range(40)]
    row = {"at": 1.8e9, "kind": "level", "summary": "level 1", "target": "default"}
    lines = drawn(frame(busy, [row] * 20, Past(), Room(width, height)), width).splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "quarant" in text
    assert "more: ds4watch workers" in text
    assert "Rule0 (warning" in text
    assert "level 1" in lines[-1]


def test_80_columns_show_each_figure_whole() -> None:
    text = drawn(frame(status(1234.5, waiting=19), [], Past(), Room(80, 24)), 80)
    row = next(line for line in text.splitlines() if line.startswith("w-0"))
    assert row.split() == ["w-0", "ready", "3", "19", "█████", "95.0", "%", "75.0", "%", "1,234.50"]


def test_a_worker_that_is_gone_is_forgotten() -> None:
    past = Past()
    past.add(status(5.0))
    past.add(status(5.0) | {"fleet": []})
    assert past.line("rate of w-0") == ""


def test_what_was_seen_is_bounded() -> None:
    past = Past()
    for _ in range(500):
        past.add(status(5.0))
    assert len(past.line("rate of w-0", cells=1000)) == 60


@pytest.mark.parametrize(
    ("values", "line"),
    [([], ""), ([0, 0], "▁▁"), ([0, 7], "▁█"), ([1, 2, 3, 4], "▃▅▆█"), ([-1, 1], "▁█")],
)
def test_the_highest_reading_is_a_full_block(values: list[float], line: str) -> None:
    assert sparkline(values) == line


def test_a_bar_without_a_reading_is_a_dash() -> None:
    assert bar(None).plain == "-"
    assert bar(1.7).plain.startswith("█" * 10)
