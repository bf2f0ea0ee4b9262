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
    stratified,
    tally,
    why_failing,
    why_worse,
)

ALLOWED = Tolerance()


def beside(new: list[Answered], old: list[Answered]) -> Evidence:
    """Return what is known of a new version that is watched beside the old."""
    return Evidence(tally(new), baseline(tally(old)), new_times=tuple(new), old_times=tuple(old))


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
        (of(100, 0, 0.3), of(300, 0, 0.1), "latency: 100 of 100 took over 0.25 s"),
        (of(100, 0, 0.24), of(300, 0, 0.1), ""),  # within the margin of another time
        (of(3, 0, 9.0), of(300, 0, 0.1), "latency"),
        (of(1, 0, 9.0), of(300, 0, 0.1), ""),  # one slow answer is nothing
        (of(50, 0, 0.1, 0.09), of(300, 0, 0.1, 0.01), "time to first token: 50 of 50"),
        (Tally(), of(300), ""),
    ],
)
def test_what_is_called_worse_where_no_old_one_is_left(new: Tally, old: Tally, told: str) -> None:
    found = why_worse(Evidence(new, baseline(old)), ALLOWED)
    assert told in found
    assert bool(told) == bool(found)


def run(seconds: range, rate: int, took: float, first: float | None = None) -> list[Answered]:
    """Return `rate` answers in each of some seconds."""
    return [Answered(at + it / rate, True, took, first) for at in seconds for it in range(rate)]


MINUTE = range(60)
HITCH = range(20, 30)


@pytest.mark.parametrize(
    ("new", "old", "told"),
    [
        (run(MINUTE, 1, 0.2), run(MINUTE, 4, 0.1), "latency: 60 of 60 took over 0.15 s"),
        (run(MINUTE, 1, 0.14), run(MINUTE, 4, 0.1), ""),  # within the margin
        (run(MINUTE, 1, 0.1, 0.09), run(MINUTE, 4, 0.1, 0.01), "time to first token: 60 of 60"),
        # slow for both in the same seconds, of which the new saw more
        (
            run(MINUTE, 1, 0.1) + run(HITCH, 6, 3.0),
            run(range(20), 4, 0.1) + run(HITCH, 1, 3.0) + run(range(30, 180), 4, 0.1),
            "",
        ),
        # a hitch of the new one's process alone makes all late that were in it
        (run(MINUTE, 1, 0.1) + [Answered(30.0, True, 2.0)] * 8, run(MINUTE, 4, 0.1), ""),
        # but one in each ten seconds is no hitch
        (
            run(MINUTE, 1, 0.1) + [Answered(at, True, 2.0) for at in range(0, 60, 3)],
            run(MINUTE, 4, 0.1),
            "latency: 20 of 80",
        ),
        (run(range(10, 13), 1, 9.0), run(MINUTE, 4, 0.1), "latency: 3 of 3"),  # few, but so slow
        (run(range(1), 1, 9.0), run(MINUTE, 4, 0.1), ""),  # one slow answer is nothing
        # the old answered at other times only: that says nothing
        (run(MINUTE, 1, 3.0), run(range(100, 160), 4, 0.1), ""),
        (run(range(200, 260), 1, 3.0), run(MINUTE, 4, 0.1), ""),
    ],
)
def test_what_is_called_slower_than_the_old_at_the_same_time(
    new: list[Answered], old: list[Answered], told: str
) -> None:
    found = why_worse(beside(new, old), ALLOWED)
    assert told in found
    assert bool(told) == bool(found)


@pytest.mark.parametrize("seed", range(20))
def test_a_machine_that_is_slow_for_both_gives_no_good_version_back(seed: int) -> None:
    """A starved one: spells in which all takes ten times as long, and the new gets the most."""
    draw = random.Random(seed)
    new, old = list[Answered](), list[Answered]()
    for second in range(120):
        if second % 10 == 0:
            slowness = 10.0 if draw.random() < 0.5 else 1.0
        share = 0.8 if slowness > 1 else 0.2
        for _ in range(5):
            one = Answered(second, True, slowness * draw.lognormvariate(-2, 0.5))
            (new if draw.random() < share else old).append(one)
        looks = (new, old) if second in (15, 30, 60, 119) else None
        if looks:
            assert not why_worse(beside(*looks), ALLOWED)


def test_what_was_before_is_no_measure_while_we_are_starved() -> None:
    new, old = of(100, 0, 3.0), baseline(of(300, 0, 0.1))
    assert why_worse(Evidence(new, old), ALLOWED)
    assert not why_worse(Evidence(new, old, was_starved=True), ALLOWED)


@given(st.lists(st.tuples(counts, counts, counts, counts), max_size=6))
def test_slices_of_time_are_fishers_test_for_one_and_no_chance_over_one(
    found: list[tuple[int, int, int, int]],
) -> None:
    slices = [(bad, bad + good, worse, worse + better) for bad, good, worse, better in found]
    assert 0.0 <= stratified(slices) <= 1.0
    for one in slices:
        assert stratified([one]) == pytest.approx(fisher(*one), abs=1e-9)


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
        before = _drawn(draw, 400)
        old = baseline(tally(before))
        new = _drawn(draw, 240)
        looks = (new[:count] for count in (30, 60, 120, 240))
        alarms += any(why_worse(Evidence(tally(it), old), ALLOWED) for it in looks)
        looks = (new[:count] for count in (30, 60, 120, 240))
        alarms += any(why_worse(beside(it, before), ALLOWED) for it in looks)
        early = (new[:count] for count in (5, 10, 20))
        alarms += any(why_failing(Evidence(tally(it), old), ALLOWED) for it in early)
    assert alarms <= 3


def _drawn(draw: random.Random, count: int) -> list[Answered]:
    return [
        Answered(
            it / count, draw.random() > 0.02, draw.lognormvariate(0, 0.8), draw.lognormvariate(0, 1)
        )
        for it in range(count)
    ]
