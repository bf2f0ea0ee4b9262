"""What is learned of starts and of prefill."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.fleet.prefill import PrefillRates, longest_prefill_seconds
from ds4watch.fleet.start_times import KEPT, StartTimes


def test_the_longest_prefill_is_twice_the_context_at_the_measured_rate_and_has_a_floor() -> None:
    assert longest_prefill_seconds(32_768, 1024.0, floor_seconds=15.0) == 64.0
    assert longest_prefill_seconds(8192, 8000.0, floor_seconds=15.0) == 15.0


def test_without_a_context_or_a_rate_nothing_is_known() -> None:
    for length, rate in ((None, 1000.0), (8192, None), (8192, 0.0), (8192, -1.0)):
        assert longest_prefill_seconds(length, rate, floor_seconds=15.0) == math.inf


def test_the_slowest_of_the_measured_rates_counts_and_a_few_tokens_measure_nothing() -> None:
    rates = PrefillRates()
    for tokens, seconds in ((0, 0), (100, 9), (1000, 10), (3000, 12), (2, 0), (1002, 1)):
        rates.note({"a": (float(tokens), float(seconds))})
    # 1000 in 10 s, 2000 in 2 s; then a restart, and 1000 in 1 s
    assert rates.rate("a") == 100.0
    assert rates.rate("b") is None
    rates.forget_all_but([])
    assert rates.rate("a") is None


def test_before_the_first_start_what_the_profile_expects_counts() -> None:
    times = StartTimes()
    assert times.timeout_seconds("new", 600.0) == 600.0
    assert times.timeout_seconds("new", 600.0, 900.0) == 2700.0
    times.note("new", 100.0)
    assert times.timeout_seconds("new", 600.0, 900.0) == 600.0


@given(st.lists(st.floats(0.1, 5000.0), min_size=1, max_size=30))
def test_a_start_may_take_three_times_the_usual_and_never_less_than_configured(
    took: list[float],
) -> None:
    times = StartTimes({"old": [1.0]})
    for seconds in took:
        times.note("p", seconds)
    usual = times.seconds("p")
    assert usual is not None
    assert min(took[-KEPT:]) <= usual <= max(took[-KEPT:])
    assert times.timeout_seconds("p", 600.0) == max(600.0, 3.0 * usual)
    assert times.timeout_seconds("unknown", 600.0) == 600.0
    assert times.all() == {"old": 1.0, "p": usual}
