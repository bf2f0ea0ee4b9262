from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.key_budget import BudgetLeft, KeyBudget, Span, budget_left, span_of


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


NOW = at("2028-02-29T23:30:00")
MIDNIGHT = at("2028-03-01T00:00:00")


@pytest.mark.parametrize(
    ("span", "begin", "end"),
    [
        (Span.HOUR, "2028-02-29T23:00:00", "2028-03-01T00:00:00"),
        (Span.DAY, "2028-02-29T00:00:00", "2028-03-01T00:00:00"),
        (Span.MONTH, "2028-02-01T00:00:00", "2028-03-01T00:00:00"),
    ],
)
def test_spans_are_those_of_the_calendar_in_utc(span: Span, begin: str, end: str) -> None:
    assert span_of(span, NOW) == (at(begin), at(end))


def test_a_year_ends_with_december() -> None:
    assert span_of(Span.MONTH, at("2028-12-31T23:59:59"))[1] == at("2029-01-01T00:00:00")


def test_without_a_budget_nothing_is_counted() -> None:
    assert budget_left(KeyBudget(), [(NOW, 5)], NOW) is None


def test_an_hour_counts_for_its_day_and_month_and_not_for_the_next_hour() -> None:
    spent = [(at("2028-02-29T23:00:00"), 30), (at("2028-02-29T22:00:00"), 400)]
    assert budget_left(KeyBudget(hour=100), spent, NOW) == BudgetLeft(70, MIDNIGHT)
    assert budget_left(KeyBudget(day=1000), spent, NOW) == BudgetLeft(570, MIDNIGHT)
    assert budget_left(KeyBudget(hour=100, day=440), spent, NOW) == BudgetLeft(10, MIDNIGHT)


def test_of_two_that_are_spent_the_one_that_stays_spent_longer_counts() -> None:
    now = at("2028-02-10T10:30:00")
    left = budget_left(KeyBudget(hour=1, month=1), [(at("2028-02-10T10:00:00"), 5)], now)
    assert left == BudgetLeft(-4, MIDNIGHT)
    assert left.is_spent(now)
    assert not left.is_spent(MIDNIGHT)


@given(st.builds(KeyBudget, *[st.none() | st.integers(0, 2**62)] * 3))
def test_budgets_survive_the_way_through_json(budget: KeyBudget) -> None:
    assert KeyBudget.from_json(budget.as_json()) == budget


@pytest.mark.parametrize("odd", [-1, 2**63, 1.5, "9", True])
def test_odd_budgets_are_refused(odd: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        KeyBudget.from_json({"day": odd})
