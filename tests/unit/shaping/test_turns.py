from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.service_policy import Limits, ServicePolicy
from ds4watch.model.worker import FleetSnapshot
from ds4watch.shaping.request import Degrading, RequestKind, degrading_of, shape
from ds4watch.shaping.turns import last_turns


def message(role: str, content: str = "x") -> dict[str, Any]:
    return {"role": role, "content": content}


def talk(roles: str) -> list[dict[str, Any]]:
    names = {"s": "system", "d": "developer", "u": "user", "a": "assistant", "t": "tool"}
    return [message(names[role], str(at)) for at, role in enumerate(roles)]


def kept(roles: str, most: int) -> str:
    return "".join(it["role"][0] for it in last_turns(talk(roles), most))


def test_the_system_prompt_and_the_last_turns_are_kept() -> None:
    assert kept("suauaua", 2) == "suaua"
    assert kept("suauaua", 3) == "suauaua"
    assert kept("duausau", 1) == "dsu"
    assert kept("uatau", 1) == "u"


def test_a_call_of_a_tool_stays_with_its_result() -> None:
    assert kept("suatauata", 1) == "suata"


ROLES = st.text("sduat", max_size=40)


@given(ROLES, st.integers(1, 20))
def test_no_more_turns_are_left_than_asked_and_what_is_left_is_the_end(
    roles: str, most: int
) -> None:
    before = talk(roles)
    after = last_turns(before, most)
    turns = [it for it in before if it["role"] == "user"]
    assert [it for it in after if it["role"] == "user"] == turns[-most:]
    rest = [it for it in after if it["role"] not in ("system", "developer")]
    all_rest = [it for it in before if it["role"] not in ("system", "developer")]
    assert rest == all_rest[len(all_rest) - len(rest) :]
    assert [it for it in after if it not in rest] == [it for it in before if it not in all_rest]


def test_what_was_left_out_is_told_and_otherwise_nothing_is_changed() -> None:
    policy = ServicePolicy(level=2, limits=Limits(max_turns=2))
    degrading = degrading_of(policy, FleetSnapshot(at=0.0), frozenset())
    body = {"model": "m", "messages": talk("suauaua")}
    cut = shape(body, degrading, RequestKind.CHAT)
    assert cut.degraded == ("level=2", "turns=2")
    assert "".join(it["role"][0] for it in cut.body["messages"]) == "suaua"
    assert len(body["messages"]) == 7
    short = shape({"model": "m", "messages": talk("sua")}, degrading, RequestKind.CHAT)
    assert (short.degraded, short.changed) == ((), False)
    text = shape({"model": "m", "prompt": "x"}, degrading, RequestKind.TEXT)
    assert (text.degraded, text.changed) == ((), False)


def test_a_prompt_shortened_for_one_level_is_not_taken_for_anothers() -> None:
    def at(ratio: float, turns: int | None = None, n: int | None = None) -> Degrading:
        limits = Limits(compress_ratio=ratio, max_turns=turns, n_cap=n)
        policy = ServicePolicy(level=2, limits=limits)
        return degrading_of(policy, FleetSnapshot(at=0.0), frozenset())

    made = at(0.5, 2)
    assert at(0.5, 2, n=1).shortens_as(made)
    assert not at(0.5).shortens_as(made)
    assert not at(0.6, 2).shortens_as(made)
