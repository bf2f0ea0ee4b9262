"""What time costs, exactly."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.cost.attribution import Charge, CostPart, charges, part_of, per_hour
from ds4watch.cost.prices import PriceEntry, price_at, price_entry, with_own_prices
from ds4watch.model.worker import WorkerLoad, WorkerPhase, WorkerView

PRICES = (
    price_entry("*", Decimal("0.95"), 0.0),
    price_entry("big", Decimal("3.00"), 0.0),
    price_entry("big", Decimal("4.00"), 7200.0),
)


def worker(
    profile: str = "big", phase: WorkerPhase = WorkerPhase.READY, running: float | None = 0.0
) -> WorkerView:
    return WorkerView(
        id="w",
        profile=profile,
        models=("m",),
        url="http://127.0.0.1:1",
        phase=phase,
        since=0.0,
        load=WorkerLoad(running=running),
    )


def test_a_price_holds_from_its_instant_on_and_never_before() -> None:
    assert price_at(PRICES, "big", 7199.9) == 3_000_000_000
    assert price_at(PRICES, "big", 7200.0) == 4_000_000_000
    assert price_at(PRICES, "other", 7200.0) == 950_000_000
    assert price_at((), "other", 0.0) == 0


def test_a_profiles_own_price_takes_the_place_of_those_listed_for_it() -> None:
    own = {"big": [(0.0, Decimal("2.40"))], "new": [(0.0, Decimal("1.20"))]}
    prices = with_own_prices(PRICES, own)
    for at in (0.0, 7200.0):
        assert price_at(prices, "big", at) == 2_400_000_000
        assert price_at(prices, "new", at) == 1_200_000_000
        assert price_at(prices, "other", at) == 950_000_000
    assert with_own_prices(PRICES, {}) == PRICES


def test_a_profiles_own_price_changes_at_its_instants() -> None:
    own = {"big": [(0.0, Decimal(2)), (7200.0, Decimal(3))]}
    prices = with_own_prices(PRICES, own)
    found = [price_at(prices, "big", at) for at in (0.0, 7199.0, 7200.0)]
    assert found == [2_000_000_000, 2_000_000_000, 3_000_000_000]


@pytest.mark.parametrize(
    ("profile", "url", "price"),
    [
        ("p", "http://127.0.0.1:1", 3),  # this machine's GPUs
        ("p", "http://far:1", 1),
        ("p", "http://near:1", 2),
        ("named", "http://near:1", 4),  # a profile before a host
        ("wide", "http://far:1", 8),  # the price of a GPU for any profile, times its GPUs
        ("wide", "http://near:1", 2),
    ],
)
def test_the_price_that_says_most_closely_whom_it_is_for_holds(
    profile: str, url: str, price: int
) -> None:
    prices = (
        price_entry("*", Decimal(1), 0.0),
        price_entry("wide", Decimal(8), 0.0, stands_for_all=True),
        price_entry("*", Decimal(2), 0.0, host="near"),
        price_entry("*", Decimal(3), 0.0, of_gpu=True),
        price_entry("named", Decimal(4), 0.0),
        price_entry("named", Decimal(5), 100.0, host="elsewhere"),
    )
    assert price_at(prices, profile, 200.0, url) == price * 10**9


@pytest.mark.parametrize(
    ("phase", "running", "part"),
    [
        (WorkerPhase.READY, 1.0, CostPart.BUSY),
        (WorkerPhase.READY, 0.0, CostPart.IDLE),
        (WorkerPhase.READY, None, CostPart.IDLE),
        (WorkerPhase.LOADING, None, CostPart.STARTING),
        (WorkerPhase.ASLEEP, None, CostPart.ASLEEP),
        (WorkerPhase.FAILED, None, None),
    ],
)
def test_each_phase_has_its_part(
    phase: WorkerPhase, running: float | None, part: CostPart | None
) -> None:
    assert part_of(worker(phase=phase, running=running), served_at=1.0) == part


def test_who_is_ready_and_has_served_nothing_since_is_a_spare() -> None:
    ready = replace(worker(), since=100.0)
    assert part_of(ready) is CostPart.SPARE
    assert part_of(ready, 99.0) is CostPart.SPARE  # before it slept
    assert part_of(ready, 101.0) is CostPart.IDLE
    assert part_of(replace(ready, load=WorkerLoad(running=1.0))) is CostPart.BUSY


def test_an_hour_cut_anywhere_costs_its_price() -> None:
    total = sum(
        charge.nanos
        for start, end in ((3600.0, 3600.7), (3600.7, 5000.001), (5000.001, 7200.0))
        for charge in charges(worker(), PRICES, start, end)
    )
    assert total == 3_000_000_000


@given(
    st.lists(st.integers(0, 4 * 3_600_000), min_size=1, max_size=40),
    st.integers(0, 10**12),
)
def test_any_cuts_of_four_hours_sum_to_four_prices(cuts: list[int], price: int) -> None:
    prices = (PriceEntry("*", price, 0.0),)
    edges = sorted({0, 4 * 3_600_000, *cuts})
    by_hour: dict[int, int] = defaultdict(int)
    for start, end in pairwise(edges):
        for charge in charges(worker(), prices, start / 1000, end / 1000):
            by_hour[charge.hour_at] += charge.nanos
    assert all(nanos == price for nanos in by_hour.values())
    assert len(by_hour) == (4 if price else 0)


def test_a_span_over_the_hour_is_charged_to_both_at_their_own_price() -> None:
    found = charges(worker(running=2.0), PRICES, 7190.0, 7210.0)
    assert found == (
        Charge(3600, "w", "big", CostPart.BUSY, 8_333_334, 3_000_000_000, 10_000),
        Charge(7200, "w", "big", CostPart.BUSY, 11_111_111, 4_000_000_000, 10_000),
    )


def test_the_running_cost_counts_who_holds_a_machine() -> None:
    fleet = [worker(), worker("x"), worker(phase=WorkerPhase.FAILED)]
    assert per_hour(fleet, PRICES, 0.0) == 3_950_000_000
