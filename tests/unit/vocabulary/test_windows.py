"""Ratios and rates over the last minute, of several workers at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.series import STALE_NAN, FloatArray, is_stale
from ds4watch.vocabulary.names import EXPOSED
from ds4watch.vocabulary.windows import (
    COUNTERS,
    RATIOS,
    STALE_AFTER_SECONDS,
    Heartbeats,
    Windows,
)
from tests.unit.vocabulary.reference import Point, derived

SOURCES = np.arange(6)
NONE = (math.nan,) * 6
ABSENT = [math.nan] * 5

Row = tuple[float | None, ...]


def counters(row: Row) -> tuple[float, ...]:
    return tuple(math.nan if it is None else float(it) for it in row)


def push(windows: Windows, row: int, at: float, values: Sequence[float]) -> list[float]:
    found = windows.advance(np.array([row]), np.array([at]), np.array([values]), SOURCES)
    assert is_stale(found)[np.isnan(found)].all()
    return list(found[0].tolist())


def last_of(*rows: Row) -> list[float]:
    """Return the ratios after the last of the scrapes (instant, counters…)."""
    windows = Windows()
    windows.clear(np.array([0]))
    found = ABSENT
    for at, *values in rows:
        found = push(windows, 0, at or 0.0, counters(tuple(values)))
    return found


def same(found: Sequence[float], expected: Sequence[float]) -> bool:
    return bool(np.allclose(found, expected, rtol=1e-9, atol=1e-12, equal_nan=True))


def test_ratios_and_speeds_follow_from_the_increase_over_the_window() -> None:
    found = last_of(
        (100, 1000, 400, 600, 50, 2, 4),
        (110, 1100, 430, 670, 70, 3, 7),
        (120, 1200, 460, 740, 90, 3, 7),
    )
    assert same(found, [1 - 140 / 200, 60 / (60 + 40), 1 / 4, 10.0, 2.0])


@pytest.mark.parametrize(
    "rows",
    [
        [(1, 5, 5, 0, 5, 1, 1)],
        [(1, 5, 5, 0, 5, 1, 1), (2, 5, 5, 0, 5, 1, 1)],
        [(1, *[None] * 6), (2, *[None] * 6)],
        [(1, 5, 5, 0, 5, 1, 1), (1, 9, 9, 0, 9, 2, 2)],
        [(1, 0, 0, 0, 0, 0, 0), (99, 9, 9, 0, 9, 2, 2)],
    ],
    ids=["one point", "no traffic", "not reported", "no time", "all before the window"],
)
def test_without_traffic_everything_is_absent(rows: list[Row]) -> None:
    assert same(last_of(*rows), ABSENT)


def test_only_the_last_minute_counts() -> None:
    found = last_of((0, *[0] * 6), (40, 9000, 9000, 0, 10, 1, 1), (100, 9060, 9000, 60, 10, 1, 1))
    assert found[0] == 0.0
    assert found[3] == pytest.approx(1.0)


def test_a_restart_costs_nothing_but_what_was_counted_unseen() -> None:
    found = last_of(
        (0, 1000, 500, 500, 100, 10, 10),
        (10, 1010, 505, 505, 110, 11, 11),
        (20, 20, 5, 15, 5, 1, 0),
    )
    assert found[3] == pytest.approx(30 / 20)
    assert found[0] == pytest.approx(1 - 20 / 30)
    assert found[2] == pytest.approx(2 / 3)


def test_case_30_totals_are_kept_over_a_restart_within_the_window() -> None:
    found = last_of((0, 0, 0, 0, 0, 0, 0), (10, 250, 0, 0, 0, 0, 0), (20, 3, 0, 0, 0, 0, 0))
    assert found[3] == pytest.approx(253 / 20)


def test_a_counter_that_dips_alone_is_not_taken_for_a_restart() -> None:
    found = last_of(
        (0, 100, 50, 50, 10, 1, 1), (10, 110, 45, 50, 20, 1, 1), (20, 120, 55, 50, 30, 1, 1)
    )
    assert found[1] == pytest.approx(10 / (10 + 20))


def test_a_million_tokens_that_fall_by_ten_are_not_counted_a_second_time() -> None:
    found = last_of((0, 1e6, 0, 0, 10, 0, 0), (10, 1e6 - 10, 0, 0, 20, 0, 0))
    assert found[3] == 0.0


def test_a_counter_that_is_not_reported_leaves_only_its_own_ratios_absent() -> None:
    found = last_of((0, 0, None, None, 0, None, None), (10, 30, None, None, 20, None, None))
    assert same(found, [math.nan, math.nan, math.nan, 3.0, 2.0])


def test_case_13_hits_that_run_ahead_of_their_prompts_never_make_a_negative_ratio() -> None:
    assert last_of((0, *[0] * 6), (9, 5, 0, 64, 0, 0, 0))[0] == 0.0


def test_a_page_served_by_other_names_is_not_compared_with_the_last() -> None:
    windows = Windows()
    windows.clear(np.array([0]))
    push(windows, 0, 0.0, [100, 10, 0, 0, 0, 0])
    others = windows.advance(
        np.array([0]),
        np.array([1.0]),
        np.array([[101.0, 5e6, 0, 1, 0, 0]]),
        np.array([0, 9, 2, 3, 4, 5]),
    )
    assert math.isnan(others[0, 1])
    assert others[0, 3] == pytest.approx(1.0)


def test_a_scrape_that_comes_late_or_twice_changes_nothing() -> None:
    windows = Windows()
    windows.clear(np.array([0]))
    push(windows, 0, 0.0, [0] * 6)
    push(windows, 0, 10.0, [10, 0, 0, 10, 0, 0])
    assert same(push(windows, 0, 10.0, [10, 0, 0, 10, 0, 0]), ABSENT)
    assert same(push(windows, 0, 5.0, [1e9, 0, 0, 1e9, 0, 0]), ABSENT)
    assert push(windows, 0, 20.0, [20, 0, 0, 20, 0, 0])[3] == pytest.approx(1.0)


@pytest.mark.parametrize("step", [-3600.0, -30.0, 3600.0])
def test_a_step_of_the_clock_gives_no_wild_rate_and_is_overcome(step: float) -> None:
    windows = Windows()
    windows.clear(np.array([0]))
    rates = []
    for second in range(200):
        at = 10_000.0 + second + (step if second >= 50 else 0.0)
        rates.append(push(windows, 0, at, [7.0 * second, 0, 0, 0, 0, 0])[3])
    assert all(math.isnan(rate) or 0 <= rate <= 7.0 * (1 + 1e-9) for rate in rates)
    assert rates[-1] == pytest.approx(7.0)


def test_scrapes_many_times_a_second_keep_their_whole_window() -> None:
    windows = Windows()
    windows.clear(np.array([0]))
    for tick in range(900):
        found = push(windows, 0, tick * 0.2, [float(tick**2)] + [0.0] * 5)
    first, last = (899 - 300) ** 2, 899**2
    assert found[3] == pytest.approx((last - first) / 60.0)


def test_a_row_that_is_given_to_another_worker_remembers_nothing() -> None:
    windows = Windows()
    windows.clear(np.array([0, 1]))
    push(windows, 1, 0.0, [5.0] * 6)
    windows.clear(np.array([1]))
    assert same(push(windows, 1, 1.0, [500.0] * 6), ABSENT)


NUMBERS = st.one_of(st.integers(0, 3000).map(float), st.just(math.nan))
STEPS = st.sampled_from([-7200.0, -61.0, -20.0, -0.0, 0.5, 1.0, 1.0, 1.0, 5.0, 15.0, 59.0, 61.0])


@st.composite
def stories(draw: st.DrawFn) -> list[Point]:
    """Draw scrapes of one worker: counters that rise, restart, dip, appear and vanish."""
    at, now = 1e9, [draw(NUMBERS) for _ in COUNTERS]
    story = []
    for _ in range(draw(st.integers(1, 25))):
        at += draw(STEPS)
        kind = draw(st.sampled_from(["rise"] * 6 + ["restart", "any"]))
        if kind == "rise":
            now = [value + draw(st.integers(0, 50)) for value in now]
        elif kind == "restart":
            now = [draw(st.integers(0, 20)) * 1.0 for _ in now]
        else:
            now = [draw(NUMBERS) for _ in now]
        story.append((at, tuple(now)))
    return story


@given(st.lists(stories(), min_size=1, max_size=4))
def test_all_at_once_equals_one_by_one(told: list[list[Point]]) -> None:
    windows = Windows()
    windows.clear(np.arange(len(told)))
    for turn in range(max(map(len, told))):
        rows = [row for row, story in enumerate(told) if turn < len(story)]
        found = windows.advance(
            np.array(rows),
            np.array([told[row][turn][0] for row in rows]),
            np.array([told[row][turn][1] for row in rows]),
            SOURCES,
        )
        for row, ratios in zip(rows, found.tolist(), strict=True):
            expected = derived(told[row][: turn + 1])
            assert np.allclose(ratios, expected, rtol=1e-9, atol=1e-12, equal_nan=True)


@given(stories())
def test_case_13_no_ratio_ever_leaves_zero_to_one_and_no_speed_is_negative(
    story: list[Point],
) -> None:
    windows = Windows()
    windows.clear(np.array([0]))
    for at, values in story:
        *ratios, prompt, generated = push(windows, 0, at, values)
        assert all(math.isnan(ratio) or 0 <= ratio <= 1 for ratio in ratios)
        assert all(math.isnan(it) or 0 <= it < math.inf for it in (prompt, generated))


def test_every_ratio_is_a_named_signal() -> None:
    for name, kind, needed in RATIOS:
        assert set(EXPOSED[name].labels) >= ({"kind"} if kind else {"model"})
        assert set(needed) <= set(COUNTERS)


def beat(
    beats: Heartbeats, at: float, progress: float, busy: float, still: float = math.nan
) -> float:
    given = (np.array([it]) for it in (at, progress, busy, still))
    found: FloatArray = beats.note(np.array([0]), *given)
    return float(found[0])


def test_gauges_are_stale_once_a_busy_engine_has_not_moved_for_long() -> None:
    beats = Heartbeats()
    beats.clear(np.array([0]))
    assert beat(beats, 0.0, 100.0, 106.0) == 0
    assert beat(beats, STALE_AFTER_SECONDS - 1, 100.0, 106.0) == 0
    assert beat(beats, STALE_AFTER_SECONDS, 100.0, 106.0) == 1
    assert beat(beats, STALE_AFTER_SECONDS + 1, 101.0, 106.0) == 0


def test_an_idle_engine_is_not_stale_and_one_without_counters_is_unknown() -> None:
    beats = Heartbeats()
    beats.clear(np.array([0]))
    beat(beats, 0.0, 100.0, 0.0)
    assert beat(beats, 900.0, 100.0, 0.0) == 0
    assert beat(beats, 901.0, 100.0, math.nan) == 0
    assert math.isnan(beat(beats, 902.0, STALE_NAN, 5.0))


def test_where_it_is_known_what_canaries_moved_that_decides() -> None:
    beats = Heartbeats()
    beats.clear(np.array([0]))
    beat(beats, 0.0, 100.0, 1.0, 0.0)
    assert beat(beats, STALE_AFTER_SECONDS, 104.0, 1.0, STALE_AFTER_SECONDS) == 1
    # A prefill in chunks moves the KV cache's gauge and no counter: it does not stand still.
    assert beat(beats, 3 * STALE_AFTER_SECONDS, 104.0, 1.0, 0.0) == 0
