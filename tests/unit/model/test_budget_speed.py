"""A budget is degraded before its wall however fast it goes, and not for what is booked at once."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.budget_speed import FAST_SECONDS, WINDOW_SECONDS, Speed, Speeds
from ds4watch.model.key_budget import Span, span_of
from ds4watch.model.key_easing import Ease, KeyStanding, ease_of

HOUR = 1_800_000_000.0
LIMIT = 10**9
COSTS = {Ease.NONE: 1.0, Ease.GENTLE: 0.6, Ease.FIRM: 0.3}
"""What goes on costing, of what it would, once the answers are shorter."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a budget went: what was spent as it was first eased, and when it was gone."""

    eased_at_ratio: float | None
    gone_after_seconds: float


def spending(
    whole_seconds: float, *, look_seconds: float = 2.0, begin_at: float = HOUR + 60
) -> Ending:
    """Spend a budget that would be gone after so long, and ease it as it is seen to be going."""
    speeds, ease, spent, at = Speeds(), Ease.NONE, 0.0, begin_at
    eased_at: float | None = None
    _, end_at = span_of(Span.HOUR, begin_at)
    while spent < LIMIT and at < end_at:
        standing = KeyStanding(Span.HOUR, LIMIT, int(spent), None)
        speeds.note("k", [standing], at)
        ease = ease_of(speeds.told("k", [standing], at), ease)
        if ease is not Ease.NONE and eased_at is None:
            eased_at = spent / LIMIT
        spent += COSTS[ease] * LIMIT * look_seconds / whole_seconds
        at += look_seconds
    return Ending(eased_at, at - begin_at)


@given(st.floats(20.0, FAST_SECONDS - 1), st.floats(0.5, 2.5))
def test_a_budget_is_eased_before_it_is_gone_and_lasts_longer_for_it(
    whole_seconds: float, look_seconds: float
) -> None:
    found = spending(whole_seconds, look_seconds=look_seconds)
    assert found.eased_at_ratio is not None
    assert found.eased_at_ratio <= 0.84  # five minutes before the end, of half an hour
    assert found.gone_after_seconds >= whole_seconds * 1.05


@pytest.mark.parametrize(
    ("whole_seconds", "eased_at_most_ratio", "lasts_at_least_times"),
    [(30, 0.35, 2.0), (60, 0.15, 2.5), (180, 0.08, 1.8), (600, 0.55, 1.3), (1500, 0.82, 1.1)],
)
def test_the_faster_it_goes_the_more_is_left_as_it_is_eased(
    whole_seconds: float, eased_at_most_ratio: float, lasts_at_least_times: float
) -> None:
    found = spending(whole_seconds)
    assert found.eased_at_ratio is not None
    assert found.eased_at_ratio <= eased_at_most_ratio
    assert found.gone_after_seconds >= lasts_at_least_times * whole_seconds


@given(st.integers(1, LIMIT), st.floats(0, WINDOW_SECONDS))
def test_what_is_booked_at_once_is_no_speed(step: int, after_seconds: float) -> None:
    speed = Speed(HOUR)
    for at in range(70):
        speed.note(step if at > after_seconds else 0, HOUR + at)
        assert speed.per_second() == 0.0


@given(st.lists(st.tuples(st.integers(0, 10**12), st.floats(-5, 30)), max_size=60))
def test_a_speed_is_never_below_nothing_and_knows_a_minute(
    seen: list[tuple[int, float]],
) -> None:
    speed, at = Speed(HOUR), HOUR
    for spent, later in seen:
        at += later
        speed.note(spent, at)
        assert speed.per_second() >= 0
        assert sum(it[0] <= speed.seen[-1][0] - WINDOW_SECONDS for it in speed.seen) <= 1


def test_a_new_hour_begins_anew_and_what_lasts_beyond_the_hour_is_no_matter() -> None:
    speeds = Speeds()
    for at in range(60):
        standing = KeyStanding(Span.HOUR, LIMIT, at * LIMIT // 100, None)
        speeds.note("k", [standing], HOUR + 3540 + at)
    (early,) = speeds.told("k", [standing], HOUR + 3550.0)
    assert early.lasts_seconds is not None
    (late,) = speeds.told("k", [standing], HOUR + 3599.0)
    assert late.lasts_seconds is None
    (after,) = speeds.told("k", [standing], HOUR + 3600.0)
    assert after.lasts_seconds is None


@pytest.mark.parametrize(
    ("lasts", "before", "ease"),
    [
        (None, Ease.FIRM, Ease.NONE),
        (301.0, Ease.NONE, Ease.NONE),
        (299.0, Ease.NONE, Ease.GENTLE),
        (599.0, Ease.GENTLE, Ease.GENTLE),
        (601.0, Ease.GENTLE, Ease.NONE),
        (119.0, Ease.NONE, Ease.FIRM),
        (239.0, Ease.FIRM, Ease.FIRM),
        (239.0, Ease.GENTLE, Ease.GENTLE),
        (241.0, Ease.FIRM, Ease.GENTLE),
    ],
)
def test_how_far_goes_by_how_long_the_rest_lasts(
    lasts: float | None, before: Ease, ease: Ease
) -> None:
    assert ease_of([KeyStanding(Span.HOUR, 100, 10, None, lasts)], before) is ease
