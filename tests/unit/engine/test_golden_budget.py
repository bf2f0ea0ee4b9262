from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ds4watch.engine.golden_budget import ALL_BUT_SPENT, SPENT, budget_of


def test_without_a_bound_anything_may_be_asked_and_cost() -> None:
    budget = budget_of(None, 10**12, 10**9)
    assert budget.over == ""
    assert budget.fits(4) == 4
    assert budget.each(4) is None


@pytest.mark.parametrize(
    ("spent", "dearest", "over", "fits"),
    [
        (0, None, "", 1),
        (0, 10, "", 4),
        (70, 10, "", 3),
        (85, 10, "", 1),
        (91, 10, ALL_BUT_SPENT, 1),
        (100, 10, SPENT, 1),
        (120, None, SPENT, 1),
        (0, 0, "", 4),
    ],
)
def test_so_many_are_asked_as_what_is_left_is_enough_for(
    spent: int, dearest: int | None, over: str, fits: int
) -> None:
    budget = budget_of(100, spent, dearest)
    assert budget.over == over
    assert budget.fits(4) == fits


@given(
    some.integers(1, 10**12), some.lists(some.integers(0, 10**11), max_size=60), some.integers(1, 9)
)
def test_answers_that_keep_to_their_part_never_cost_more_than_all_may(
    most: int, costs: list[int], at_once: int
) -> None:
    spent, dearest = 0, None
    while costs:
        budget = budget_of(most, spent, dearest)
        if budget.over:
            break
        batch, costs = costs[: budget.fits(at_once)], costs[budget.fits(at_once) :]
        each = budget.each(len(batch))
        assert each is not None
        paid = [min(it, each) for it in batch]
        spent += sum(paid)
        dearest = max([dearest or 0, *paid])
    assert spent <= most
