from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.history.rollup import (
    Buckets,
    last_values,
    merge,
    pack_buckets,
    summarise,
    unpack_buckets,
)
from ds4watch.model.series import STALE_NAN, FloatArray, is_stale
from tests.unit.history.helpers import same

MINUTE = 60_000
NOTHING = np.array([np.nan])
FIELDS = ("minimum", "maximum", "last", "total", "count", "increase")


def rolled(
    samples: list[tuple[int, float]], before: FloatArray = NOTHING
) -> tuple[Buckets, FloatArray]:
    times = np.array([1000 * at for at, _ in samples], dtype=np.int64)
    values = np.array([[value] for _, value in samples], dtype=np.float64)
    return summarise(times, values, before, MINUTE)


def test_a_minute_keeps_the_least_the_most_the_mean_and_the_last() -> None:
    buckets, last = rolled([(0, 4.0), (30, 1.0), (59, 2.0), (60, 8.0)])
    assert buckets.starts_ms.tolist() == [0, MINUTE]
    assert buckets.minimum[:, 0].tolist() == [1, 8]
    assert buckets.maximum[:, 0].tolist() == [4, 8]
    assert buckets.last[:, 0].tolist() == [2, 8]
    assert buckets.total[:, 0].tolist() == [7, 8]
    assert buckets.count[:, 0].tolist() == [3, 1]
    assert last.tolist() == [8]


INCREASES = [
    ("a counter that grows", [10.0, 12.0, 15.0], [5.0]),
    ("a reset adds what was counted since", [250.0, 3.0, 4.0], [4.0]),
    ("nothing goes below zero", [5.0, 5.0, 5.0], [0.0]),
    ("a gap is counted over", [5.0, STALE_NAN, 9.0], [4.0]),
    ("a sample that is not a number is none", [5.0, np.nan, 9.0], [4.0]),
]


@pytest.mark.parametrize(("name", "values", "increase"), INCREASES)
def test_the_increase_of_a_bucket(name: str, values: list[float], increase: list[float]) -> None:
    buckets, _ = rolled(list(enumerate(values)))
    assert buckets.increase[:, 0].tolist() == increase, name


def test_what_grew_between_two_buckets_counts_in_the_later() -> None:
    buckets, last = rolled([(0, 1.0), (59, 3.0), (60, 10.0), (119, 11.0)])
    assert buckets.increase[:, 0].tolist() == [2, 8]
    after, _ = rolled([(180, 12.0)], last)
    assert after.increase[:, 0].tolist() == [1]


def test_a_bucket_without_samples_is_told_as_such() -> None:
    buckets, last = rolled([(0, 1.0), (60, STALE_NAN), (120, 2.0)])
    assert buckets.count[:, 0].tolist() == [1, 0, 1]
    assert [is_stale(getattr(buckets, name))[1, 0] for name in FIELDS[:3]] == [True] * 3
    assert (buckets.total[1, 0], buckets.increase[1, 0]) == (0, 0)
    assert last.tolist() == [2]


def test_samples_out_of_order_are_taken_by_their_times() -> None:
    buckets, _ = rolled([(60, 5.0), (0, 1.0), (61, 6.0)])
    assert buckets.last[:, 0].tolist() == [1, 6]
    assert buckets.increase[:, 0].tolist() == [0, 5]


runs = st.lists(st.integers(0, 1000) | st.just(-1), min_size=1, max_size=60)


def by_hand(values: list[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return sum(now - before if now >= before else now for before, now in pairwise(known))


@given(runs, st.integers(1, 59))
def test_increases_add_up_however_samples_are_cut(numbers: list[int], cut: int) -> None:
    values = [STALE_NAN if number < 0 else float(number) for number in numbers]
    samples = [(17 * place, value) for place, value in enumerate(values)]
    parts, last = [], NOTHING
    for piece in (samples[:cut], samples[cut:]):
        if piece:
            buckets, last = rolled(piece, last)
            parts.append(buckets)
    whole = merge(parts, MINUTE)
    assert sum(part.increase.sum() for part in parts) == by_hand(values)
    uncut, _ = rolled(samples)
    for name in FIELDS:
        assert same(getattr(whole, name), getattr(uncut, name)), name
    hours = merge(parts, 60 * MINUTE)
    assert hours.increase.sum() == by_hand(values)
    assert hours.count.sum() == sum(not np.isnan(value) for value in values)


def test_buckets_come_back_from_their_bytes() -> None:
    buckets, _ = summarise(
        np.array([0, 1000, 60_000]),
        np.array([[1.0, 2.5], [2.0, STALE_NAN], [3.0, STALE_NAN]]),
        np.array([np.nan, np.nan]),
        MINUTE,
    )
    payload = pack_buckets(buckets)
    back, second = unpack_buckets(payload), unpack_buckets(payload, np.array([1]))
    assert back.starts_ms.tolist() == buckets.starts_ms.tolist() == second.starts_ms.tolist()
    for name in FIELDS:
        assert same(getattr(back, name), getattr(buckets, name))
        assert same(getattr(second, name), getattr(buckets, name)[:, 1:])


def test_the_last_values_go_on_where_a_series_is_gone() -> None:
    buckets, _ = rolled([(0, STALE_NAN)])
    assert last_values(buckets, np.array([7.0])).tolist() == [7]


def test_bytes_that_are_no_roll_up_are_refused() -> None:
    with pytest.raises(ValueError, match="packed columns"):
        unpack_buckets(b"what")


def test_infinities_of_both_signs_have_no_mean_and_disturb_nothing() -> None:
    parts = [rolled([(at, value)])[0] for at, value in ((0, np.inf), (60, -np.inf), (120, 1.0))]
    hour = merge(parts, 60 * MINUTE)
    assert (hour.minimum.item(), hour.maximum.item()) == (-np.inf, np.inf)
    assert np.isnan(hour.total.item())
    assert (hour.last.item(), hour.count.item()) == (1.0, 3.0)
