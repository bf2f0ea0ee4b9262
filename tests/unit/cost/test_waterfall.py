"""Why an hour costs what it does: causes, in money, that sum to the whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ds4watch.cost.hours import HourSum, Measure
from ds4watch.cost.waterfall import Cause, usual, waterfall

UNIT = 10**9
BEFORE = HourSum(
    watched_seconds=3600.0,
    spent=10 * UNIT,
    used=8 * UNIT,
    tokens=1_200_000,
    prefill=4 * UNIT,
    worker_seconds=36_000.0,
    requests=1000,
    prompt_tokens=1_000_000,
    cached_tokens=500_000,
    retries=0,
)

CHANGES: dict[Cause, Callable[[HourSum], HourSum]] = {
    Cause.PRICE: lambda it: replace(
        it, spent=it.spent * 2, used=it.used * 2, prefill=it.prefill * 2
    ),
    Cause.IDLE: lambda it: replace(it, spent=it.spent * 2, worker_seconds=it.worker_seconds * 2),
    Cause.MISS_RATIO: lambda it: replace(
        it,
        cached_tokens=0,
        spent=it.spent + it.prefill,
        used=it.used + it.prefill,
        prefill=2 * it.prefill,
        worker_seconds=it.worker_seconds * 1.4,
    ),
    Cause.TRAFFIC: lambda it: replace(
        it,
        requests=it.requests * 2,
        tokens=it.tokens * 2,
        prompt_tokens=it.prompt_tokens * 2,
        cached_tokens=it.cached_tokens * 2,
        spent=it.spent + it.used,
        used=it.used * 2,
        prefill=it.prefill * 2,
        worker_seconds=it.worker_seconds * 1.8,
    ),
    Cause.RETRIES: lambda it: replace(
        it,
        retries=it.requests // 2,
        spent=it.spent + it.used // 2,
        used=it.used * 3 // 2,
        prefill=it.prefill * 3 // 2,
        worker_seconds=it.worker_seconds * 1.4,
    ),
    Cause.SPEED: lambda it: replace(
        it,
        spent=it.spent + it.used,
        used=it.used * 2,
        prefill=it.prefill * 2,
        worker_seconds=it.worker_seconds * 1.8,
    ),
}


@pytest.mark.parametrize("cause", CHANGES)
def test_one_change_is_the_whole_difference(cause: Cause) -> None:
    found = waterfall(BEFORE, CHANGES[cause](BEFORE), Measure.SPENT)
    assert found.expected == BEFORE.spent
    assert found.actual == CHANGES[cause](BEFORE).spent
    for it, nanos in found.causes.items():
        whole = found.actual - found.expected if it is cause else 0
        assert nanos == pytest.approx(whole, abs=2)


def test_two_changes_share_what_they_do_together_whatever_the_order() -> None:
    both = CHANGES[Cause.PRICE](CHANGES[Cause.IDLE](BEFORE))
    found = waterfall(BEFORE, both, Measure.SPENT).causes
    assert found[Cause.PRICE] == pytest.approx(15 * UNIT, abs=2)
    assert found[Cause.IDLE] == pytest.approx(15 * UNIT, abs=2)


def hours() -> st.SearchStrategy[HourSum]:
    def made(spent: int, used: float, prefill: float, cached: float, counts: list[int]) -> HourSum:
        requests, prompts, answers, retries, workers = counts
        busy = int(spent * used) if requests else 0
        return HourSum(
            3600.0,
            spent,
            busy,
            (prompts + answers) if requests else 0,
            int(busy * prefill),
            float(workers * 3600),
            requests,
            prompts if requests else 0,
            int(prompts * cached) if requests else 0,
            retries if requests else 0,
        )

    shares = st.floats(0, 1)
    counts = st.tuples(
        st.integers(0, 10**5),
        st.integers(0, 10**8),
        st.integers(0, 10**7),
        st.integers(0, 10**4),
        st.integers(1, 500),
    ).map(list)
    return st.builds(made, st.integers(0, 10**13), shares, shares, shares, counts)


NEARLY_NOTHING = HourSum(3600.0, 1, 1, 1, worker_seconds=7200.0, requests=7)
MUCH = HourSum(3600.0, 162529958872, 162529958872, 304287, worker_seconds=3600.0, requests=1)


@example(NEARLY_NOTHING, MUCH, Measure.SPENT)
@given(hours(), hours(), st.sampled_from(Measure))
def test_causes_sum_to_exactly_the_difference(
    expected: HourSum, actual: HourSum, measure: Measure
) -> None:
    found = waterfall(expected, actual, measure)
    assert found.expected + sum(found.causes.values()) == found.actual
    if measure is Measure.SPENT:
        assert found.expected == expected.spent
        assert found.actual == actual.spent
    else:
        assert found.causes[Cause.IDLE] == 0


@given(hours())
def test_like_hours_have_no_causes(hour: HourSum) -> None:
    assert set(waterfall(hour, hour, Measure.SPENT).causes.values()) == {0}


def test_the_usual_hour_is_the_median_for_as_long_as_was_watched() -> None:
    odd = replace(BEFORE, spent=99 * UNIT)
    half = replace(BEFORE, watched_seconds=1800.0)
    found = usual([BEFORE, odd, BEFORE], half)
    assert found is not None
    assert (found.watched_seconds, found.spent, found.requests) == (1800.0, 5 * UNIT, 500)
    assert usual([], half) is None
