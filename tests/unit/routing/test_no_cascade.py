"""However many workers fall, none is given more than it may have."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4watch.routing.admission import most_of
from ds4watch.routing.choice import Ask, NoRoute, NoRouteReason, choose
from ds4watch.routing.pools import Routes
from tests.unit.routing.routes import choice, chosen, routes, view_of, worker


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
    assert (inflight < most_of(most, processes=processes)) is room


@given(st.integers(1, 100), st.integers(1, 16))
def test_all_processes_together_stay_within_the_limit(most: int, processes: int) -> None:
    share = most_of(most, processes=processes)
    assert share * processes <= max(most, processes)


def test_a_full_worker_is_passed_over_and_a_full_fleet_sheds() -> None:
    pair = routes(worker("a", max_inflight=2), worker("b", max_inflight=2))
    for ask in (Ask("m"), Ask("m", session=1), Ask("m", session=2)):
        for draw in (0.0, 0.9):
            assert chosen(pair, ask, draw, draw, inflight={"a": 2, "b": 1}) == "b"
        assert choice(pair, ask, inflight={"a": 2, "b": 2}) == NoRoute(NoRouteReason.FULL)


def test_who_was_left_out_for_a_fault_is_not_tried_because_the_others_are_full() -> None:
    pair = routes(worker("a", max_inflight=1), worker("b", max_inflight=1))
    full = NoRoute(NoRouteReason.FULL)
    assert choice(pair, inflight={"a": 1}, dead={"b": 9.0}) == full
    assert choice(pair, inflight={"a": 1}, aside=frozenset("b")) == full


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

    def routes(self) -> Routes:
        limits = {name: held if self._is_limited else None for name, held in self.holds.items()}
        alive = (worker(name, max_inflight=limits[name]) for name in sorted(self.alive))
        return routes(*alive)

    def ask(self, count: int) -> None:
        """Let clients ask; those of a worker that falls ask anew, as retries do."""
        waiting = count
        among = self.routes()
        while waiting:
            waiting -= 1
            route = choose(among, self._ask(), view_of(self.inflight), self._random.random)
            if isinstance(route, NoRoute):
                self.shed += 1
                continue
            name = route.worker.id
            self.inflight[name] += 1
            if self.inflight[name] > self.holds[name]:
                waiting += self.kill(name)
                self.fell.append(name)
                among = self.routes()

    def _ask(self) -> Ask:
        return Ask("m", session=self._random.choice((None, 1, 2, self._random.getrandbits(32))))

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
