from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.usage import RetryReason
from ds4watch.routing.retry import (
    Fail,
    Failure,
    GiveUp,
    Retry,
    RetryBudget,
    costs_budget,
    failure_of_status,
    next_step,
    status_of,
)


@pytest.mark.parametrize(
    ("reason", "status", "told"),
    [
        (RetryReason.CONNECT, None, 503),
        (RetryReason.TIMEOUT, None, 504),
        (RetryReason.BROKEN, None, 502),
        (RetryReason.STATUS_5XX, 500, 500),
        (RetryReason.BUSY, 503, 503),
        (RetryReason.STATUS_5XX, 999, 502),
    ],
)
def test_each_failure_is_retried_elsewhere_and_has_a_status_when_final(
    reason: RetryReason, status: int | None, told: int
) -> None:
    failure = Failure(reason, status)
    first = next_step(failure, attempt=1, max_attempts=3, bytes_sent=False, budget_left=True)
    assert first == Retry(reason)
    last = next_step(failure, attempt=3, max_attempts=3, bytes_sent=False, budget_left=True)
    assert last == Fail(told, reason, GiveUp.ATTEMPTS)
    broke = next_step(failure, attempt=1, max_attempts=3, bytes_sent=False, budget_left=False)
    assert broke == Fail(told, reason, GiveUp.BUDGET)
    late = next_step(
        failure, attempt=1, max_attempts=3, bytes_sent=False, budget_left=True, in_time=False
    )
    assert late == Fail(told, reason, GiveUp.DEADLINE)
    assert status_of(failure) == told


@given(st.sampled_from(RetryReason), st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_nothing_is_tried_anew_once_a_byte_has_been_sent(
    reason: RetryReason, attempt: int, most: int, budget: bool
) -> None:
    step = next_step(
        Failure(reason), attempt=attempt, max_attempts=most, bytes_sent=True, budget_left=budget
    )
    assert isinstance(step, Fail)
    assert step.because is GiveUp.BYTES_SENT


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (200, None),
        (400, None),
        (404, None),
        (429, None),
        (499, None),
        (500, RetryReason.STATUS_5XX),
        (502, RetryReason.STATUS_5XX),
        (503, RetryReason.BUSY),
    ],
)
def test_client_errors_are_passed_on_and_a_full_worker_is_busy(
    status: int, reason: RetryReason | None
) -> None:
    failure = failure_of_status(status)
    assert (failure.reason if failure else None) == reason


def spent(budget: RetryBudget, now: float) -> int:
    count = 0
    while budget.has_room(now):
        budget.spend_retry(now)
        count += 1
    return count


@pytest.mark.parametrize(
    ("requests", "ratio", "retries"),
    [(0, 0.1, 10), (50, 0.1, 10), (100, 0.1, 10), (200, 0.1, 20), (1000, 0.2, 200), (500, 0, 10)],
)
def test_a_window_allows_a_share_of_its_requests_and_ten_in_any_case(
    requests: int, ratio: float, retries: int
) -> None:
    budget = RetryBudget(ratio)
    for _ in range(requests):
        budget.count_request(1.0)
    assert spent(budget, 1.0) == retries


def test_a_spent_budget_is_whole_again_in_the_next_window() -> None:
    budget = RetryBudget(0.1, started_at=100.0, retries=10)
    assert not budget.has_room(109.9)
    assert budget.has_room(110.0)


def test_a_clock_that_steps_back_does_not_lock_the_budget() -> None:
    assert RetryBudget(0.1, started_at=100.0, retries=10).has_room(50.0)


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 2)), max_size=200))
def test_never_more_retries_than_the_budget_allows_in_a_window(
    steps: list[tuple[bool, float]],
) -> None:
    budget, now = RetryBudget(0.1), 0.0
    for is_retry, gap in steps:
        now += gap
        if not is_retry:
            budget.count_request(now)
        elif budget.has_room(now):
            budget.spend_retry(now)
        assert budget.retries <= max(10, 0.1 * budget.requests)


@pytest.mark.parametrize(
    ("reason", "first", "second"),
    [
        (RetryReason.CONNECT, False, False),
        (RetryReason.BROKEN, False, True),
        (RetryReason.TIMEOUT, True, True),
        (RetryReason.STATUS_5XX, True, True),
        (RetryReason.BUSY, True, True),
    ],
)
def test_what_a_worker_no_longer_has_is_moved_and_what_it_answered_badly_is_paid(
    reason: RetryReason, first: bool, second: bool
) -> None:
    assert costs_budget(Failure(reason), attempt=1) is first
    assert costs_budget(Failure(reason), attempt=2) is second
