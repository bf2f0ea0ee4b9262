from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.config.routing import RoutingSettings
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.routing.choice import Ask, NoRoute, NoRouteReason, health_of
from ds4watch.routing.pools import Routes
from tests.unit.routing.routes import NOW, choice, chosen, routes, worker


@pytest.mark.parametrize(
    ("inflight", "most", "kv", "current", "health"),
    [
        (0, 0, 0.0, True, 1.0),
        (0, 4, 1.0, True, 0.7),
        (4, 4, 0.0, True, 0.4),
        (2, 4, 0.5, True, 0.55),
        (4, 4, 1.0, True, 0.1),
        (0, 0, None, True, 0.85),
        (0, 0, 7.0, True, 0.7),
        (0, 0, -1.0, True, 1.0),
        (0, 0, 0.0, False, 0.9),
        (4, 4, 1.0, False, 0.0),
    ],
)
def test_health_weighs_load_cache_and_version(
    inflight: int, most: int, kv: float | None, *, current: bool, health: float
) -> None:
    (seat,) = routes(worker("a", kv=kv, is_current=current)).pools["m"].whole.seats
    assert health_of(seat, load=inflight, most=most) == pytest.approx(health)


@pytest.mark.parametrize(
    ("workers", "excluded", "tried", "reason"),
    [
        ((), set(), set(), NoRouteReason.NOT_READY),
        ((worker("a", models=("other",)),), set(), set(), NoRouteReason.UNKNOWN_MODEL),
        ((worker("a", models=()),), set(), set(), NoRouteReason.NOT_READY),
        ((worker("a", phase=WorkerPhase.LOADING),), set(), set(), NoRouteReason.NOT_READY),
        ((worker("a"),), {"a"}, set(), NoRouteReason.EXCLUDED),
        ((worker("a"),), set(), {"a"}, NoRouteReason.ALL_TRIED),
        ((worker("a"), worker("b")), {"b"}, {"a"}, NoRouteReason.ALL_TRIED),
    ],
)
def test_where_nobody_can_be_tried_the_reason_is_told(
    workers: tuple[WorkerView, ...], excluded: set[str], tried: set[str], reason: NoRouteReason
) -> None:
    ask = Ask("m", tried=tried)
    assert choice(routes(*workers, excluded=excluded), ask) == NoRoute(reason)


def test_the_less_loaded_of_the_two_drawn_is_taken() -> None:
    pair = routes(worker("a"), worker("b"))
    for draw in (0.0, 0.9):
        assert chosen(pair, Ask("m"), draw, draw, inflight={"a": 3, "b": 1}) == "b"


def test_with_equal_load_the_emptier_cache_is_taken() -> None:
    pair = routes(worker("a", kv=0.9), worker("b", kv=0.1))
    assert chosen(pair, inflight={"a": 2, "b": 2}) == "b"


def test_with_equal_load_and_cache_the_one_that_runs_what_is_wanted_is_taken() -> None:
    for draw in (0.0, 0.9):
        pair = routes(worker("a", is_current=False), worker("b"))
        assert chosen(pair, Ask("m"), draw, draw) == "b"


def test_a_long_prompt_weighs_as_much_as_many_short_ones() -> None:
    pair = routes(worker("a"), worker("b"))
    assert chosen(pair, inflight={"a": 1, "b": 5}, longs={"a": 1}) == "b"
    assert chosen(pair, inflight={"a": 1, "b": 9}, longs={"a": 1}) == "a"


def test_idle_workers_share_the_requests_evenly() -> None:
    taken = drawn(routes(*(worker(name) for name in "abcd")), steps=20)
    assert set(taken.values()) == {100}


def test_an_unreachable_worker_is_left_out_while_another_can_serve() -> None:
    pair = routes(worker("a"), worker("b"))
    assert chosen(pair, inflight={"b": 99}, dead={"a": 5.0}) == "b"


def test_when_all_are_unreachable_the_one_due_back_first_is_tried() -> None:
    pair = routes(worker("a"), worker("b"))
    assert chosen(pair, dead={"a": 9.0, "b": 5.0}) == "b"


NAMES = st.sets(st.sampled_from("abcdef"))


@given(
    NAMES,
    NAMES,
    NAMES,
    NAMES,
    NAMES,
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9)),
    st.builds(Ask, st.just("m"), st.none() | st.integers(0, 2**32 - 1), st.booleans()),
    st.integers(0, 2**32),
)
def test_a_choice_is_never_one_that_was_tried_or_excluded_nor_out_while_another_is_not(
    present: set[str],
    tried: set[str],
    excluded: set[str],
    dead: set[str],
    aside: set[str],
    inflight: dict[str, int],
    ask: Ask,
    seed: int,
) -> None:
    among = routes(*(worker(name) for name in sorted(present)), excluded=excluded)
    draw = random.Random(seed).random
    found = choice(
        among,
        ask._replace(tried=tried),
        draw(),
        draw(),
        inflight=inflight,
        dead=dict.fromkeys(dead, 1.0),
        aside=frozenset(aside),
    )
    usable = present - tried - excluded
    if isinstance(found, NoRoute):
        assert not usable
    else:
        assert found.worker.id in (usable - dead or usable)
        pool = present - excluded
        if len(pool & (aside | dead)) <= len(pool) / 2:
            assert found.worker.id in (usable - dead - aside or usable - dead or usable)


