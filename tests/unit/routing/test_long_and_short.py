"""Long prompts have workers and places of their own; the last short place is never theirs."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ds4watch.config.routing import RoutingSettings
from ds4watch.model.worker import WorkerView
from ds4watch.routing.choice import Ask, NoRoute, RouteDecision, choose
from ds4watch.routing.pools import Routes
from tests.unit.routing.routes import chosen, routes, view_of, worker

KEYS = range(300)


def long_takers(among: Routes, **more: object) -> set[str]:
    return {chosen(among, Ask("m", key, is_long=True), **more) for key in KEYS}


@pytest.mark.parametrize(("count", "takers"), [(1, 1), (2, 1), (3, 2), (4, 3), (9, 6)])
def test_most_workers_take_long_prompts_and_one_is_left_to_short_ones(
    count: int, takers: int
) -> None:
    among = routes(*(worker(f"w{at}") for at in range(count)))
    assert len(long_takers(among)) == takers
    assert len({chosen(among, Ask("m", key)) for key in KEYS}) == count


def test_who_takes_them_hangs_on_neither_the_listing_nor_on_who_else_is_there() -> None:
    names = [f"w{at}" for at in range(8)]
    all_of = long_takers(routes(*(worker(name) for name in names)))
    assert long_takers(routes(*(worker(name) for name in reversed(names)))) == all_of
    without = long_takers(routes(*(worker(name) for name in names if name != "w3")))
    assert len(without - all_of) <= 1


def test_workers_kept_for_long_prompts_take_those_and_no_others() -> None:
    among = routes(worker("a"), worker("long", is_for_long=True), worker("b"))
    assert long_takers(among) == {"long"}
    assert {chosen(among, Ask("m", key)) for key in KEYS} == {"a", "b"}


def test_the_others_stand_in_when_a_kind_has_nobody_left() -> None:
    among = routes(worker("a"), worker("long", is_for_long=True))
    assert chosen(among, Ask("m", is_long=True), dead={"long": 1.0}) == "a"
    assert chosen(among, Ask("m", is_long=True, tried={"long"})) == "a"
    assert chosen(among, Ask("m"), dead={"a": 1.0}) == "long"
    assert long_takers(routes(worker("a"), worker("b")), dead={"a": 1.0}) == {"b"}


def test_one_that_is_full_is_passed_over_for_another_of_its_kind_only() -> None:
    among = routes(worker("a"), worker("b"), worker("long", is_for_long=True))
    assert {chosen(among, Ask("m", key), busy={"a"}) for key in KEYS} == {"b"}
    assert {chosen(among, Ask("m", key), busy={"a", "b"}) for key in KEYS} == {"a", "b"}
    assert long_takers(among, busy={"long"}) == {"long"}


def test_all_may_take_them_if_that_is_asked_for() -> None:
    shared = RoutingSettings(long_worker_ratio=1.0)
    among = routes(worker("a"), worker("b"), worker("c"), settings=shared)
    assert long_takers(among) == {"a", "b", "c"}


def test_without_a_limit_there_is_one_kind() -> None:
    off = RoutingSettings(long_tokens=None)
    among = routes(worker("a"), worker("b"), worker("c"), settings=off)
    assert long_takers(among) == {"a", "b", "c"}


WORKER = st.builds(
    lambda name, most, long: worker(name, max_inflight=most, is_for_long=long),
    st.sampled_from("abcdef"),
    st.integers(1, 40) | st.none(),
    st.booleans(),
)


@given(
    st.lists(WORKER, min_size=1, max_size=6, unique_by=lambda it: it.id),
    st.integers(1, 4),
    st.sets(st.sampled_from("abcdef")),
    st.randoms(use_true_random=False),
)
def test_a_flood_of_long_prompts_never_takes_the_last_short_place(
    workers: list[WorkerView], processes: int, dead: set[str], random: object
) -> None:
    alive = [it for it in workers if it.id not in dead]
    # Where all that there is can have but one request open there is no place to keep.
    assume(len(alive) > 1 or any((it.max_inflight or 99) // processes > 1 for it in alive))
    assume(not all(it.is_for_long for it in alive))
    among = routes(*workers, processes=processes)
    inflight: Counter[str] = Counter()
    out = dict.fromkeys(dead, 1.0)
    for _ in range(300):
        view = view_of(inflight, longs=inflight, dead=out)
        found = choose(among, Ask("m", is_long=True), view, random.random)  # type: ignore[attr-defined]
        if isinstance(found, NoRoute):
            break
        inflight[found.worker.id] += 1
    view = view_of(inflight, longs=inflight, dead=out)
    short = choose(among, Ask("m"), view, random.random)  # type: ignore[attr-defined]
    assert isinstance(short, RouteDecision)


def test_all_processes_together_keep_half_of_a_workers_places_for_short_ones() -> None:
    for processes in (1, 2, 4):
        among = routes(worker("a", max_inflight=16), processes=processes)
        assert among.pools["m"].long_room() * processes == 8
    unlimited = routes(worker("a"), worker("b"), worker("c"), worker("d"))
    assert unlimited.pools["m"].long_room() == 3 * RoutingSettings().long_inflight
