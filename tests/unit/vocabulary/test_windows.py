from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.series import Sample, labels_of
from ds4watch.vocabulary.names import EXPOSED
from ds4watch.vocabulary.windows import CounterPoint, Derived, derive, derived_signals


def points(*rows: tuple[float | None, ...]) -> list[CounterPoint]:
    return [CounterPoint(at or 0.0, *counters) for at, *counters in rows]


def test_ratios_and_speeds_follow_from_the_increase_over_the_window() -> None:
    found = derive(
        points(
            (100.0, 1000.0, 400.0, 600.0, 50.0, 2.0, 4.0),
            (110.0, 1100.0, 430.0, 670.0, 70.0, 3.0, 7.0),
            (120.0, 1200.0, 460.0, 740.0, 90.0, 3.0, 7.0),
        )
    )
    assert found.cache_miss_ratio == pytest.approx(1 - 140 / 200)
    assert found.prefill_token_ratio == pytest.approx(60 / (60 + 40))
    assert found.prefill_time_ratio == pytest.approx(1 / 4)
    assert found.prompt_tokens_per_second == pytest.approx(10.0)
    assert found.generated_tokens_per_second == pytest.approx(2.0)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [(1.0, 5.0, 5.0, 0.0, 5.0, 1.0, 1.0)],
        [(1.0, 5.0, 5.0, 0.0, 5.0, 1.0, 1.0), (2.0, 5.0, 5.0, 0.0, 5.0, 1.0, 1.0)],
        [(1.0, *[None] * 6), (2.0, *[None] * 6)],
        [(1.0, 5.0, 5.0, 0.0, 5.0, 1.0, 1.0), (1.0, 9.0, 9.0, 0.0, 9.0, 2.0, 2.0)],
        [(1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), (99.0, 9.0, 9.0, 0.0, 9.0, 2.0, 2.0)],
    ],
    ids=["nothing", "one point", "no traffic", "not reported", "no time", "all before the window"],
)
def test_without_traffic_everything_is_absent(rows: list[tuple[float | None, ...]]) -> None:
    assert derive(points(*rows)) == Derived()


def test_only_the_last_minute_counts() -> None:
    found = derive(
        points(
            (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
            (40.0, 9000.0, 9000.0, 0.0, 10.0, 1.0, 1.0),
            (100.0, 9060.0, 9000.0, 60.0, 10.0, 1.0, 1.0),
        )
    )
    assert found.cache_miss_ratio == 0.0
    assert found.prompt_tokens_per_second == pytest.approx(1.0)
    assert found.generated_tokens_per_second == 0.0


def test_a_restart_counts_what_came_after_it_once() -> None:
    found = derive(
        points(
            (0.0, 1000.0, 500.0, 500.0, 100.0, 9.0, 9.0),
            (10.0, 1100.0, 550.0, 550.0, 110.0, 9.0, 9.0),
            (20.0, 40.0, 30.0, 10.0, 8.0, 0.1, 0.3),
            (30.0, 60.0, 40.0, 20.0, 10.0, 0.1, 0.3),
        )
    )
    prompt, cached, prefill, generated = 100 + 40 + 20, 50 + 10 + 10, 50 + 30 + 10, 10 + 8 + 2
    assert found.cache_miss_ratio == pytest.approx(1 - cached / prompt)
    assert found.prefill_token_ratio == pytest.approx(prefill / (prefill + generated))
    assert found.prompt_tokens_per_second == pytest.approx(prompt / 30)
    assert found.prefill_time_ratio == pytest.approx(0.1 / 0.4)


def test_a_restart_is_told_by_any_token_counter_and_holds_for_all() -> None:
    found = derive(
        points(
            (0.0, 10.0, 10.0, 0.0, 900.0, 1.0, 50.0),
            (10.0, 30.0, 30.0, 20.0, 5.0, 2.0, 1.0),
        )
    )
    assert found.prompt_tokens_per_second == pytest.approx(3.0)
    assert found.cache_miss_ratio == pytest.approx(1 - 20 / 30)
    assert found.prefill_time_ratio == pytest.approx(2 / 3)


def test_a_counter_that_dips_alone_is_not_taken_for_a_restart() -> None:
    found = derive(
        points(
            (0.0, 100.0, 50.0, 50.0, 10.0, 1.0, 1.0),
            (10.0, 110.0, 45.0, 50.0, 20.0, 1.0, 1.0),
            (20.0, 120.0, 55.0, 50.0, 30.0, 1.0, 1.0),
        )
    )
    assert found.prefill_token_ratio == pytest.approx(10 / (10 + 20))


def test_a_counter_that_is_not_reported_leaves_only_its_own_ratios_absent() -> None:
    found = derive(
        points((0.0, 0.0, None, None, 0.0, None, None), (10.0, 30.0, None, None, 20.0, None, None))
    )
    assert found == Derived(prompt_tokens_per_second=3.0, generated_tokens_per_second=2.0)


def test_hits_that_run_ahead_of_their_prompts_never_make_a_negative_ratio() -> None:
    found = derive(
        points((0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), (9.0, 5.0, 0.0, 64.0, 0.0, 0.0, 0.0))
    )
    assert found.cache_miss_ratio == 0.0


COUNTERS = st.floats(0, 1e12)


@given(st.lists(st.tuples(*[COUNTERS] * 6), max_size=10))
def test_no_ratio_ever_leaves_zero_to_one_and_no_speed_is_negative(
    rows: list[tuple[float, ...]],
) -> None:
    found = derive([CounterPoint(float(at), *row) for at, row in enumerate(rows)])
    for ratio in (found.cache_miss_ratio, found.prefill_token_ratio, found.prefill_time_ratio):
        assert ratio is None or 0 <= ratio <= 1
    for speed in (found.prompt_tokens_per_second, found.generated_tokens_per_second):
        assert speed is None or (speed >= 0 and math.isfinite(speed))


def test_signals_are_made_of_what_is_there_only() -> None:
    labels = labels_of({"worker": "w", "profile": "p", "model": "m"})
    found = derived_signals(Derived(cache_miss_ratio=0.25, generated_tokens_per_second=3.0), labels)
    assert found == [
        Sample("ds4_cache_miss_ratio", labels, 0.25),
        Sample("ds4_tokens_per_second", labels_of({**dict(labels), "kind": "generated"}), 3.0),
    ]
    for sample in found:
        assert {name for name, _ in sample.labels} == set(EXPOSED[sample.name].labels)
