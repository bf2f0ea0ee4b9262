"""Hours that are unlike earlier ones, and those that only look so."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4watch.cost.anomaly import AnomalyWatch, Deviation
from ds4watch.cost.book import CostBook
from ds4watch.cost.drivers import Driver, gauges
from ds4watch.cost.hours import HourSum

MONDAY = int(datetime(2026, 6, 15, tzinfo=UTC).timestamp())
HOUR = 3600
WEEK = 7 * 24
UNIT = 10**9


def usual(place: int, *, noise: float = 0.0, dice: random.Random | None = None) -> HourSum:
    """Return an hour that is busy by day and quiet at weekends, like every one of its kind."""
    hour, day = place % 24, place // 24 % 7
    share = (0.3 + 0.7 * (8 <= hour < 20)) * (1.0 if day < 5 else 0.5)
    if dice is not None:
        share *= 1 + dice.uniform(-noise, noise)
    requests = int(20_000 * share)
    workers = 10 + round(10 * share)
    return HourSum(
        3600.0,
        workers * 2 * UNIT,
        int(workers * 1.6 * UNIT),
        requests * 1200,
        int(workers * 0.8 * UNIT),
        workers * 3600.0,
        requests,
        requests * 1000,
        requests * 500,
        requests // 100,
    )


def learned(hours: int, *, noise: float = 0.03) -> AnomalyWatch:
    watch, dice = AnomalyWatch(), random.Random(7)
    for place in range(hours):
        watch.learn(MONDAY + place * HOUR, usual(place, noise=noise, dice=dice))
    return watch


def off(judged: tuple[Deviation, ...]) -> Mapping[Driver, Deviation]:
    return {it.driver: it for it in judged if it.is_off}


CHANGES: dict[Driver, Callable[[HourSum], HourSum]] = {
    Driver.MISS_RATIO: lambda it: replace(it, cached_tokens=it.cached_tokens // 2),
    Driver.PROMPT_LENGTH: lambda it: replace(
        it,
        prompt_tokens=int(it.prompt_tokens * 1.5),
        cached_tokens=int(it.cached_tokens * 1.5),
        tokens=it.tokens + it.prompt_tokens // 2,
    ),
    Driver.RETRIES: lambda it: replace(it, retries=it.requests // 2),
    Driver.WORKERS: lambda it: replace(
        it, worker_seconds=it.worker_seconds * 1.6, spent=it.spent * 8 // 5
    ),
    Driver.PRICE: lambda it: replace(it, spent=it.spent * 3 // 2, used=it.used * 3 // 2),
    Driver.TRAFFIC: lambda it: replace(
        it,
        requests=it.requests // 2,
        prompt_tokens=it.prompt_tokens // 2,
        cached_tokens=it.cached_tokens // 2,
        tokens=it.tokens // 2,
    ),
}


@pytest.mark.parametrize("driver", CHANGES)
def test_what_changes_by_half_is_named_with_its_direction_and_money(driver: Driver) -> None:
    watch = learned(3 * WEEK)
    at = MONDAY + (3 * WEEK + 12) * HOUR
    for place in range(3 * WEEK, 3 * WEEK + 12):
        watch.learn(MONDAY + place * HOUR, usual(place))
    found = off(tuple(watch.judge(at, CHANGES[driver](usual(3 * WEEK + 12)))))
    sign = -1 if driver is Driver.TRAFFIC else 1
    assert found[driver].score * sign > 1
    assert found[driver].impact * sign > UNIT // 2
    assert found[driver].value / found[driver].expected == pytest.approx(
        0.5 if sign < 0 else 1.5, rel=0.1
    )


def test_days_with_their_own_noise_are_quiet() -> None:
    watch, dice = AnomalyWatch(), random.Random(3)
    flagged = [
        place
        for place in range(4 * WEEK)
        if off(watch.learn(MONDAY + place * HOUR, usual(place, noise=0.08, dice=dice)))
    ]
    assert len(flagged) <= 4


def test_a_day_that_is_busier_from_its_morning_on_is_told_at_first_and_then_is_the_level() -> None:
    watch = learned(3 * WEEK)
    told = []
    for place in range(3 * WEEK, 3 * WEEK + 24):
        busy = usual(place)
        busy = replace(busy, **{name: int(getattr(busy, name) * 1.6) for name in COUNTED})
        told.append(Driver.TRAFFIC in off(watch.learn(MONDAY + place * HOUR, busy)))
    assert told[0]
    assert not any(told[18:])


COUNTED = ("requests", "prompt_tokens", "cached_tokens", "tokens")


def test_an_incident_teaches_nothing() -> None:
    watch = learned(3 * WEEK)
    clean = learned(3 * WEEK)
    for place in range(3 * WEEK, 3 * WEEK + 6):
        at = MONDAY + place * HOUR
        watch.learn(at, CHANGES[Driver.PRICE](usual(place)))
    after = 3 * WEEK + 6
    seen, expected = (
        {it.driver: it.expected for it in each.judge(MONDAY + after * HOUR, usual(after))}
        for each in (watch, clean)
    )
    assert seen == pytest.approx(expected)


@pytest.mark.parametrize("hours", [0, 1, 23, 24])
def test_nothing_is_said_without_history(hours: int) -> None:
    assert list(learned(hours).judge(MONDAY + hours * HOUR, usual(hours))) == []


def test_nothing_is_said_of_a_first_saturday() -> None:
    watch = learned(5 * 24)
    by_clock = {it.driver for it in watch.judge(MONDAY + 5 * 24 * HOUR, usual(5 * 24))}
    assert by_clock <= {Driver.WORKERS}  # these are compared by load


def test_all_traffic_lost_is_an_anomaly_that_costs_what_is_spent() -> None:
    watch = learned(3 * WEEK)
    at, hour = MONDAY + 3 * WEEK * HOUR, usual(3 * WEEK)
    silent = HourSum(3600.0, hour.spent, worker_seconds=hour.worker_seconds)
    lost = off(tuple(watch.judge(at, silent)))[Driver.TRAFFIC]
    assert lost.score < -1
    assert lost.impact == pytest.approx(-hour.spent, rel=0.01)


def test_an_hour_that_was_not_watched_whole_is_neither_judged_nor_learned() -> None:
    watch = learned(3 * WEEK)
    at = MONDAY + 3 * WEEK * HOUR
    assert watch.learn(at, replace(usual(3 * WEEK), watched_seconds=1800.0)) == ()
    assert off(watch.learn(at + HOUR, usual(3 * WEEK + 1))) == {}


def test_a_part_of_an_hour_has_to_be_further_off() -> None:
    watch = learned(3 * WEEK)
    at, hour = MONDAY + (3 * WEEK + 1) * HOUR, usual(3 * WEEK + 1)
    more = replace(hour, requests=hour.requests * 5 // 4)
    part = replace(
        more,
        watched_seconds=600.0,
        worker_seconds=hour.worker_seconds / 6,
        **{name: getattr(more, name) // 6 for name in (*COUNTED, "spent", "used", "prefill")},
    )
    scores = [
        next(abs(it.score) for it in watch.judge(at, each) if it.driver is Driver.TRAFFIC)
        for each in (more, part)
    ]
    assert scores[0] > scores[1]


@settings(max_examples=25)
@given(
    st.lists(
        st.builds(
            HourSum,
            st.floats(0, 3600),
            st.integers(0, 10**13),
            st.integers(0, 10**13),
            st.integers(0, 10**9),
            st.integers(0, 10**13),
            st.floats(0, 10**6),
            st.integers(0, 10**6),
            st.integers(0, 10**9),
            st.integers(0, 10**9),
            st.integers(0, 10**6),
        ),
        max_size=10,
    )
)
def test_whatever_was_counted_is_judged_in_numbers(hours: list[HourSum]) -> None:
    watch = learned(72)
    for number, hour in enumerate(hours):
        assert all(it.value > 0 and it.grain >= 0 for it in gauges(hour).values())
        for it in watch.learn(MONDAY + (72 + number) * HOUR, hour):
            assert it.expected > 0
            assert (it.score > 0) == (it.value > it.expected) or abs(it.score) < 1e-6


def test_a_daemon_that_was_down_for_days_flags_nothing_when_it_is_back() -> None:
    hours = {MONDAY + place * HOUR: usual(place) for place in range(2 * WEEK)}
    gone = {at: it for at, it in hours.items() if not WEEK <= (at - MONDAY) // HOUR < WEEK + 60}
    book = CostBook.from_json(CostBook(gone).as_json())
    back = MONDAY + 2 * WEEK * HOUR
    shown: tuple[Deviation, ...] = ()
    for second in range(100):
        shown = book.anomalies(back + second)
    assert off(shown) == {}
