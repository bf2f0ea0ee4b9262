"""How many workers are wanted, who is called, who rests."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.policy.calendar import CalendarEntry, asked
from ds4watch.policy.provision import (
    Decision,
    Demand,
    Move,
    Provision,
    ProvisioningLimits,
    Reason,
    Standing,
    Unit,
)
from ds4watch.policy.provisioning import step

LIMITS = ProvisioningLimits(slots=10, floor=1, target_ratio=0.8, margin=0.0)
HOT, COMING, ASLEEP, AWAY, LOST = (
    Standing.HOT,
    Standing.COMING,
    Standing.ASLEEP,
    Standing.AWAY,
    Standing.LOST,
)


def units(*standings: Standing, price: int = 0) -> list[Unit]:
    return [Unit(f"w{number}", at, price=price) for number, at in enumerate(standings)]


def decided(
    them: list[Unit], demand: Demand, limits: ProvisioningLimits = LIMITS
) -> tuple[list[tuple[str, Move]], Decision]:
    _, decision = step(Provision(), them, demand, limits)
    return [(it.worker, it.move) for it in decision.steps], decision


class World:
    """Workers that do at once, or after some looks, what they are told."""

    def __init__(self, *standings: Standing, start_looks: int = 3) -> None:
        self.standing = {f"w{number}": at for number, at in enumerate(standings)}
        self.state = Provision()
        self.now = 1000.0
        self.start_looks = start_looks
        self._comes: dict[str, int] = {}
        self.told: list[tuple[str, Move]] = []

    def look(self, demand: Demand, limits: ProvisioningLimits, price: int = 0) -> Decision:
        self.now += 15.0
        for name in list(self._comes):
            self._comes[name] -= 1
            if self._comes[name] <= 0:
                self.standing[name] = HOT
                del self._comes[name]
        them = [Unit(name, at, price=price) for name, at in self.standing.items()]
        self.state, decision = step(self.state, them, replace(demand, at=self.now), limits)
        for it in decision.steps:
            self.told.append((it.worker, it.move))
            if it.move is Move.CALL:
                self.standing[it.worker] = COMING
                self._comes[it.worker] = self.start_looks
            else:
                self.standing[it.worker] = AWAY
                self._comes.pop(it.worker, None)
        return decision

    def up(self) -> int:
        return sum(at in (HOT, COMING) for at in self.standing.values())


@pytest.mark.parametrize(
    ("demand", "reason", "wanted"),
    [
        (Demand(0, in_flight=0.0), Reason.FLOOR, 1),
        (Demand(0, in_flight=16.0), Reason.LOAD, 2),
        (Demand(0, in_flight=16.1), Reason.LOAD, 3),
        (Demand(0, in_flight=8.0, waiting=51.0), Reason.QUEUE, 7),
        (Demand(0, in_flight=8.0, waiting=50.0), Reason.FLOOR, 1),
        (Demand(0, in_flight=8.0, ahead=30.0), Reason.FORECAST, 4),
        (Demand(0, in_flight=8.0, calendar=5), Reason.CALENDAR, 5),
        (Demand(0, in_flight=8.0, ahead=16.0, planned=1), Reason.PLANNED, 3),
    ],
)
def test_the_most_that_anything_asks_for_is_wanted(
    demand: Demand, reason: Reason, wanted: int
) -> None:
    _, decision = decided(units(HOT, *[AWAY] * 9), demand)
    assert (decision.reason, decision.wanted) == (reason, wanted)


def test_sleepers_are_woken_before_anybody_is_started() -> None:
    steps, _ = decided(units(HOT, AWAY, ASLEEP, AWAY), Demand(0, in_flight=1.0, calendar=3))
    assert steps == [("w2", Move.CALL), ("w1", Move.CALL)]


def test_who_is_on_the_way_counts_and_a_long_queue_waits_for_them() -> None:
    steps, decision = decided(units(HOT, COMING, AWAY), Demand(0, in_flight=16.0, waiting=99.0))
    assert not steps
    assert Reason.QUEUE not in decision.asks


def test_with_nobody_up_a_request_that_found_nobody_calls_one() -> None:
    limits = replace(LIMITS, floor=0)
    steps, _ = decided(units(AWAY, AWAY), Demand(0, in_flight=None, is_unserved=True), limits)
    assert steps == [("w0", Move.CALL)]


def test_a_start_that_takes_too_long_is_given_up_and_another_is_called() -> None:
    limits = replace(LIMITS, floor=2, patience_seconds=100.0, give_up_seconds=1000.0)
    demand = Demand(0, in_flight=1.0)
    state, _ = step(Provision(), units(HOT, AWAY, AWAY), demand, limits)
    coming = units(HOT, COMING, AWAY)
    state, decision = step(state, coming, replace(demand, at=99.0), limits)
    assert not decision.steps
    state, decision = step(state, coming, replace(demand, at=100.0), limits)
    assert [(it.worker, it.move) for it in decision.steps] == [
        ("w1", Move.GIVE_UP),
        ("w2", Move.CALL),
    ]
    after = units(HOT, AWAY, LOST)
    state, decision = step(state, after, replace(demand, at=200.0), limits)
    assert [it for it in decision.steps if it.worker == "w1"] == [], "it is left alone for a while"
    assert decision.refused


@pytest.mark.parametrize(("load", "moves"), [(None, []), (0.0, [Move.REST])])
def test_unknown_load_lets_nobody_rest_and_zero_does(load: float | None, moves: list[Move]) -> None:
    _, decision = decided(units(HOT, HOT), Demand(0, in_flight=load))
    assert [it.move for it in decision.steps] == moves


def test_what_was_wanted_within_the_window_is_kept() -> None:
    them = units(HOT, HOT)
    state, _ = step(Provision(), them, Demand(0, in_flight=16.0), LIMITS)
    for at_seconds, rests in ((LIMITS.stabilise_seconds - 1, False), (301.0, True)):
        state, decision = step(state, them, Demand(at_seconds, in_flight=0.0), LIMITS)
        assert bool(decision.steps) is rests


def test_who_would_not_rest_is_on_again_after_a_while() -> None:
    them = units(HOT, HOT)
    state, decision = step(Provision(), them, Demand(0, in_flight=0.0), LIMITS)
    assert [it.move for it in decision.steps] == [Move.REST]
    state, _ = step(state, them, Demand(30, in_flight=0.0), LIMITS)
    assert len(state.on) == 1
    state, decision = step(state, them, Demand(61, in_flight=12.0), LIMITS)
    assert len(state.on) == 2
    assert not decision.steps


def test_nobody_rests_whose_load_the_others_could_not_take() -> None:
    # Two carry 16 open requests at four fifths of their slots.
    for open_now, rests in ((16.0, True), (16.5, False)):
        _, decision = decided(units(HOT, HOT, HOT), Demand(0, in_flight=open_now))
        assert bool(decision.steps) is rests


def test_a_budget_and_a_ceiling_bound_what_is_called_and_are_told() -> None:
    demand = Demand(0, in_flight=70.0)
    _, capped = decided(units(HOT, *[AWAY] * 9), demand, replace(LIMITS, ceiling=3))
    assert (len(capped.steps), capped.refused) == (
        2,
        "9 are asked for, over the ceiling of 3 workers",
    )
    _, poor = decided(units(HOT, *[AWAY] * 9, price=10), demand, replace(LIMITS, budget=25))
    assert len(poor.steps) == 1
    assert "budget" in poor.refused


def test_who_is_not_ours_is_counted_and_left_alone() -> None:
    them = [Unit("fixed", HOT, is_ours=False), Unit("held", AWAY, is_ours=False), Unit("w", AWAY)]
    steps, _ = decided(them, Demand(0, in_flight=40.0))
    assert steps == [("w", Move.CALL)]


LOADS = st.lists(st.one_of(st.none(), st.floats(0, 300, allow_nan=False)), min_size=5, max_size=60)


@given(
    LOADS,
    st.lists(st.sampled_from(list(Standing)), min_size=1, max_size=8),
    st.integers(0, 4),
    st.integers(0, 8),
    st.integers(0, 80),
)
def test_never_below_the_floor_nor_above_ceiling_or_budget(
    loads: list[float | None], standings: list[Standing], floor: int, ceiling: int, budget: int
) -> None:
    limits = replace(LIMITS, floor=floor, ceiling=ceiling, budget=budget, stabilise_seconds=40.0)
    world = World(*standings)
    for load in loads:
        before = world.up()
        decision = world.look(Demand(0, in_flight=load, waiting=load or 0.0), limits, price=10)
        if any(it.move is Move.CALL for it in decision.steps):
            up = world.up()
            assert up <= max(ceiling, before)
            assert up * 10 <= max(budget, before * 10)
        if any(it.move is Move.REST for it in decision.steps):
            assert load is not None
            assert sum(at is HOT for at in world.standing.values()) >= floor


@given(st.floats(0, 79, allow_nan=False), st.integers(1, 10), st.integers(1, 6))
def test_under_a_constant_load_it_comes_to_rest(load: float, hot: int, start_looks: int) -> None:
    world = World(*[HOT] * hot, *[AWAY] * (10 - hot), start_looks=start_looks)
    demand = Demand(0, in_flight=load, ahead=load / 2)
    for _ in range(60):
        world.look(demand, LIMITS)
    settled = len(world.told)
    for _ in range(60):
        world.look(demand, LIMITS)
    assert len(world.told) == settled
    moves = {move for _, move in world.told}
    assert not {Move.CALL, Move.REST} <= moves, "nobody is called only to be let go"
    assert world.up() == max(1, math.ceil(load / 8 - 1e-9))


@given(LOADS, st.lists(st.sampled_from(list(Standing)), min_size=1, max_size=8))
def test_a_second_look_at_the_same_instant_changes_nothing(
    loads: list[float | None], standings: list[Standing]
) -> None:
    state = Provision()
    them = units(*standings)
    for number, load in enumerate(loads):
        demand = Demand(number * 60.0, in_flight=load)
        state, first = step(state, them, demand, LIMITS)
        _, second = step(state, them, demand, LIMITS)
        assert not {it.worker for it in first.steps} & {it.worker for it in second.steps}


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("instant", "workers"),
    [
        ("2026-03-02T08:24:59", 0),
        ("2026-03-02T08:25:00", 4),
        ("2026-03-02T11:59:59", 4),
        ("2026-03-02T12:00:00", 0),
        ("2026-03-07T09:00:00", 0),
    ],
)
def test_a_calendar_asks_a_lead_ahead_and_on_its_days_only(instant: str, workers: int) -> None:
    weekdays = frozenset(range(5))
    entry = CalendarEntry("morning", 4, weekdays, time(8, 30), time(12))
    assert asked([entry], "any", at(instant), 300.0)[0] == workers


def test_a_calendar_over_midnight_and_in_local_time() -> None:
    entry = CalendarEntry(
        "night", 2, frozenset({6}), time(22), time(2), "p", ZoneInfo("Europe/Berlin")
    )
    # Sunday 22:00 in Berlin is 21:00 UTC in winter.
    assert asked([entry], "p", at("2026-03-01T20:59:00"), 0.0) == (0, "")
    assert asked([entry], "p", at("2026-03-01T21:00:00"), 0.0) == (2, "night")
    assert asked([entry], "p", at("2026-03-02T00:59:00"), 0.0) == (2, "night")
    assert asked([entry], "p", at("2026-03-02T01:00:00"), 0.0) == (0, "")
    assert asked([entry], "other", at("2026-03-01T21:00:00"), 0.0) == (0, "")
