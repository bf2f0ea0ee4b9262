from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.worker import FleetSnapshot, WorkerLoad, WorkerPhase, WorkerView
from ds4watch.routing.choice import (
    NoRoute,
    NoRouteReason,
    RouteDecision,
    choose,
    health_of,
)


def worker(
    name: str,
    *,
    models: tuple[str, ...] = ("m",),
    phase: WorkerPhase = WorkerPhase.READY,
    kv: float | None = 0.0,
) -> WorkerView:
    return WorkerView(
        id=name,
        profile="p",
        models=models,
        url="http://127.0.0.1:1",
        phase=phase,
        since=0.0,
        load=WorkerLoad(kv_usage_ratio=kv),
    )


def fleet(*workers: WorkerView) -> FleetSnapshot:
    return FleetSnapshot(at=0.0, workers=workers)


@pytest.mark.parametrize(
    ("inflight", "most", "kv", "health"),
    [
        (0, 0, 0.0, 1.0),
        (0, 4, 1.0, 0.7),
        (4, 4, 0.0, 0.4),
        (2, 4, 0.5, 0.55),
        (4, 4, 1.0, 0.1),
        (0, 0, None, 0.85),
        (0, 0, 7.0, 0.7),
        (0, 0, -1.0, 1.0),
    ],
)
def test_health_weighs_load_cache_and_version(
    inflight: int, most: int, kv: float | None, health: float
) -> None:
    assert health_of(worker("a", kv=kv), inflight=inflight, most=most) == pytest.approx(health)


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
    decision = choose(
        fleet(*workers), "m", draws=(0, 0), inflight={}, tried=tried, excluded=excluded
    )
    assert decision == NoRoute(reason)


def test_the_less_loaded_of_the_two_drawn_is_taken() -> None:
    pair = fleet(worker("a"), worker("b"))
    for draws in ((0.0, 0.0), (0.9, 0.9)):
        decision = choose(pair, "m", draws=draws, inflight={"a": 3, "b": 1})
        assert isinstance(decision, RouteDecision)
        assert decision.worker.id == "b"
        assert decision.candidates == 2


def test_with_equal_load_the_emptier_cache_is_taken() -> None:
    pair = fleet(worker("a", kv=0.9), worker("b", kv=0.1))
    decision = choose(pair, "m", draws=(0.0, 0.0), inflight={"a": 2, "b": 2})
    assert isinstance(decision, RouteDecision)
    assert decision.worker.id == "b"


def test_idle_workers_share_the_requests_evenly() -> None:
    four = fleet(*(worker(name) for name in "abcd"))
    taken: Counter[str] = Counter()
    for one in range(20):
        for two in range(20):
            decision = choose(four, "m", draws=(one / 20, two / 20), inflight={})
            assert isinstance(decision, RouteDecision)
            taken[decision.worker.id] += 1
    assert set(taken.values()) == {100}


def test_an_ejected_worker_is_left_out_while_another_can_serve() -> None:
    pair = fleet(worker("a"), worker("b"))
    decision = choose(pair, "m", draws=(0, 0), inflight={"b": 99}, ejected={"a": 5.0})
    assert isinstance(decision, RouteDecision)
    assert decision.worker.id == "b"


def test_when_all_are_ejected_the_one_due_back_first_is_tried() -> None:
    pair = fleet(worker("a"), worker("b"))
    decision = choose(pair, "m", draws=(0, 0), inflight={}, ejected={"a": 9.0, "b": 5.0})
    assert isinstance(decision, RouteDecision)
    assert decision.worker.id == "b"


NAMES = st.sets(st.sampled_from("abcdef"))
DRAW = st.floats(0, 1, exclude_max=True)


@given(
    NAMES,
    NAMES,
    NAMES,
    NAMES,
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9)),
    st.tuples(DRAW, DRAW),
)
def test_a_choice_is_never_one_that_was_tried_or_excluded(
    present: set[str],
    tried: set[str],
    excluded: set[str],
    ejected: set[str],
    inflight: dict[str, int],
    draws: tuple[float, float],
) -> None:
    decision = choose(
        fleet(*(worker(name) for name in sorted(present))),
        "m",
        draws=draws,
        inflight=inflight,
        tried=tried,
        excluded=excluded,
        ejected=dict.fromkeys(ejected, 1.0),
    )
    usable = present - tried - excluded
    if isinstance(decision, NoRoute):
        assert not usable
    else:
        assert decision.worker.id in (usable - ejected or usable)
        assert 0 <= decision.health <= 1


def limited(name: str, share: float) -> WorkerView:
    return replace(worker(name), share=share)


def drawn(workers: FleetSnapshot, **options: Any) -> Counter[str]:
    """Choose once for each of a grid of draws."""
    grid = [(at + 0.5) / 40 for at in range(40)]
    found = [choose(workers, "m", draws=(a, b), inflight={}, **options) for a in grid for b in grid]
    return Counter(it.worker.id for it in found if isinstance(it, RouteDecision))


def test_a_worker_with_a_share_gets_that_share_however_idle_it_is() -> None:
    workers = fleet(worker("a", kv=1.0), worker("b", kv=1.0), limited("new", 0.1))
    found = drawn(workers)
    assert found["new"] == 160
    assert found["a"] + found["b"] == 1440


def test_with_a_share_of_nothing_it_is_chosen_only_if_there_is_nobody_else() -> None:
    assert set(drawn(fleet(worker("a"), limited("new", 0.0)))) == {"a"}
    assert set(drawn(fleet(worker("a"), limited("new", 0.0)), tried={"a"})) == {"new"}
    assert set(drawn(fleet(limited("x", 0.0), limited("y", 0.1)))) == {"x", "y"}


def test_the_others_are_chosen_among_as_if_there_were_no_share() -> None:
    found = drawn(fleet(worker("a"), limited("new", 0.5), worker("b")))
    assert found["new"] == 800
    assert abs(found["a"] - found["b"]) <= 80
