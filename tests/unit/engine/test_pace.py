"""When ticks are due, and which of them were late."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.engine.pace import Pace


@pytest.mark.parametrize(
    ("ended", "due", "late"),
    [
        (9.5, 10.0, False),
        (10.0, 10.0, False),
        (10.2, 11.0, True),
        (11.0, 11.0, True),
        (12.999, 13.0, True),
        (500.5, 501.0, True),
    ],
)
def test_a_late_tick_is_followed_by_the_next_of_the_same_grid(
    ended: float, due: float, late: bool
) -> None:
    pace = Pace(1.0, 9.0)
    pace.begin(9.0, early=False)
    assert pace.end(ended) is late
    assert pace.due_at == due


@given(st.floats(0, 1e6), st.sampled_from([0.25, 0.5, 1.0, 5.0, 15.0]), st.floats(0, 1e4))
def test_no_missed_tick_is_made_up_for_and_none_is_put_off_for_longer_than_an_interval(
    first: float, interval: float, late: float
) -> None:
    pace = Pace(interval, first)
    pace.begin(first, early=False)
    due = pace.due_at
    pace.end(due + late)
    assert due + late <= pace.due_at + 1e-6
    assert pace.due_at - (due + late) < interval + 1e-6
    steps = (pace.due_at - due) / interval
    assert math.isclose(steps, round(steps), abs_tol=1e-6)


def test_a_tick_begun_early_by_a_timer_is_the_due_one_and_not_late() -> None:
    pace = Pace(1.0, 0.0)
    for second in range(5):
        pace.begin(second - 0.0005, early=False)
        assert pace.due_at == second + 1
        assert pace.end(second + 0.2) is False


def test_a_tick_that_somebody_woke_does_not_put_off_the_one_that_is_due() -> None:
    pace = Pace(1.0, 0.0)
    pace.begin(0.0, early=False)
    pace.end(0.1)
    pace.begin(0.5, early=True)
    assert (pace.end(0.6), pace.due_at) == (False, 1.0)
    pace.begin(0.95, early=True)
    assert (pace.end(1.05), pace.due_at) == (False, 2.0), "one that takes its place is not late"
