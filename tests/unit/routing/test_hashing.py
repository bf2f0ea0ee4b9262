from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4watch.routing.choice import Ask
from ds4watch.routing.hashing import SLOTS, HashOrder
from tests.unit.routing.routes import NOW, chosen, routes, worker

FLEET = st.lists(st.sampled_from([f"w{at}" for at in range(12)]), min_size=2, unique=True)
KEYS = range(0, SLOTS, 4)


def firsts(ids: list[str], weights: list[float] | None = None) -> list[str]:
    order = HashOrder(ids, weights or [1.0] * len(ids))
    return [ids[order.of(key)[0]] for key in KEYS]


@settings(max_examples=20, deadline=None)
@given(FLEET, st.integers(0, 11))
def test_when_a_worker_goes_only_its_own_keys_move(ids: list[str], which: int) -> None:
    gone = ids[which % len(ids)]
    before, after = firsts(ids), firsts([name for name in ids if name != gone])
    moved = {old for old, new in zip(before, after, strict=True) if old != new}
    assert moved <= {gone}


@settings(max_examples=20, deadline=None)
@given(FLEET)
def test_when_a_worker_comes_keys_move_to_it_alone_and_about_its_share(ids: list[str]) -> None:
    before, after = firsts(ids), firsts([*ids, "new"])
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) <= {"new"}
    assert len(moved) == pytest.approx(len(KEYS) / (len(ids) + 1), rel=0.35)


@settings(max_examples=20, deadline=None)
@given(FLEET, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_while_a_weight_grows_keys_move_to_that_worker_alone(
    ids: list[str], one: float, two: float
) -> None:
    low, high = sorted((one, two))
    others = [1.0] * (len(ids) - 1)
    before, after = firsts(ids, [low, *others]), firsts(ids, [high, *others])
    assert {new for old, new in zip(before, after, strict=True) if old != new} <= {ids[0]}


@settings(max_examples=20, deadline=None)
@given(FLEET, st.randoms())
def test_the_order_does_not_hang_on_how_the_fleet_is_listed(ids: list[str], random: object) -> None:
    shuffled = ids[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert firsts(ids) == firsts(shuffled)


def test_keys_are_spread_evenly_and_by_weight() -> None:
    ids = [f"w{at}" for at in range(8)]
    found = Counter(firsts(ids))
    assert all(count == pytest.approx(len(KEYS) / 8, rel=0.2) for count in found.values())
    halved = Counter(firsts(ids, [0.5, *[1.0] * 7]))
    assert halved["w0"] == pytest.approx(len(KEYS) / 15, rel=0.2)
    assert "w0" not in firsts(ids, [0.0, *[1.0] * 7])


def homes(*names: str, **more: object) -> list[str]:
    among = routes(*(worker(name) for name in names))
    return [chosen(among, Ask("m", session=key), **more) for key in range(400)]


def test_a_conversation_goes_on_where_it_began_and_to_the_next_in_its_order_when_that_is_out() -> (
    None
):
    before = homes("a", "b", "c", "d")
    for out in ({"dead": {"b": 1.0}}, {"aside": frozenset("b")}, {"inflight": {"b": 40}}):
        after = homes("a", "b", "c", "d", **out)
        assert [new for old, new in zip(before, after, strict=True) if old != "b"] == [
            old for old in before if old != "b"
        ]
        moved = Counter(new for old, new in zip(before, after, strict=True) if old == "b")
        assert set(moved) == {"a", "c", "d"}  # not to one, as "the first healthy" would do
    assert homes("a", "c", "d") == after


def test_a_worker_with_a_full_cache_is_passed_over() -> None:
    full = routes(worker("a", kv=0.97), worker("b"), worker("c"))
    assert {chosen(full, Ask("m", session=key)) for key in range(100)} == {"b", "c"}


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 50), min_size=2),
    st.integers(0, 2**32 - 1),
)
def test_a_conversation_never_makes_a_worker_busier_than_the_bound(
    inflight: dict[str, int], key: int
) -> None:
    taken = chosen(
        routes(*(worker(name) for name in sorted(inflight))),
        Ask("m", session=key),
        inflight=inflight,
    )
    mean = (sum(inflight.values()) + 1) / len(inflight)
    assert inflight[taken] + 1 <= max(16, 1.25 * mean + 1)


def test_one_that_has_just_started_takes_over_its_conversations_bit_by_bit() -> None:
    counts = []
    for age in (0.0, 15.0, 30.0):
        among = routes(worker("a"), worker("b"), worker("new", since=NOW - age))
        taken = [chosen(among, Ask("m", session=key)) for key in KEYS]
        counts.append(taken.count("new") / len(KEYS))
    assert counts == [
        pytest.approx(0.1 / 3, rel=0.3),
        pytest.approx(0.55 / 3, rel=0.2),
        pytest.approx(1 / 3, rel=0.1),
    ]


def test_orders_are_kept_from_board_to_board_as_long_as_the_workers_stay() -> None:
    one = routes(worker("a"), worker("b"))
    same = routes(worker("a", kv=0.5), worker("b"), before=one)
    other = routes(worker("a"), worker("c"), before=one)
    assert same.pools["m"].whole.order is one.pools["m"].whole.order
    assert other.pools["m"].whole.order is not one.pools["m"].whole.order
