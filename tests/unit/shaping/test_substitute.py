from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.limits import Substitution
from ds4watch.model.worker import Ability, FleetSnapshot, WorkerPhase, WorkerView
from ds4watch.shaping.substitute import Substitute, conversation_of, place_of, substitutes_of

TEXT = {"messages": [{"role": "user", "content": "hi"}]}
PICTURE = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}


def worker(name: str, **more: Any) -> WorkerView:
    return WorkerView(name, "p", ("small",), "http://x", WorkerPhase.READY, since=0.0, **more)


def substitute(*workers: WorkerView, share: float = 1.0, classes: tuple[str, ...] = ()) -> Any:
    fleet = FleetSnapshot(0.0, workers or (worker("w1"),))
    asked = Substitution("big", "small", share, classes)
    return substitutes_of((asked,), fleet, served={"small"})["big"]


def answers(it: Substitute, body: dict[str, Any], **more: Any) -> bool:
    values: dict[str, Any] = {"work_class": "", "conversation": "c", "tokens": 10} | more
    return it.answers(body, **values)


@pytest.mark.parametrize(
    ("abilities", "body", "expected"),
    [
        ((), TEXT, True),
        ((), TEXT | {"tools": []}, True),
        ((), TEXT | {"tools": [{"type": "function"}]}, False),
        ((), TEXT | {"response_format": {"type": "text"}}, True),
        ((), TEXT | {"response_format": {"type": "json_object"}}, False),
        ((), TEXT | {"structured_outputs": {"json": {}}}, False),
        ((), PICTURE, False),
        ((Ability.TOOLS,), TEXT | {"tools": [{"type": "function"}]}, True),
        ((Ability.TOOLS,), TEXT | {"response_format": {"type": "json_object"}}, False),
        ((Ability.STRUCTURED,), TEXT | {"response_format": {"type": "json_object"}}, True),
        ((Ability.MEDIA,), PICTURE, True),
        (tuple(Ability), {"prompt": [1, 2, 3]}, False),
        (tuple(Ability), {"prompt": ["a", "b"]}, True),
        (tuple(Ability), {"prompt_embeds": "abc"}, False),
    ],
)
def test_nobody_stands_in_for_what_it_is_not_known_to_be_able_to_do(
    abilities: tuple[Ability, ...], body: dict[str, Any], expected: bool
) -> None:
    assert answers(substitute(worker("w1", abilities=abilities)), body) is expected


@pytest.mark.parametrize(
    ("lengths", "tokens", "expected"),
    [
        ((8192,), 8192, True),
        ((8192,), 8193, False),
        ((8192, 4096), 5000, False),
        ((None,), 2048, True),
        ((None,), 2049, False),
    ],
)
def test_a_request_that_may_not_fit_is_not_substituted(
    lengths: tuple[int | None, ...], tokens: int, expected: bool
) -> None:
    workers = [worker(f"w{at}", max_model_len=it) for at, it in enumerate(lengths)]
    assert answers(substitute(*workers), TEXT, tokens=tokens) is expected


def test_one_that_cannot_do_it_speaks_for_all_that_serve_the_model() -> None:
    able, unable = worker("w1", abilities=(Ability.TOOLS,)), worker("w2")
    assert not answers(substitute(able, unable), TEXT | {"tools": [{"type": "function"}]})


def test_only_the_classes_named_are_substituted() -> None:
    chat_only = substitute(classes=("chat", "summary"))
    assert answers(chat_only, TEXT, work_class="chat")
    assert not answers(chat_only, TEXT, work_class="mathematics")
    assert not answers(chat_only, TEXT)


@given(st.text(max_size=40), st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_a_conversation_stays_where_it_is_and_stays_substituted_when_the_share_grows(
    conversation: str, one: float, other: float
) -> None:
    less, more = sorted((one, other))
    was = answers(substitute(share=less), TEXT, conversation=conversation)
    assert was == answers(substitute(share=less), TEXT, conversation=conversation)
    assert not was or answers(substitute(share=more), TEXT, conversation=conversation)


def test_about_the_share_asked_for_is_substituted() -> None:
    half = substitute(share=0.3)
    found = sum(answers(half, TEXT, conversation=f"session-{number}") for number in range(4000))
    assert 0.27 < found / 4000 < 0.33
    assert 0 <= place_of("\ud800") < 1


def test_all_turns_of_a_conversation_have_one_name() -> None:
    first = [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]
    later = [*first, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    assert conversation_of({"messages": first}) == conversation_of({"messages": later})
    other = [first[0], {"role": "user", "content": "z"}]
    assert conversation_of({"messages": other}) != conversation_of({"messages": first})
    assert conversation_of({"user": "u", "messages": first}) == "u"
    assert conversation_of({"prompt": [1, 2]}) == "[1, 2]"


@pytest.mark.parametrize(("work_class", "share"), [("chat", 1.0), ("", 0.5), ("math", 0.0)])
def test_classes_have_shares_of_their_own(work_class: str, share: float) -> None:
    rule = Substitution("big", "small", 0.5, shares=(("chat", 1.0), ("math", 0.0)))
    substitute = substitutes_of((rule,), FleetSnapshot(0.0), served=("small",))["big"]
    asked = [f"conversation {number}" for number in range(400)]
    taken = [
        it
        for it in asked
        if substitute.answers({}, work_class=work_class, conversation=it, tokens=10)
    ]
    assert abs(len(taken) / len(asked) - share) < 0.1
    assert substitute.is_partial
    again = [
        it
        for it in taken
        if substitute.answers({}, work_class=work_class, conversation=it, tokens=10)
    ]
    assert again == taken  # one conversation is always on the same side
