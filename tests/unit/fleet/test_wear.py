from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.fleet.wear import Reading, creeps, decays, low_water


def minutes(values: list[float]) -> list[Reading]:
    return [(60.0 * index, value) for index, value in enumerate(values)]


SAW = [0.0, 0.02, 0.04]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.9] * 60, False),
        ([0.5 + 0.002 * i for i in range(60)], True),
        ([0.5 + 0.0002 * i for i in range(60)], False),
        ([0.5 + 0.002 * i + SAW[i % 3] for i in range(60)], True),
        ([0.5 + SAW[i % 3] for i in range(60)], False),
        ([0.9 - 0.002 * i for i in range(60)], False),
        ([0.5 + (0.2 if i < 30 else 0.0) for i in range(60)], False),
        ([0.5 + 0.002 * i for i in range(20)], False),
    ],
)
def test_memory_creeps_where_its_low_water_mark_only_rises(
    values: list[float], *, expected: bool
) -> None:
    assert bool(creeps(minutes(values))) is expected


def test_a_rise_is_told_with_its_slope() -> None:
    told = creeps(minutes([0.5 + 0.001 * index for index in range(61)]))
    assert told == ("the least memory used rose by 5.0% of the device in 60 min, 6.0% an hour")


@pytest.mark.parametrize(
    ("earlier", "recent", "expected"),
    [
        ([0.8] * 30, [0.3] * 10, True),
        ([0.8] * 30, [0.5] * 10, False),
        ([0.8] * 30, [0.3] * 9 + [0.5], False),
        ([0.1] * 30, [0.0] * 10, False),
        ([0.8] * 10, [0.3] * 10, False),
        ([0.3] * 30, [0.8] * 10, False),
        ([], [], False),
    ],
)
def test_a_hit_rate_decays_where_all_late_readings_are_under_half_of_what_it_was(
    earlier: list[float], recent: list[float], *, expected: bool
) -> None:
    assert bool(decays(minutes(earlier + recent))) is expected


@given(st.lists(st.floats(0, 1), max_size=100), st.floats(0, 1))
def test_memory_that_stays_or_falls_never_creeps(values: list[float], level: float) -> None:
    assert not creeps(minutes([level] * len(values)))
    assert not creeps(minutes(sorted(values, reverse=True)))


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1)), max_size=80))
def test_any_readings_can_be_judged(readings: list[Reading]) -> None:
    low_water(readings)
    decays(readings)
