from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.access.bucket import Bucket
from ds4watch.access.quota import (
    Meter,
    QuotaKind,
    Rates,
    enter_all,
    rate_headers,
    retuned,
    whole_seconds,
)

STEPS = st.lists(
    st.tuples(st.floats(-1.0, 30.0), st.floats(0.0, 500.0), st.floats(0.0, 500.0)), max_size=60
)


@given(st.integers(1, 300), STEPS)
def test_no_more_is_taken_than_was_there_and_flowed_in(
    capacity: int, steps: list[tuple[float, float, float]]
) -> None:
    bucket = Bucket(capacity, 0.0)
    now = elapsed = taken = largest = 0.0
    for passed, amount, used in steps:
        now += passed
        elapsed += max(0.0, passed)
        if bucket.wait_for(amount, now) == 0:
            bucket.take(amount)
            bucket.settle(amount, used)
            taken += used
            largest = max(largest, amount, used)
        assert bucket.level <= capacity
        assert taken <= capacity + elapsed * capacity / 60 + largest + 1e-6


@given(st.integers(1, 300), st.floats(0.0, 900.0), st.floats(0.0, 400.0))
def test_the_wait_that_is_told_is_long_enough_and_not_longer(
    capacity: int, first: float, second: float
) -> None:
    bucket = Bucket(capacity, 0.0)
    bucket.take(first)
    wait = bucket.wait_for(second, 0.0)
    assert bucket.wait_for(second, wait + 1e-6) == 0
    if wait > 1e-3:
        other = Bucket(capacity, 0.0)
        other.take(first)
        assert other.wait_for(second, wait * 0.9) > 0


def test_who_asks_for_more_than_a_minutes_worth_gets_it_from_a_full_bucket_and_owes_it() -> None:
    bucket = Bucket(60, 0.0)
    assert bucket.wait_for(600, 0.0) == 0
    bucket.take(600)
    assert bucket.wait_for(1, 0.0) == pytest.approx(541)


def metered(rates: Rates, processes: int = 1) -> Meter:
    return retuned(QuotaKind.KEY, {"a": rates}, {}, processes=processes, now=0.0)["a"]


def test_requests_a_minute_are_counted_and_the_wait_is_told() -> None:
    meter = metered(Rates(requests_per_minute=2))
    assert enter_all([meter], 0.0, 0.0) is None
    assert enter_all([meter], 0.0, 0.0) is None
    over = enter_all([meter], 0.0, 0.0)
    assert over is not None
    assert (over.kind, over.name, over.what) == (QuotaKind.KEY, "a", "requests per minute")
    assert over.retry_after_seconds == pytest.approx(30.0)
    assert enter_all([meter], 0.0, 30.1) is None


def test_tokens_are_charged_by_an_estimate_and_settled_by_what_was_used() -> None:
    meter = metered(Rates(tokens_per_minute=100))
    assert enter_all([meter], 90.0, 0.0) is None
    assert enter_all([meter], 50.0, 0.0) is not None
    meter.leave(90.0, 10.0)
    assert enter_all([meter], 50.0, 0.0) is None


def test_concurrency_comes_back_when_a_request_ends() -> None:
    meter = metered(Rates(concurrency=1))
    assert enter_all([meter], 0.0, 0.0) is None
    over = enter_all([meter], 0.0, 0.0)
    assert over is not None
    assert (over.what, over.retry_after_seconds) == ("concurrency", 1.0)
    meter.leave(0.0, 0.0)
    assert enter_all([meter], 0.0, 0.0) is None


def test_all_meters_are_charged_or_none() -> None:
    wide = metered(Rates(requests_per_minute=100, concurrency=9))
    narrow = metered(Rates(concurrency=1))
    assert enter_all([wide, narrow], 0.0, 0.0) is None
    assert enter_all([wide, narrow], 0.0, 0.0) is not None
    assert wide.inflight == 1


@given(st.integers(1, 8), st.integers(1, 500))
def test_the_shares_of_all_processes_add_up_to_no_more(processes: int, rate: int) -> None:
    shares = [metered(Rates(rate, rate, rate), processes) for _ in range(processes)]
    least = max(rate, processes)  # one each at least, or nothing would ever come in
    assert sum(it.requests.capacity for it in shares if it.requests) <= least + 1e-6
    assert sum(it.most_inflight or 0 for it in shares) <= least


def test_what_was_used_stays_used_when_settings_or_processes_change() -> None:
    before = {"a": metered(Rates(requests_per_minute=60))}
    for _ in range(30):
        assert enter_all(list(before.values()), 0.0, 0.0) is None
    wanted = {"a": Rates(requests_per_minute=60)}
    after = retuned(QuotaKind.KEY, wanted, before, processes=2, now=0.0)
    assert after["a"].inflight == 30
    assert after["a"].requests is not None
    assert after["a"].requests.level == pytest.approx(15)
    gone = retuned(QuotaKind.KEY, {"a": Rates()}, after, processes=2, now=0.0)
    assert gone == {}


def test_headers_are_those_of_openai() -> None:
    meter = metered(Rates(requests_per_minute=60, tokens_per_minute=600), processes=2)
    assert enter_all([meter], 450.0, 0.0) is None
    assert rate_headers(meter, 2, 0.0) == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "58",
        "x-ratelimit-reset-requests": "2s",
        "x-ratelimit-limit-tokens": "600",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "1m30s",
    }
    assert rate_headers(metered(Rates(concurrency=5)), 1, 0.0) == {}


@pytest.mark.parametrize(("wait", "told"), [(0.001, 1), (1.0, 1), (1.2, 2), (59.0, 59)])
def test_retry_after_is_whole_seconds_and_never_too_early(wait: float, told: int) -> None:
    assert whole_seconds(wait) == told
