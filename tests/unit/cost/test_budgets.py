"""Whose money it is, how much of a budget is spent, and what it will come to."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.cost.budgets import (
    Budget,
    BudgetBook,
    Period,
    Scope,
    Standing,
    first_needed,
    period_end,
    period_start,
    shares,
)
from ds4watch.cost.split import split
from ds4watch.model.usage import Usage

NOON = int(datetime(2026, 6, 16, 12, tzinfo=UTC).timestamp())
HOUR = 3600
names = st.sampled_from("abcdef")


@given(st.integers(-(10**15), 10**15), st.dictionaries(names, st.integers(0, 10**9)))
def test_shares_sum_to_exactly_the_whole_and_are_within_one_of_fair(
    nanos: int, weights: dict[str, int]
) -> None:
    found = split(nanos, weights)
    total = sum(weights.values())
    assert sum(found.values()) == (nanos if total else 0)
    for name, share in found.items():
        assert abs(share * total - nanos * weights[name]) < total


@given(
    st.integers(0, 10**15),
    st.dictionaries(st.tuples(names, names), st.integers(0, 10**9), min_size=1),
)
def test_keys_and_models_each_sum_to_the_hour(
    nanos: int, weights: dict[tuple[str, str], int]
) -> None:
    found = shares(nanos, weights)
    for scope in (Scope.KEY, Scope.MODEL):
        of = sum(share for (it, _), share in found.items() if it is scope)
        assert of == (nanos if sum(weights.values()) else 0)
    assert found[Scope.TOTAL, ""] == nanos


def standings(book: BudgetBook, at: float) -> dict[Budget, Standing]:
    return {it.budget: it for it in book.standings(at)}


def test_a_key_pays_its_share_of_the_hours_in_which_it_asked() -> None:
    alice = Budget(Scope.KEY, "alice", Period.DAY, 10**9)
    tiny = Budget(Scope.MODEL, "tiny", Period.DAY, 10**9)
    everything = Budget(Scope.TOTAL, "", Period.DAY, 10**9)
    book = BudgetBook([alice, tiny, everything])
    for hour in range(3):
        book.add_money(NOON + hour * HOUR, 900)
    book.add_work(NOON, "alice", "tiny", Usage(prompt=1000, cached=900, completion=40))  # 400
    book.add_work(NOON, "bob", "tiny", Usage(prompt=100, completion=40))  # 400
    book.add_work(NOON, "bob", "large", Usage(prompt=0, completion=20))  # 100
    book.add_work(NOON + HOUR, "bob", "large", Usage(prompt=10))
    found = standings(book, NOON + 2.5 * HOUR)
    assert found[alice].spent == 400
    assert found[tiny].spent == 800
    assert found[everything].spent == 2700


@pytest.mark.parametrize(
    ("period", "start", "end"),
    [
        (Period.HOUR, NOON, NOON + HOUR),
        (Period.DAY, NOON - 12 * HOUR, NOON + 12 * HOUR),
        (Period.MONTH, NOON - (15 * 24 + 12) * HOUR, NOON + (14 * 24 + 12) * HOUR),
    ],
)
def test_a_period_begins_anew_at_utc(period: Period, start: int, end: int) -> None:
    assert (period_start(NOON + 1.5, period), period_end(NOON + 1.5, period)) == (start, end)
    budget = Budget(Scope.TOTAL, "", period, 10**9)
    book = BudgetBook([budget])
    book.add_money(start - HOUR, 7)
    book.add_money(NOON, 5)
    assert standings(book, NOON + 60.0)[budget].spent == 5
    assert standings(book, float(end))[budget].spent == 0


def test_december_ends_with_the_year() -> None:
    at = datetime(2026, 12, 31, 23, 59, tzinfo=UTC).timestamp()
    assert period_end(at, Period.MONTH) == datetime(2027, 1, 1, tzinfo=UTC).timestamp()


def test_the_rest_of_a_day_is_projected_by_the_last_24_hours() -> None:
    budget = Budget(Scope.TOTAL, "", Period.DAY, 10**9)
    book = BudgetBook([budget])
    for hour in range(-30, 1):
        book.add_money(NOON + hour * HOUR, 100 if hour >= -24 else 10_000)
    found = standings(book, float(NOON))[budget]
    assert found.spent == 13 * 100
    assert found.projected == 1300 + 12 * 100


def test_an_hour_is_projected_by_itself_and_not_in_its_first_ten_minutes() -> None:
    budget = Budget(Scope.TOTAL, "", Period.HOUR, 10**9)
    book = BudgetBook([budget])
    book.add_money(NOON - HOUR, 10**6)
    book.add_money(NOON, 100)
    assert standings(book, NOON + 599.0)[budget].projected is None
    assert standings(book, NOON + 900.0)[budget].projected == 400


def test_what_no_standing_looks_at_is_forgotten() -> None:
    budget = Budget(Scope.TOTAL, "", Period.MONTH, 10**9)
    book = BudgetBook([budget])
    june = first_needed(NOON)
    for day in range(-40, 15):
        book.add_money(june + day * 24 * HOUR, 1)
    assert standings(book, float(NOON))[budget].spent == 15
    assert len(book._hours) <= 16


def test_without_budgets_nothing_is_kept() -> None:
    book = BudgetBook(())
    book.add_money(NOON, 1)
    book.add_work(NOON, "a", "m", Usage(prompt=1))
    assert list(book.standings(float(NOON))) == []
    assert not book._hours


def test_a_budget_that_is_gone_within_a_minute_is_seen_to_go() -> None:
    everything = Budget(Scope.TOTAL, "", Period.HOUR, 60_000)
    tiny = Budget(Scope.MODEL, "tiny", Period.HOUR, 60_000)
    book = BudgetBook([everything, tiny])
    book.add_work(NOON, "bob", "tiny", Usage(prompt=10))
    for second in range(10):
        book.note([(NOON, 1000)], NOON + second)
    lasts = standings(book, NOON + 9)[everything].lasts_seconds
    assert lasts == pytest.approx(50 / (8 / 9))
    ((found,),) = book.of_models(NOON + 9).values()
    assert found.lasts_seconds == lasts
    for second in range(10, 100):
        book.note([], NOON + second)
    assert standings(book, NOON + 99)[everything].lasts_seconds is None
