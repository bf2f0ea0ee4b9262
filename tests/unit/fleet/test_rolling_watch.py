from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.fleet.rolling_watch import (
    Answered,
    Baseline,
    Evidence,
    Quality,
    Tally,
    Tolerance,
    baseline,
    fisher,
    tally,
    why_failing,
    why_worse,
)

ALLOWED = Tolerance()


def of(total: int, failures: int = 0, seconds: float = 0.1, first: float | None = None) -> Tally:
    return tally(Answered(0.0, it >= failures, seconds, first) for it in range(total))


@pytest.mark.parametrize(
    ("table", "p"),
    [  # the tea-tasting lady of Fisher's own book, and tables that any textbook has
        ((3, 4, 1, 4), 17 / 70),
        ((4, 4, 0, 4), 1 / 70),
        ((0, 10, 5, 10), 1.0),
        ((8, 10, 1, 6), 0.0245),
    ],
)
def test_fishers_exact_test_as_in_the_textbooks(table: tuple[int, int, int, int], p: float) -> None:
    assert fisher(*table) == pytest.approx(p, abs=1e-3)


counts = st.integers(0, 60)


@given(bad=counts, good=counts, other_bad=counts, other_good=counts)
def test_the_chance_is_one_and_falls_with_each_further_failure(
    bad: int, good: int, other_bad: int, other_good: int
) -> None:
    total, others = bad + good + 1, other_bad + other_good
    now = fisher(bad, total, other_bad, others)
    assert 0.0 <= fisher(bad + 1, total, other_bad, others) <= 1.0
    assert 0.0 <= now <= 1.0


@pytest.mark.parametrize(
    ("new", "old", "told"),
    [
        (of(100, 20), of(1000, 5), "20 of 100 requests failed, against 5 of 1000"),
        (of(30, 1), of(1000), ""),  # one failure is nothing
        (of(30, 3), of(300, 30), ""),  # no more than the old
        (of(1000, 8), of(1000, 0), ""),  # certain, but within the margin
        (of(10, 9), Tally(), "9 of 10 requests failed, and there is no old one"),
        (of(10, 4), Tally(), ""),
        (of(100, 0, 0.2), of(300, 0, 0.1), "latency: 100 of 100 took over 0.15 s"),
        (of(100, 0, 0.14), of(300, 0, 0.1), ""),  # within the margin
        (of(3, 0, 9.0), of(300, 0, 0.1), "latency"),
        (of(1, 0, 9.0), of(300, 0, 0.1), ""),  # one slow answer is nothing
        (of(50, 0, 0.1, 0.09), of(300, 0, 0.1, 0.01), "time to first token: 50 of 50"),
        (Tally(), of(300), ""),
    ],
)
def test_what_is_called_worse(new: Tally, old: Tally, told: str) -> None:
    found = why_worse(Evidence(new, baseline(old)), ALLOWED)
    assert told in found
    assert bool(told) == bool(found)


@pytest.mark.parametrize(
    ("quality", "told"),
    [
        (None, ""),
        (Quality((0.01,) * 8), ""),
        (Quality((0.5,) * 8), "off by 0.5 nats, against what the old says"),
        (Quality((0.6,) * 8, (0.55,) * 8), ""),
        (Quality((0.6,) * 8, (0.2,) * 8), "off by 0.6 nats, against the old's 0.2"),
        (Quality((4.0, *[0.1] * 7), (0.2,) * 8), ""),  # one prompt of eight is nothing
    ],
)
def test_quality_is_worse_only_beyond_the_margin_and_on_most_prompts(
    quality: Quality | None, told: str
) -> None:
    found = why_worse(Evidence(of(30), Baseline(), quality), ALLOWED)
    assert told in found
    assert bool(told) == bool(found)


def test_a_version_that_is_no_different_is_hardly_ever_called_worse() -> None:
    """Looks as they are made, with the spread that real latencies have."""
    draw = random.Random(5)
    alarms = 0
    for _ in range(300):
        old = baseline(tally(_drawn(draw, 400)))
        new = list(_drawn(draw, 240))
        looks = (new[:count] for count in (30, 60, 120, 240))
        alarms += any(why_worse(Evidence(tally(it), old), ALLOWED) for it in looks)
        early = (new[:count] for count in (5, 10, 20))
        alarms += any(why_failing(Evidence(tally(it), old), ALLOWED) for it in early)
    assert alarms <= 3


def _drawn(draw: random.Random, count: int) -> list[Answered]:
    return [
        Answered(0.0, draw.random() > 0.02, draw.lognormvariate(0, 0.8), draw.lognormvariate(0, 1))
        for _ in range(count)
    ]
