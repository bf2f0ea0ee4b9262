"""When the next tick is due."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.engine.tick import next_due


@pytest.mark.parametrize(
    ("now", "expected"),
    [(9.5, 10.0), (10.0, 10.0), (10.2, 11.0), (11.0, 11.0), (12.999, 13.0), (500.5, 501.0)],
)
def test_a_late_tick_is_followed_by_the_next_of_the_same_grid(now: float, expected: float) -> None:
    assert next_due(10.0, 1.0, now) == expected


@given(st.floats(0, 1e6), st.sampled_from([0.25, 0.5, 1.0, 5.0, 15.0]), st.floats(0, 1e4))
def test_no_missed_tick_is_made_up_for_and_none_is_put_off_for_longer_than_an_interval(
    due: float, interval: float, late: float
) -> None:
    found = next_due(due, interval, due + late)
    assert due + late <= found + 1e-6
    assert found - (due + late) < interval + 1e-6
    steps = (found - due) / interval
    assert math.isclose(steps, round(steps), abs_tol=1e-6)