def limited(name: str, share: float) -> WorkerView:
    return replace(worker(name), share=share)


def drawn(among: Routes, ask: Ask | None = None, *, steps: int = 40) -> Counter[str]:
    """Choose once for each of a grid of draws."""
    grid = [(at + 0.5) / steps for at in range(steps)]
    return Counter(chosen(among, ask, a, b) for a in grid for b in grid)


def test_a_worker_with_a_share_gets_that_share_however_idle_it_is() -> None:
    found = drawn(routes(worker("a", kv=1.0), worker("b", kv=1.0), limited("new", 0.1)))
    assert found["new"] == 160
    assert found["a"] + found["b"] == 1440


def test_with_a_share_of_nothing_it_is_chosen_only_if_there_is_nobody_else() -> None:
    pair = routes(worker("a"), limited("new", 0.0))
    assert set(drawn(pair)) == {"a"}
    assert set(drawn(pair, Ask("m", tried={"a"}))) == {"new"}
    assert set(drawn(routes(limited("x", 0.0), limited("y", 0.1)))) == {"x", "y"}


def test_the_others_are_chosen_among_as_if_there_were_no_share() -> None:
    found = drawn(routes(worker("a"), limited("new", 0.5), worker("b")))
    assert found["new"] == 800
    assert abs(found["a"] - found["b"]) <= 80


def test_a_worker_that_has_just_become_ready_gets_more_as_it_grows_older() -> None:
    shares = []
    for age in (0.0, 3.0, 15.0, 27.0, 30.0):
        among = routes(worker("a"), worker("b"), worker("new", since=NOW - age))
        shares.append(drawn(among)["new"] / 1600)
        assert among.starting.keys() == ({"new"} if age < 30 else set())
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(0.1 / 3, abs=0.01)
    assert shares[2] == pytest.approx(0.55 / 3, abs=0.01)
    assert shares[-1] == pytest.approx(1 / 3, abs=0.01)


def test_a_fleet_that_starts_as_a_whole_shares_evenly() -> None:
    found = drawn(routes(worker("a", since=NOW), worker("b", since=NOW - 5)))
    assert found == {"a": 800, "b": 800}


def test_a_clock_that_was_set_back_makes_nobody_new_and_slow_start_can_be_off() -> None:
    ahead = routes(worker("a"), worker("b", since=NOW + 50))
    off = RoutingSettings(slow_start_seconds=0)
    assert ahead.starting == {}
    assert routes(worker("a"), worker("b", since=NOW), settings=off).starting == {}


@pytest.mark.parametrize(("probe_draw", "taken"), [(0.04, "bad"), (0.06, "good")])
def test_one_that_is_due_back_is_tried_by_a_trickle(probe_draw: float, taken: str) -> None:
    trio = routes(worker("bad"), worker("good"), worker("good2", kv=1.0))
    out = {"aside": frozenset({"bad"}), "probes": ("bad",)}
    assert chosen(trio, Ask("m"), probe_draw, 0.0, 0.0, **out) == taken


def test_only_one_probe_is_under_way_and_none_is_a_retry_or_goes_to_the_unreachable() -> None:
    pair = routes(worker("bad"), worker("good"))
    out = {"aside": frozenset({"bad"}), "probes": ("bad",)}
    assert chosen(pair, Ask("m"), 0.0, 0.0, 0.0, inflight={"bad": 1}, **out) == "good"
    assert chosen(pair, Ask("m", tried={"x"}), 0.0, 0.0, **out) == "good"
    assert chosen(pair, Ask("m"), 0.0, 0.0, 0.0, dead={"bad": 1.0}, **out) == "good"


@pytest.mark.parametrize(
    ("aside", "dead", "taken"),
    [
        ({"a"}, set(), {"b", "c", "d"}),
        ({"a", "b"}, set(), {"c", "d"}),
        ({"a", "b", "c"}, set(), {"a", "b", "c", "d"}),
        ({"a", "b"}, {"c"}, {"a", "b", "d"}),
        ({"a"}, {"b"}, {"c", "d"}),
    ],
)
def test_if_too_many_would_be_out_nobody_is_set_aside(
    aside: set[str], dead: set[str], taken: set[str]
) -> None:
    four = routes(*(worker(name) for name in "abcd"))
    grid = [(at + 0.5) / 16 for at in range(16)]
    out = {"aside": frozenset(aside), "dead": dict.fromkeys(dead, 1.0)}
    assert {chosen(four, Ask("m"), a, b, **out) for a in grid for b in grid} == taken


def test_the_only_worker_is_never_set_aside() -> None:
    assert chosen(routes(worker("a")), aside=frozenset({"a"})) == "a"
