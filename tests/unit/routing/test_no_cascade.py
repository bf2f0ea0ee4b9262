"""However many workers fall, none is given more than it may have."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView
from ds4watch.routing.admission import has_room
from ds4watch.routing.choice import NoRoute, NoRouteReason, RouteDecision, choose


def worker(name: str, limit: int | None, phase: WorkerPhase = WorkerPhase.READY) -> WorkerView:
    return WorkerView(name, "p", ("m",), "", phase, since=0.0, max_inflight=limit)


@pytest.mark.parametrize(
    ("most", "inflight", "processes", "room"),
    [
        (None, 10_000, 1, True),
        (4, 3, 1, True),
        (4, 4, 1, False),
        (4, 1, 2, True),
        (4, 2, 2, False),
        (5, 2, 2, False),
        (1, 0, 4, True),
        (1, 1, 4, False),
    ],
)
def test_a_worker_has_room_within_the_share_of_this_process(
    most: int | None, inflight: int, processes: int, *, room: bool
) -> None:
    assert has_room(most, inflight, processes=processes) is room


@given(st.integers(1, 100), st.integers(1, 16))
def test_all_processes_together_stay_within_the_limit(most: int, processes: int) -> None:
    share = next(n for n in range(most + 1) if not has_room(most, n, processes=processes))
    assert share * processes <= max(most, processes)


def test_a_full_worker_is_passed_over_and_a_full_fleet_sheds() -> None:
    fleet = FleetSnapshot(0.0, (worker("a", 2), worker("b", 2)))
    for draws in ((0.0, 0.0), (0.9, 0.9)):
        route = choose(fleet, "m", draws=draws, inflight={"a": 2, "b": 1})
        assert isinstance(route, RouteDecision)
        assert route.worker.id == "b"
    full = choose(fleet, "m", draws=(0.0, 0.0), inflight={"a": 2, "b": 2})
    assert full == NoRoute(NoRouteReason.FULL)


def test_who_was_left_out_for_a_fault_is_not_tried_because_the_others_are_full() -> None:
    fleet = FleetSnapshot(0.0, (worker("a", 1), worker("b", 1)))
    route = choose(fleet, "m", draws=(0.0, 0.0), inflight={"a": 1}, ejected={"b": 9.0})
    assert route == NoRoute(NoRouteReason.FULL)


class Fleet:
    """Workers of which each dies once more runs in it than it can hold, and clients that stay."""

    def __init__(self, holds: dict[str, int], *, is_limited: bool, seed: int) -> None:
        self.holds = holds
        self.alive = set(holds)
        self.inflight: Counter[str] = Counter()
        self.fell: list[str] = []
        self.shed = 0
        self._is_limited = is_limited
        self._random = Random(seed)

    def snapshot(self) -> FleetSnapshot:
        limits = {name: held if self._is_limited else None for name, held in self.holds.items()}
        return FleetSnapshot(0.0, tuple(worker(name, limits[name]) for name in sorted(self.alive)))

    def ask(self, count: int) -> None:
        """Let clients ask; those of a worker that falls ask anew, as retries do."""
        waiting = count
        while waiting:
            waiting -= 1
            draws = (self._random.random(), self._random.random())
            route = choose(self.snapshot(), "m", draws=draws, inflight=self.inflight)
            if isinstance(route, NoRoute):
                self.shed += 1
                continue
            name = route.worker.id
            self.inflight[name] += 1
            if self.inflight[name] > self.holds[name]:
                waiting += self.kill(name)
                self.fell.append(name)

    def kill(self, name: str) -> int:
        """Let a worker fall; return how many requests it had."""
        self.alive.discard(name)
        return self.inflight.pop(name, 0)

    def finish(self, count: int) -> None:
        """Let requests end, whosever."""
        for _ in range(count):
            if busy := sorted(self.inflight.elements()):
                name = self._random.choice(busy)
                self.inflight[name] -= 1


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 9), min_size=1),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40), st.booleans()), max_size=8),
    st.integers(0, 2**32),
)
def test_no_worker_falls_because_another_fell(
    holds: dict[str, int], events: list[tuple[int, int, bool]], seed: int
) -> None:
    fleet = Fleet(holds, is_limited=True, seed=seed)
    for arrive, end, one_falls in events:
        fleet.ask(arrive)
        if one_falls and fleet.alive:
            fleet.ask(fleet.kill(min(fleet.alive)))
        assert all(fleet.inflight[name] <= held for name, held in holds.items())
        fleet.finish(end)
    assert fleet.fell == []


def test_twenty_workers_under_ten_times_their_load_lose_only_the_one_that_is_killed() -> None:
    holds = {f"w{number:02}": 6 for number in range(20)}
    fleet = Fleet(holds, is_limited=True, seed=1)
    for at in range(20):
        fleet.ask(1200)
        if at == 5:
            fleet.ask(fleet.kill("w07"))
        fleet.finish(40)
    assert fleet.fell == []
    assert len(fleet.alive) == 19
    assert fleet.shed > 20_000


def test_without_limits_the_same_load_takes_them_all_one_after_another() -> None:
    fleet = Fleet({f"w{number:02}": 6 for number in range(20)}, is_limited=False, seed=1)
    fleet.ask(1200)
    assert len(fleet.fell) == 20
