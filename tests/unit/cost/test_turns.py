"""What was computed again is known by conversations, and is never more than what was computed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.cost.turns import Turns
from ds4watch.model.usage import RequestOutcome, RequestRecord, Usage

TURN = RequestRecord(
    id="r", gateway="g0", seq=1, ended_at=0.0, key="a", path="/", model_asked="m",
    model_served="m", worker="w", status=200, outcome=RequestOutcome.OK, stream=True,
    duration_seconds=1.0, usage=Usage(1000), conversation=7,
)  # fmt: skip


def again(turns: Turns, *records: RequestRecord) -> list[int]:
    return [it.again_tokens for it in turns.marked(records)]


def test_a_later_turn_that_misses_computes_the_earlier_one_again() -> None:
    later = replace(TURN, usage=Usage(1500, 200))
    assert again(Turns(), TURN, later) == [0, 800]


def test_a_later_turn_that_hits_computes_only_what_is_new() -> None:
    assert again(Turns(), TURN, replace(TURN, usage=Usage(1500, 992))) == [0, 0]


def test_records_that_could_not_be_booked_are_marked_alike_once_more() -> None:
    turns = Turns()
    for _ in range(2):
        assert again(turns, TURN) == [0]
    turns.note([TURN])
    assert again(turns, TURN) == [1000]


def test_what_is_no_later_turn_is_not_taken_for_one() -> None:
    turns = Turns()
    turns.note([TURN])
    others = (
        replace(TURN, conversation=8),
        replace(TURN, conversation=None),
        replace(TURN, model_served="n"),
        replace(TURN, key="b"),
        replace(TURN, usage=Usage(900)),  # shorter: it does not begin with the earlier one
        replace(TURN, usage=None),
    )
    assert again(turns, *others) == [0] * len(others)


def test_a_turn_that_failed_leaves_nothing_in_a_cache() -> None:
    turns = Turns()
    turns.note([replace(TURN, outcome=RequestOutcome.UPSTREAM_ERROR)])
    assert again(turns, TURN) == [0]


def test_only_so_many_conversations_are_remembered() -> None:
    turns = Turns(most=2)
    turns.note([replace(TURN, conversation=it) for it in (1, 2, 1, 3)])
    assert again(turns, *(replace(TURN, conversation=it) for it in (1, 2, 3))) == [1000, 0, 1000]


USAGES = st.tuples(st.integers(0, 5000), st.integers(0, 5000)).map(lambda it: Usage(*it))


@given(st.lists(USAGES))
def test_never_is_more_computed_again_than_was_computed(usages: list[Usage]) -> None:
    for it in Turns().marked(replace(TURN, usage=usage) for usage in usages):
        assert it.usage is not None
        assert 0 <= it.again_tokens <= it.usage.computed
