"""Models whose budgets are about to run out: eased, told to gateways, alone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ds4watch.cost.budgets import Budget, BudgetBook, Period, Scope
from ds4watch.engine.model_easing import ModelEasing
from ds4watch.model.limits import Limits
from ds4watch.model.usage import Usage

HOUR = 1_700_000_000 // 3600 * 3600
GENTLE = (Limits(max_tokens_cap=512), Limits(max_tokens_cap=128))
BUDGETS = (
    Budget(Scope.MODEL, "big", Period.HOUR, 100),
    Budget(Scope.MODEL, "small", Period.HOUR, 1000),
    Budget(Scope.KEY, "big", Period.HOUR, 1),
    Budget(Scope.TOTAL, "", Period.HOUR, 1),
)


class Board:
    def __init__(self) -> None:
        self.published: list[Mapping[str, Limits]] = []

    def publish_eased_models(self, eased: Mapping[str, Limits]) -> None:
        self.published.append(eased)


class Clock:
    def __init__(self) -> None:
        self.at = float(HOUR + 3000)

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


def easing(book: BudgetBook, gentle: tuple[Limits, ...] = GENTLE) -> tuple[ModelEasing, Board]:
    board = Board()
    models = ModelEasing(board, Clock(), gentle=gentle)
    models.standings = book.of_models
    return models, board


def spent(nanos: int) -> BudgetBook:
    """Return a book in which each model had half of the money."""
    book = BudgetBook(BUDGETS)
    book.add_money(HOUR, nanos)
    book.add_work(HOUR, "a", "big", Usage(10, 1, 0))
    book.add_work(HOUR, "b", "small", Usage(10, 1, 0))
    return book


# half of it is the model's, of 100
@pytest.mark.parametrize(("nanos", "cap"), [(20, None), (160, 512), (190, 128), (400, 128)])
def test_a_model_is_eased_before_its_budget_is_spent_and_no_other_is(
    nanos: int, cap: int | None
) -> None:
    models, board = easing(spent(nanos))
    models.look()
    caps = [{name: it.max_tokens_cap for name, it in eased.items()} for eased in board.published]
    assert caps == ([] if cap is None else [{"big": cap}])
    models.look()
    assert len(board.published) == len(caps), "what gateways know is not told again"


def test_it_ends_with_the_hour_and_the_log_and_a_metric_tell_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    board, clock = Board(), Clock()
    models = ModelEasing(board, clock, gentle=GENTLE)
    models.standings = spent(190).of_models
    models.look()
    told = {dict(it.labels)["model"]: it.value for it in models.samples()}
    assert told == {"big": 2.0, "small": 0.0}
    assert "model big: eased before its budget runs out: firm" in caplog.text
    clock.at += 3600
    models.look()
    assert board.published[-1] == {}
    assert "model big: eased before its budget runs out: none" in caplog.text


def test_where_keys_are_not_eased_models_are_not() -> None:
    models, board = easing(spent(400), gentle=())
    models.look()
    assert board.published == []
