"""What is expected of the load ahead, from nothing but the past."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.cost.forecast import BIN_SECONDS, BINS_PER_DAY, Floats, History, forecast

MONDAY = 4 * BINS_PER_DAY
"""The first Monday after the epoch."""


def shape(days: int, *, low: float = 30.0, high: float = 300.0) -> Floats:
    """Return counts with office hours on weekdays, and none on weekends."""
    found = np.full(days * BINS_PER_DAY, low)
    for day in range(days):
        if day % 7 < 5:
            begin = day * BINS_PER_DAY
            found[begin + 108 : begin + 216] = high
    return found


def noisy(days: int, seed: int = 5) -> Floats:
    chance = np.random.default_rng(seed)
    heights = chance.lognormal(0, 0.1, days).repeat(BINS_PER_DAY)
    counts: Floats = chance.poisson(shape(days) * heights).astype(np.float64)
    return counts


def test_without_two_days_of_history_nothing_is_said() -> None:
    assert forecast(History(MONDAY, shape(1)), 12) is None
    assert forecast(History(MONDAY, np.empty(0)), 12) is None
    assert forecast(History(MONDAY, shape(9)), 12) is not None


@pytest.mark.parametrize(("days", "expected"), [(11, 300.0), (12, 30.0), (14, 300.0)])
def test_the_office_opens_on_weekdays_only(days: int, expected: float) -> None:
    history = History(MONDAY, shape(days))
    found = forecast(history, BINS_PER_DAY // 2)
    assert found is not None
    noon = found.points[130]
    assert noon.expected * BIN_SECONDS == pytest.approx(expected)
    assert noon.at == (MONDAY + days * BINS_PER_DAY + 130) * BIN_SECONDS


def test_it_knows_of_the_opening_before_any_request_came() -> None:
    values = shape(15)[: 14 * BINS_PER_DAY + 107]  # Monday, five minutes before
    found = forecast(History(MONDAY, values), 3)
    assert found is not None
    start = (MONDAY + len(values)) * BIN_SECONDS
    peak = found.peak(start, start + 600)
    assert peak is not None
    assert peak.high * BIN_SECONDS == pytest.approx(300.0, rel=0.05)


def test_a_busy_day_is_expected_to_go_on_busy_within_bounds() -> None:
    usual = shape(14)
    for factor, least, most in ((1.3, 360.0, 395.0), (9.0, 500.0, 640.0)):
        today = shape(1)[:150] * factor
        found = forecast(History(MONDAY, np.concatenate((usual, today))), 3)
        assert found is not None
        assert least <= found.points[0].expected * BIN_SECONDS <= most


def test_a_burst_of_one_day_is_not_expected_again() -> None:
    values = shape(14)
    values[8 * BINS_PER_DAY + 150 : 8 * BINS_PER_DAY + 153] *= 10
    found = forecast(History(MONDAY, values), 160)
    assert found is not None
    assert found.points[151].high * BIN_SECONDS <= 340.0


def test_a_burst_just_now_hardly_moves_what_is_expected() -> None:
    values = shape(15)[: 14 * BINS_PER_DAY + 150]
    values[-1] *= 10
    found = forecast(History(MONDAY, values), 2)
    assert found is not None
    assert found.points[0].expected * BIN_SECONDS <= 375.0


def test_hours_that_nobody_watched_are_not_taken_for_silence() -> None:
    values = shape(15)[: 14 * BINS_PER_DAY + 150]
    values[-20:] = np.nan
    values[3 * BINS_PER_DAY : 5 * BINS_PER_DAY] = np.nan
    found = forecast(History(MONDAY, values), 2)
    assert found is not None
    assert found.points[0].expected * BIN_SECONDS == pytest.approx(300.0)


def test_silence_that_was_watched_is_expected_to_go_on_quiet() -> None:
    found = forecast(History(MONDAY, np.zeros(14 * BINS_PER_DAY)), 12)
    assert found is not None
    assert {(it.expected, it.high) for it in found.points} == {(0.0, 0.0)}


@pytest.mark.parametrize("coverage", [0.6, 0.8])
def test_walking_forward_the_interval_holds_what_it_states(coverage: float) -> None:
    values = noisy(35)
    inside = total = 0
    for now in range(21 * BINS_PER_DAY, 35 * BINS_PER_DAY - 3, 7):
        found = forecast(History(MONDAY, values[:now]), 3, coverage=coverage)
        assert found is not None
        point = found.points[2]
        inside += point.low <= values[now + 2] / BIN_SECONDS <= point.high
        total += 1
    assert abs(inside / total - coverage) < 0.1


def test_it_beats_both_the_last_value_and_the_same_time_yesterday() -> None:
    values = noisy(35)
    ours = last = yesterday = 0.0
    for now in range(21 * BINS_PER_DAY, 35 * BINS_PER_DAY - 6, 5):
        found = forecast(History(MONDAY, values[:now]), 6)
        assert found is not None
        was = values[now + 5]
        ours += abs(found.points[5].expected * BIN_SECONDS - was)
        last += abs(values[now - 1] - was)
        yesterday += abs(values[now + 5 - BINS_PER_DAY] - was)
    assert ours < 0.8 * last
    assert ours < 0.5 * yesterday


@given(
    st.lists(st.one_of(st.just(float("nan")), st.floats(0, 1e6)), min_size=1, max_size=40),
    st.integers(0, 3000),
    st.integers(1, 20),
)
def test_whatever_was_counted_the_ends_are_in_order_and_finite(
    counts: list[float], length: int, bins: int
) -> None:
    values = np.resize(np.array(counts), length)
    found = forecast(History(MONDAY, values), bins)
    for point in found.points if found is not None else ():
        assert 0 <= point.low <= point.expected <= point.high < float("inf")
