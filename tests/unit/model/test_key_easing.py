"""When a key is eased, and when it no longer is."""

from __future__ import annotations

import pytest

from ds4watch.model.key_budget import KeyBudget, Span
from ds4watch.model.key_easing import Ease, KeyStanding, ease_of, standings_of

HOUR = 1_800_000_000.0


@pytest.mark.parametrize(
    ("spent", "projected", "before", "ease"),
    [
        (10, 300, Ease.NONE, Ease.NONE),  # too early to make anything of it
        (30, 101, Ease.NONE, Ease.GENTLE),
        (30, 99, Ease.NONE, Ease.NONE),
        (30, 71, Ease.GENTLE, Ease.GENTLE),
        (30, 69, Ease.GENTLE, Ease.NONE),
        (80, 85, Ease.NONE, Ease.GENTLE),
        (80, 101, Ease.GENTLE, Ease.FIRM),
        (50, 101, Ease.GENTLE, Ease.FIRM),  # gently did not suffice
        (80, 85, Ease.FIRM, Ease.FIRM),
        (60, 69, Ease.FIRM, Ease.NONE),
        (95, 96, Ease.NONE, Ease.FIRM),
        (120, None, Ease.NONE, Ease.FIRM),
        (50, None, Ease.NONE, Ease.NONE),
    ],
)
def test_a_key_is_eased_by_what_is_spent_and_what_will_be(
    spent: int, projected: int | None, before: Ease, ease: Ease
) -> None:
    assert ease_of([KeyStanding(Span.DAY, 100, spent, projected)], before) is ease


def test_the_budget_that_is_worst_off_counts() -> None:
    standings = (KeyStanding(Span.HOUR, 100, 10, 10), KeyStanding(Span.DAY, 100, 96, 96))
    assert ease_of(standings, Ease.NONE) is Ease.FIRM
    assert ease_of((), Ease.FIRM) is Ease.NONE


def test_a_budget_of_nothing_is_spent() -> None:
    assert ease_of(standings_of(KeyBudget(day=0), {}, HOUR + 10), Ease.NONE) is Ease.FIRM


def test_the_rest_is_taken_to_be_like_this_hour_and_the_last() -> None:
    hours = {HOUR - 7200: 900, HOUR - 3600: 36, HOUR: 18}
    budget = KeyBudget(hour=1000, day=10_000)
    by_span = {it.span: it for it in standings_of(budget, hours, HOUR + 1800)}
    assert by_span[Span.HOUR].projected == 36
    left_seconds = 86_400 - (HOUR + 1800) % 86_400
    assert by_span[Span.DAY].projected == 954 + round(54 / 5400 * left_seconds)
    early = standings_of(budget, hours, HOUR + 300)
    assert early[0].projected is None
    assert early[1].projected is not None
