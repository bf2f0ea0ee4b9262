"""An hour in its disjoint parts: they sum to what it cost, whatever happened in it."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.cost.attribution import CostPart
from ds4watch.cost.parts import Method, Part, parts_of
from ds4watch.cost.recent import RecentHours, WorkerHour, worker_hours
from ds4watch.model.work import BANDS, Place, Work

COUNT = st.integers(0, 10**12)
WORKS = st.builds(Work, *[COUNT] * 10)
SPENT = st.dictionaries(st.sampled_from(CostPart), st.integers(0, 10**15))


@given(SPENT, WORKS)
def test_parts_sum_to_what_was_spent_and_none_is_below_nothing(
    spent: dict[CostPart, int], work: Work
) -> None:
    found = parts_of(spent, work)
    assert sum(found.nanos.values()) == sum(spent.values())
    assert min(found.nanos.values(), default=0) >= 0


@given(st.dictionaries(st.sampled_from(BANDS), WORKS), SPENT)
def test_bands_sum_to_the_busy_money_or_to_nothing(
    bands: dict[str, Work], spent: dict[CostPart, int]
) -> None:
    hour = WorkerHour(Counter(spent), bands)
    busy = sum(spent.get(it, 0) for it in (CostPart.PREFILL, CostPart.DECODE, CostPart.BUSY))
    assert sum(hour.by_band().values()) in (busy, 0)


def test_an_hour_is_told_apart_by_what_requests_took_of_it() -> None:
    spent = {CostPart.PREFILL: 1000, CostPart.DECODE: 3000, CostPart.IDLE: 50, CostPart.SPARE: 7}
    work = Work(
        requests=4, prompt_tokens=900, cached_tokens=100, again_tokens=200, completion_tokens=300,
        held_ms=1000, wasted_ms=250,
    )  # fmt: skip
    assert parts_of(spent, work).nanos == {
        Part.PREFILL: 562,  # 750 are not wasted; of 800 computed tokens 200 are again: a quarter
        Part.PREFILL_AGAIN: 188,
        Part.DECODE: 2250,
        Part.RETRIES: 1000,
        Part.IDLE: 50,
        Part.SPARE: 7,
    }


def test_what_no_stage_was_timed_of_goes_by_tokens_and_says_so() -> None:
    work = Work(prompt_tokens=50, completion_tokens=20)
    by_tokens = parts_of({CostPart.BUSY: 200}, work)
    assert by_tokens.nanos == {Part.PREFILL: 100, Part.DECODE: 100}
    assert by_tokens.method is Method.TOKENS
    timed = parts_of({CostPart.PREFILL: 1}, work)
    assert timed.method is Method.STAGE_TIME
    assert parts_of({CostPart.PREFILL: 1, CostPart.BUSY: 2}, work).method is Method.BOTH


def test_busy_time_without_times_or_tokens_stays_what_it_is() -> None:
    found = parts_of({CostPart.BUSY: 10}, Work(held_ms=100, wasted_ms=50))
    assert found.nanos == {Part.RETRIES: 5, Part.BUSY: 5}
    assert found.method is Method.NONE


def test_attempts_that_were_given_up_count_for_the_worker_whatever_its_profile() -> None:
    lost = (0.0, Place("w", "", "1k"), Work(held_ms=50, wasted_ms=50))
    kept = (0.0, Place("w", "p", "1k"), Work(held_ms=50))
    hours = worker_hours([((0.0, "w", "p"), CostPart.DECODE, 80)], [lost, kept])
    assert hours[0.0, "w", "p"].parts().nanos == {Part.DECODE: 40, Part.RETRIES: 40}


def test_two_hours_are_kept_and_what_comes_late_is_left_out() -> None:
    recent = RecentHours()
    place = Place("w", "p", "2k")
    for hour_at in (0, 3600, 7200):
        recent.add_money(hour_at, "w", CostPart.DECODE, 10)
    recent.add_work(7300.0, place, Work(requests=1, completion_tokens=3))
    recent.add_work(10.0, place, Work(requests=1))
    assert recent.by_band(7200) == {"2k": (10, Work(requests=1, completion_tokens=3))}
    assert [name for name, _ in recent.lately(7300.0)] == ["w", "w"]
    assert not recent.workers(0)
