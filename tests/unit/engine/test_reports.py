"""Reports: when they are due, and what they say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from ds4watch.config.notify import ReportSettings
from ds4watch.engine.report_calendar import due_reports
from ds4watch.engine.report_run import Span, lines_of, quantile, rows_of
from ds4watch.history.ledger_values import CostRow, WorkRow
from ds4watch.model.usage import Usage

MONDAY = datetime(2026, 11, 30, tzinfo=UTC).timestamp()
DAY = 86_400.0


@pytest.mark.parametrize(
    ("now", "told", "due"),
    [
        (MONDAY + 7.9 * 3600, {}, []),
        (MONDAY + 8 * 3600, {}, ["daily", "weekly"]),
        (MONDAY + 23 * 3600, {"daily": MONDAY}, ["weekly"]),
        (MONDAY + 8 * 3600, {"daily": MONDAY, "weekly": MONDAY}, []),
        (MONDAY + DAY + 8 * 3600, {"daily": MONDAY, "weekly": MONDAY}, ["daily"]),
    ],
)
def test_a_report_is_due_once(now: float, told: Mapping[str, float], due: list[str]) -> None:
    assert [period for period, _ in due_reports(ReportSettings(), told, now)] == due


def test_reports_that_nobody_wants_are_not_due() -> None:
    settings = ReportSettings(daily=False, weekly=None)
    assert due_reports(settings, {}, MONDAY + 9 * 3600) == []
    sunday = ReportSettings(daily=False, weekly="sun")
    assert due_reports(sunday, {}, MONDAY + 9 * 3600) == []
    assert due_reports(sunday, {}, MONDAY - DAY + 9 * 3600) == [("weekly", MONDAY - DAY)]


def span(money: int, generated: int, p99: float | None = None) -> Span:
    usage = Usage(prompt=1000, cached=600, completion=generated)
    costs = [
        CostRow(MONDAY, "w1", "p", "busy", money * 10**9),
        CostRow(MONDAY + 3600, "w1", "p", "idle", 10**9),
    ]
    return Span(
        MONDAY,
        MONDAY + DAY,
        costs,
        [WorkRow(MONDAY, "k", "m", 10, usage)] if generated else [],
        p99,
    )


def test_figures_stand_before_and_after() -> None:
    rows = {
        it["name"]: (it["before"], it["after"])
        for it in rows_of(span(9, 0), span(4, 86_400, 2.5), "USD")
    }
    assert rows["cost, USD"] == (10, 5)
    assert rows["of it idle, USD"] == (1, 1)
    assert rows["tokens a second"] == (0, 1)
    assert rows["USD a million tokens"] == (None, pytest.approx(5 / 86_400 * 1e6))
    assert rows["P99 of a request, s"] == (None, 2.5)


def test_the_chart_has_the_money_of_each_hour() -> None:
    series = span(9, 1).series(3600.0)
    assert (len(series), series[:3]) == (24, [9, 1, 0])


def test_what_the_cache_saved_is_an_estimate_and_said_to_be() -> None:
    (line,) = lines_of(span(10, 150), "USD")
    reused = Usage(prompt=600, cached=0, completion=0).work
    saved = 10 * reused / Usage(prompt=1000, cached=600, completion=150).work
    assert line == f"prefix cache: 600 prompt tokens reused, about {saved:.2f} USD (estimate)"
    assert lines_of(span(10, 0), "USD") == []


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ({}, None),
        ({1.0: 0.0, math.inf: 0.0}, None),
        ({1.0: 99.0, 2.0: 100.0, math.inf: 100.0}, 1.0),
        ({1.0: 50.0, 2.0: 100.0, math.inf: 100.0}, 1.98),
        ({1.0: 50.0, 2.0: 60.0, math.inf: 100.0}, 2.0),
        ({1.0: 50.0}, None),
    ],
)
def test_a_quantile_is_prometheus_s(counts: Mapping[float, float], found: float | None) -> None:
    got = quantile(0.99, counts)
    assert got == (None if found is None else pytest.approx(found))
