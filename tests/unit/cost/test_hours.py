"""An hour beside earlier hours, and what is booked of a tick."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.cost.attribution import Charge, CostPart, Stage, by_stage, staged
from ds4watch.cost.book import CostBook
from ds4watch.cost.hours import Basis, Compared, HourSum, Measure, compared, expected_rates
from ds4watch.model.usage import RequestOutcome, RequestRecord, Usage

TUESDAY = int(datetime(2026, 6, 16, 14, tzinfo=UTC).timestamp())
HOUR, DAY = 3600, 86_400
MILLION = 1_000_000
PER_SECOND = 250_000
"""Nanos: 0.90 an hour."""


def whole(used: int, *, spent: int = 4 * MILLION, tokens: int = 50_000) -> HourSum:
    return HourSum(float(HOUR), spent, used, tokens)


def found(
    hours: Mapping[int, HourSum], running: HourSum, elapsed: float, at: int = TUESDAY
) -> dict[tuple[str, str], Compared]:
    rates = expected_rates(hours, at)
    return {(it.measure, it.basis): it for it in compared(running, elapsed, rates)}


def test_half_an_hour_is_compared_with_half_of_yesterdays() -> None:
    hours = {TUESDAY - DAY: whole(2 * MILLION)}
    running = HourSum(1800.0, spent=2 * MILLION, used=2 * MILLION, tokens=25_000)
    seen = found(hours, running, 1800.0)
    used = seen["used", "yesterday"]
    assert (used.so_far, used.expected, used.difference) == (2 * MILLION, MILLION, MILLION)
    assert seen["spent", "yesterday"].difference == 0
    tokens = seen["used_per_1k_tokens", "yesterday"]
    assert (tokens.so_far, tokens.expected, tokens.difference) == (80_000, 40_000, MILLION)


def test_the_median_is_of_seven_earlier_weekdays_and_one_odd_day_does_not_move_it() -> None:
    days = [1, 4, 5, 6, 7, 8, 11, 12]  # 2 and 3 days before a Tuesday is the weekend
    amounts = [9, 2, 2, 2, 2, 2, 2, 50]
    hours = {TUESDAY - n * DAY: whole(it * MILLION) for n, it in zip(days, amounts, strict=True)}
    hours |= {TUESDAY - n * DAY: whole(40 * MILLION) for n in (2, 3, 9, 10)}
    seen = found(hours, HourSum(1800.0, 2 * MILLION, MILLION, 25_000), 1800.0)
    assert seen["used", "median"].expected == MILLION
    assert seen["used", "yesterday"].expected == pytest.approx(4.5 * MILLION)


def test_on_a_weekend_the_median_is_of_weekends() -> None:
    saturday = TUESDAY + 4 * DAY
    hours = {saturday - DAY: whole(9 * MILLION), saturday - 7 * DAY: whole(2 * MILLION)}
    seen = found(hours, whole(2 * MILLION), HOUR, saturday)
    assert seen["used", "median"].expected == 2 * MILLION
    assert seen["used", "yesterday"].expected == 9 * MILLION


def test_without_earlier_days_it_is_the_hour_before_and_never_yesterday() -> None:
    seen = found({TUESDAY - HOUR: whole(2 * MILLION)}, whole(3 * MILLION), HOUR)
    assert seen["used", "median"].difference == MILLION
    assert {basis for _, basis in seen} == {Basis.MEDIAN}


@pytest.mark.parametrize(
    ("hours", "running", "elapsed"),
    [
        ({}, whole(MILLION), HOUR),
        ({TUESDAY - DAY: HourSum(3400.0, MILLION, MILLION, 5000)}, whole(MILLION), HOUR),
        ({TUESDAY - DAY: whole(MILLION)}, HourSum(599.0, MILLION, MILLION, 5000), 599.0),
        ({TUESDAY - DAY: whole(MILLION)}, HourSum(1700.0, MILLION, MILLION, 5000), 1800.0),
    ],
    ids=["no history", "yesterday was not watched", "too early", "we were away"],
)
def test_nothing_is_said_where_it_cannot_be_known(
    hours: Mapping[int, HourSum], running: HourSum, elapsed: float
) -> None:
    assert found(hours, running, elapsed) == {}


def test_an_hour_without_money_or_tokens_is_no_measure() -> None:
    hours = {TUESDAY - DAY: whole(0, tokens=999)}
    assert set(found(hours, whole(MILLION), HOUR)) == {("spent", "yesterday"), ("spent", "median")}
    assert ("used_per_1k_tokens", "yesterday") not in found(
        {TUESDAY - DAY: whole(MILLION)}, whole(MILLION, tokens=999), HOUR
    )


hour_sums = st.builds(
    HourSum,
    st.floats(0, 3600),
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.integers(0, 10**7),
)


@given(
    st.dictionaries(st.integers(1, 14 * 24).map(lambda n: TUESDAY - n * HOUR), hour_sums),
    hour_sums,
    st.floats(0, 3600),
)
def test_every_comparison_has_an_expectation_over_zero_and_a_difference_of_its_sign(
    hours: dict[int, HourSum], running: HourSum, elapsed: float
) -> None:
    for it in found(hours, running, elapsed).values():
        assert it.expected > 0
        assert (it.difference > 0) == (it.so_far > it.expected)
        assert it.measure is not Measure.USED_PER_1K_TOKENS or running.tokens >= 1000


@given(st.integers(0, 10**15), st.none() | st.floats(0, 1))
def test_stages_sum_to_exactly_what_was_busy(nanos: int, ratio: float | None) -> None:
    prefill, decode, unknown = by_stage(nanos, ratio)
    assert prefill + decode + unknown == nanos
    assert min(prefill, decode, unknown) >= 0
    assert unknown == (nanos if ratio is None else 0)


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 10**12), st.booleans())),
    st.dictionaries(st.sampled_from(["a", "b"]), st.floats(0, 1)),
)
def test_parts_of_a_worker_and_hour_sum_to_exactly_what_it_was_charged(
    given_charges: list[tuple[str, int, bool]], ratios: dict[str, float]
) -> None:
    charges = [
        Charge(TUESDAY, worker, "p", CostPart.BUSY if busy else CostPart.IDLE, nanos)
        for worker, nanos, busy in given_charges
    ]
    rows = list(staged(charges, ratios))
    for worker in "ab":
        whole = sum(it.nanos for it in charges if it.worker == worker)
        assert sum(it.nanos for it in rows if it.worker == worker) == whole
        timed = {it.part for it in rows if it.worker == worker} - {CostPart.IDLE}
        assert (CostPart.BUSY in timed) <= (worker not in ratios)


def tick(book: CostBook, start: float, end: float, *, busy: bool = True) -> None:
    """Book a tick of a fleet that costs the same each second."""
    part = CostPart.BUSY if busy else CostPart.IDLE
    edges = sorted({start, end, *(h for h in [end // HOUR * HOUR] if start < h < end)})
    charges = [
        Charge(int(a // HOUR * HOUR), "w", "p", part, round((b - a) * PER_SECOND))
        for a, b in pairwise(edges)
    ]
    book.note(charges, {"w": 0.25}, end, longest_seconds=60.0)


@given(
    st.lists(st.one_of(st.floats(1, 60), st.floats(61, 20_000)), min_size=20, max_size=400),
    st.booleans(),
)
def test_a_daemon_that_was_down_never_makes_a_steady_fleet_look_unusual(
    gaps: list[float], restarts: bool
) -> None:
    book, now = CostBook(), float(TUESDAY)
    for gap in gaps * 3:
        tick(book, now, now + gap)
        now += gap
        if restarts and gap > 60:
            book = CostBook.from_json(json.loads(json.dumps(book.as_json())))
        for it in book.compared(now):
            assert it.so_far == pytest.approx(it.expected, rel=1e-3)


def test_a_steady_fleet_is_as_expected_the_day_after_and_a_busier_one_is_not() -> None:
    book, now = CostBook(), float(TUESDAY)
    for minute in range(24 * 60 + 45):
        doubled = minute >= 24 * 60
        tick(book, now, now + 60, busy=doubled or minute % 2 == 0)
        now += 60
    seen: dict[tuple[str, str], Compared] = {
        (it.measure, it.basis): it for it in book.compared(now)
    }
    assert seen["spent", "yesterday"].difference == pytest.approx(0, abs=PER_SECOND)
    used = seen["used", "yesterday"]
    assert used.so_far / used.expected == pytest.approx(2, rel=0.05)
    stages = {stage: nanos for _, stage, nanos in book.by_stage()}
    assert stages[Stage.PREFILL] * 3 == stages[Stage.DECODE]


def request(ended_at: float, tokens: int) -> RequestRecord:
    return RequestRecord(
        id="r",
        gateway="g",
        seq=1,
        ended_at=ended_at,
        key="",
        path="/v1/completions",
        model_asked="m",
        model_served="m",
        worker="w",
        status=200,
        outcome=RequestOutcome.OK,
        stream=False,
        duration_seconds=1.0,
        usage=Usage(tokens // 2, 0, tokens - tokens // 2),
    )


def test_tokens_of_a_time_when_nobody_watched_do_not_count() -> None:
    book = CostBook()
    tick(book, TUESDAY - 1, TUESDAY)
    book.note_request(request(TUESDAY - 5.0, 9000))
    tick(book, TUESDAY, TUESDAY + 10)
    book.note_request(request(TUESDAY + 9.0, 2000))
    so_far = dict(book.so_far(TUESDAY + 10))
    assert so_far[Measure.USED_PER_1K_TOKENS] == 10 * PER_SECOND / 2


def test_the_book_keeps_three_weekends() -> None:
    book = CostBook()
    for hour in range(30 * 24):
        tick(book, TUESDAY + hour * HOUR, TUESDAY + hour * HOUR + 30)
        tick(book, TUESDAY + hour * HOUR + 30, TUESDAY + hour * HOUR + 60)
    assert len(book.as_json()["cost_hours"]) == 22 * 24 + 1
