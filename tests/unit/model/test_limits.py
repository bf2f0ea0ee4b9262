from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.limits import (
    LEVERS,
    Limits,
    Substitution,
    gentle,
    is_sound,
    laxer_levers,
    tighter,
)

NAMES = st.sampled_from(["a", "b", "c"])
SUBSTITUTIONS = st.lists(
    st.builds(
        Substitution, NAMES, NAMES, st.sampled_from([0.25, 0.5, 1.0]), st.lists(NAMES).map(tuple)
    ),
    max_size=3,
    unique_by=lambda it: it.asked,
).map(tuple)
WHOLE = st.none() | st.integers(1, 99)
LIMITS = st.builds(
    Limits,
    max_tokens_cap=WHOLE,
    max_inflight=WHOLE,
    long_max_inflight=WHOLE,
    n_cap=WHOLE,
    best_of_cap=WHOLE,
    max_turns=WHOLE,
    compress_ratio=st.none() | st.floats(0.3, 0.7),
    compress_over_tokens=WHOLE,
    thinking_off=st.booleans(),
    warm_up_off=st.booleans(),
    substitutions=SUBSTITUTIONS,
    shed_below_priority=st.none() | st.integers(0, 10),
)


@given(LIMITS)
def test_limits_survive_the_way_through_json_and_are_sound(limits: Limits) -> None:
    assert Limits.from_json(json.loads(json.dumps(limits.as_json()))) == limits
    assert is_sound(limits)
    assert is_sound(Limits())


@pytest.mark.parametrize(
    "odd",
    [
        {"max_tokens_cap": 0},
        {"max_tokens_cap": "8"},
        {"max_tokens_cap": True},
        {"max_tokens_cap": 8.5},
        {"compress_ratio": 0.1},
        {"compress_ratio": 0.9},
        {"thinking_off": 1},
        {"shed_below_priority": 11},
        {"substitutions": [["a", "b", 2.0, []]]},
    ],
)
def test_limits_out_of_bounds_are_told_apart(odd: dict[str, Any]) -> None:
    assert not is_sound(Limits.from_json(odd))


def test_a_pair_of_an_older_daemon_is_a_whole_substitution() -> None:
    limits = Limits.from_json({"substitutions": [["big", "small"]], "of_a_newer_daemon": 1})
    assert limits.substitutions == (Substitution("big", "small"),)
    assert limits.as_json()["substitutions"] == [["big", "small"]]


@pytest.mark.parametrize(
    ("below", "above", "laxer"),
    [
        ({}, {}, ()),
        ({"max_tokens_cap": 32}, {"max_tokens_cap": 16}, ()),
        ({"max_tokens_cap": 16}, {"max_tokens_cap": 32}, ("max_tokens_cap",)),
        ({"max_tokens_cap": 16}, {}, ("max_tokens_cap",)),
        ({"thinking_off": True}, {}, ("thinking_off",)),
        ({"shed_below_priority": 3}, {"shed_below_priority": 2}, ("shed_below_priority",)),
        ({"compress_over_tokens": 5}, {}, ()),
        ({"substitutions": (Substitution("a", "b"),)}, {}, ("substitutions",)),
        (
            {"substitutions": (Substitution("a", "b", 0.5),)},
            {"substitutions": (Substitution("a", "c"),)},
            (),
        ),
        (
            {"substitutions": (Substitution("a", "b", 1.0, ("chat",)),)},
            {"substitutions": (Substitution("a", "b"),)},
            (),
        ),
        (
            {"substitutions": (Substitution("a", "b"),)},
            {"substitutions": (Substitution("a", "b", 1.0, ("chat",)),)},
            ("substitutions",),
        ),
    ],
)
def test_where_a_higher_level_takes_away_less(
    below: dict[str, Any], above: dict[str, Any], laxer: tuple[str, ...]
) -> None:
    assert laxer_levers(Limits(**below), Limits(**above)) == laxer


@given(LIMITS, LIMITS, LIMITS)
def test_never_laxer_is_an_order(one: Limits, two: Limits, three: Limits) -> None:
    assert laxer_levers(one, one) == ()
    assert laxer_levers(Limits(), one) == ()
    if not laxer_levers(one, two) and not laxer_levers(two, three):
        assert laxer_levers(one, three) == ()


def test_every_lever_says_what_it_means() -> None:
    assert all(lever.meaning.endswith((".", ")")) for lever in LEVERS.values())


@given(LIMITS, LIMITS)
def test_two_levels_together_are_sound_and_laxer_than_neither(one: Limits, other: Limits) -> None:
    both = tighter(one, other)
    assert is_sound(both)
    assert not set(laxer_levers(one, both))
    assert not set(laxer_levers(other, both)) - {"substitutions"}  # one's go before other's
    assert tighter(one, Limits()) == tighter(Limits(), one) == one


def test_what_is_gentle_turns_nobody_away() -> None:
    harsh = Limits(max_tokens_cap=5, shed_below_priority=9, max_inflight=1, long_max_inflight=0)
    assert gentle(harsh) == Limits(max_tokens_cap=5)


def test_shares_by_class_are_kept_and_compared_class_by_class() -> None:
    some = Limits(substitutions=(Substitution("a", "b", 0.5, shares=(("math", 0.0),)),))
    more = Limits(substitutions=(Substitution("a", "b", 1.0, shares=(("math", 0.5),)),))
    assert Limits.from_json(json.loads(json.dumps(some.as_json()))) == some
    assert laxer_levers(some, more) == ()
    assert laxer_levers(more, some) == ("substitutions",)
