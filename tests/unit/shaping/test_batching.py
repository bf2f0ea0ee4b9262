from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ds4watch.shaping.batching import (
    PrefixGroups,
    Released,
    RequestClass,
    class_of,
    group_of,
)

LONG = "You answer questions about the handbook. " * 60


def names(released: Any) -> list[str]:
    return [it.request for it in released]


def test_the_first_goes_at_once_and_the_others_when_its_first_token_is_there() -> None:
    groups = PrefixGroups()
    assert groups.arrive("a", "g", deadline=0.1) is None
    assert groups.arrive("b", "g", deadline=0.12) == 0.12
    assert groups.arrive("c", "g", deadline=0.13) == 0.13
    groups.sent("a", "w1")
    assert groups.first_token("a") == [
        Released("b", "w1", leads=False),
        Released("c", "w1", leads=False),
    ]
    assert len(groups) == 0


def test_groups_do_not_wait_for_each_other() -> None:
    groups = PrefixGroups()
    assert groups.arrive("a", "g", deadline=1.0) is None
    assert groups.arrive("b", "h", deadline=1.0) is None


def test_who_has_waited_long_enough_goes_to_the_leaders_worker_though_it_is_not_done() -> None:
    groups = PrefixGroups()
    groups.arrive("a", "g", deadline=0.1)
    groups.sent("a", "w1")
    groups.arrive("b", "g", deadline=0.2)
    groups.arrive("c", "g", deadline=0.3)
    assert groups.due("b", 0.2) == [Released("b", "w1", leads=False)]
    assert names(groups.first_token("a")) == ["c"]


def test_when_the_leader_leaves_the_next_leads_and_the_rest_waits_for_that_one() -> None:
    groups = PrefixGroups()
    for request in "abc":
        groups.arrive(request, "g", deadline=1.0)
    assert groups.gone("a") == [Released("b", None, leads=True)]
    assert names(groups.first_token("b")) == ["c"]


def test_a_follower_that_leaves_is_not_released_later() -> None:
    groups = PrefixGroups()
    for request in "abc":
        groups.arrive(request, "g", deadline=1.0)
    assert groups.gone("b") == ()
    assert names(groups.first_token("a")) == ["c"]


def test_beyond_the_most_groups_requests_just_go() -> None:
    groups = PrefixGroups(max_groups=1)
    assert groups.arrive("a", "g", deadline=1.0) is None
    assert groups.arrive("b", "h", deadline=1.0) is None
    assert len(groups) == 1
    assert groups.gone("b") == ()


def test_short_answers_are_another_class_than_long_ones() -> None:
    assert class_of({"max_tokens": 256}) is RequestClass.ANSWERING
    assert class_of({"max_completion_tokens": 20}) is RequestClass.ANSWERING
    assert class_of({"max_tokens": 257}) is RequestClass.GENERATION
    assert class_of({}) is RequestClass.GENERATION


def chat(system: str, user: str, model: str = "m") -> dict[str, Any]:
    return {
        "model": model,
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
    }


def key(body: dict[str, Any]) -> str | None:
    return group_of(body, RequestClass.ANSWERING, prefix_chars=2000)


def test_requests_with_the_same_beginning_are_a_group_and_others_are_not() -> None:
    first = key(chat(LONG, "Where is the key?"))
    assert first is not None
    assert first == key(chat(LONG, "Who has the key?"))
    assert first != key(chat("X" + LONG, "Where is the key?"))
    assert first != key(chat(LONG, "Where is the key?", model="n"))
    assert key(chat("Be brief.", "Where is the key?")) is None
    assert key({"model": "m", "prompt": LONG + "a"}) == key({"model": "m", "prompt": LONG + "b"})
    assert key({"model": "m", "prompt": [1, 2, 3]}) is None


@given(st.text(max_size=50), st.text(max_size=50))
def test_a_group_needs_equal_text(one: str, other: str) -> None:
    same = group_of({"prompt": one}, RequestClass.ANSWERING, prefix_chars=10) == group_of(
        {"prompt": other}, RequestClass.ANSWERING, prefix_chars=10
    )
    if min(len(one), len(other)) >= 10:
        # UTF-8 has no lone surrogates; hypothesis gives none by default
        assert same == (one[:10] == other[:10])


@dataclass
class Member:
    group: str
    deadline: float
    arrived: int
    state: str = "waiting"
    events: list[str] = field(default_factory=list)


class AnyTraffic(RuleBasedStateMachine):
    """Whatever comes: nobody waits past its window, nobody overtakes, nobody is forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = PrefixGroups(max_groups=3)
        self.now = 0.0
        self.members: dict[str, Member] = {}

    def ids(self, *states: str) -> list[str]:
        return [name for name, it in self.members.items() if it.state in states]

    def let_go(self, released: Any) -> None:
        for one in released:
            member = self.members[one.request]
            assert member.state == "waiting"
            for other in self.members.values():
                earlier = other.group == member.group and other.arrived < member.arrived
                assert not (earlier and other.state == "waiting"), "overtaken"
            member.state = "leading" if one.leads else "running"

    @rule(group=st.sampled_from("ghij"))
    def arrives(self, group: str) -> None:
        name = f"r{len(self.members)}"
        member = Member(group, self.now + 0.1, len(self.members))
        until = self.groups.arrive(name, group, deadline=member.deadline)
        self.members[name] = member
        if until is None:
            member.state = "leading"
        else:
            assert until <= self.now + 0.1

    @precondition(lambda self: self.ids("leading", "running"))
    @rule(data=st.data())
    def gets_its_first_token(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.ids("leading", "running")))
        self.let_go(self.groups.first_token(name))
        self.members[name].state = "running"

    @precondition(lambda self: self.ids("leading", "running", "waiting"))
    @rule(data=st.data())
    def leaves(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.ids("leading", "running", "waiting")))
        self.members[name].state = "gone"
        self.let_go(self.groups.gone(name))

    @rule(seconds=st.sampled_from([0.01, 0.04, 0.2]))
    def time_passes(self, seconds: float) -> None:
        """Timers go off in the order of their deadlines."""
        self.now += seconds
        for name in sorted(self.ids("waiting"), key=lambda it: self.members[it].deadline):
            member = self.members[name]
            if member.state == "waiting" and member.deadline <= self.now:
                self.let_go(self.groups.due(name, self.now))

    @invariant()
    def nobody_waits_past_its_window(self) -> None:
        assert all(self.members[name].deadline > self.now for name in self.ids("waiting"))

    @invariant()
    def who_waits_has_a_leader(self) -> None:
        led = {self.members[name].group for name in self.ids("leading")}
        assert {self.members[name].group for name in self.ids("waiting")} <= led


TestAnyTraffic = AnyTraffic.TestCase
