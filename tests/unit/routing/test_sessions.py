from __future__ import annotations

from typing import Any

import pytest

from ds4watch.routing.sessions import has_many_turns, session_key

SYSTEM = {"role": "system", "content": "You are terse. " * 20}
FIRST = {"role": "user", "content": "What is a ring?"}


def chat(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages)} | more


def test_the_header_goes_before_the_body_and_the_body_before_the_beginning() -> None:
    body = chat(SYSTEM, FIRST, user="u", session_id="s")
    keys = [
        session_key("h", body),
        session_key(None, body),
        session_key("", chat(SYSTEM, FIRST, user="u")),
        session_key(None, chat(SYSTEM, FIRST)),
    ]
    assert len(set(keys)) == 4
    assert keys[0] == session_key("h", chat(FIRST, user="x"))
    assert keys[1] == session_key(None, chat(FIRST, session_id="s"))
    assert keys[2] == session_key(None, chat(FIRST, user="u"))


def test_the_key_of_a_conversation_stays_from_turn_to_turn() -> None:
    answer, second = {"role": "assistant", "content": "A loop."}, {"role": "user", "content": "Hm"}
    first = session_key(None, chat(SYSTEM, FIRST))
    assert session_key(None, chat(SYSTEM, FIRST, answer, second)) == first
    assert session_key(None, chat({**SYSTEM, "content": "Be long."}, FIRST)) != first
    assert session_key(None, chat(SYSTEM, second)) != first


def test_a_short_beginning_is_no_key_until_there_is_more_of_it() -> None:
    hello = {"role": "user", "content": "Hi"}
    answers = [{"role": "assistant", "content": f"{at}" * 300} for at in (1, 2)]
    assert session_key(None, chat(hello)) is None
    keys = [session_key(None, chat(hello, answer, hello)) for answer in answers]
    assert None not in keys
    assert keys[0] != keys[1]
    assert session_key(None, chat(hello, answers[0], hello, answers[1], hello)) == keys[0]


def test_the_key_is_the_same_in_every_process() -> None:
    assert session_key("abc", {}) == 891568578


def test_parts_of_text_and_pictures_make_a_key_too() -> None:
    picture = {"type": "image_url", "image_url": {"url": "x" * 5000 + "y"}}
    parts = [picture, {"type": "text", "text": "What?"}]
    one = session_key(None, chat({"role": "user", "content": parts}))
    assert one is not None
    assert one == session_key(None, chat({"role": "user", "content": parts}, SYSTEM))
    assert one != session_key(None, chat({"role": "user", "content": parts[:1]}))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompt": "short"},
        {"prompt": [1, 2, 3]},
        {"messages": "x"},
        {"messages": [SYSTEM]},
        {"messages": ["x", FIRST]},
        {"user": 7, "prompt": "short"},
        {"messages": [{"role": "user", "content": 7}]},
        {"messages": [{"role": "user", "content": [7, {"image_url": 7}, {"image_url": {}}]}]},
    ],
)
def test_what_has_no_beginning_of_use_has_no_key(body: dict[str, Any]) -> None:
    assert session_key(None, body) is None


def test_a_long_text_prompt_is_known_by_its_beginning() -> None:
    beginning = "x" * 300
    assert session_key(None, {"prompt": beginning + "a"}) is not None
    assert session_key(None, {"prompt": beginning + "a"}) == session_key(
        None, {"prompt": beginning + "b"}
    )


def test_broken_surrogates_are_no_reason_to_fail() -> None:
    assert session_key("\ud800", chat({"role": "user", "content": "\udfff" * 300})) is not None


@pytest.mark.parametrize(("turns", "many"), [(20, False), (21, True)])
def test_many_turns_are_more_than_twenty_messages_of_the_user(turns: int, *, many: bool) -> None:
    answer = {"role": "assistant", "content": "A loop."}
    assert has_many_turns(chat(SYSTEM, *[FIRST, answer] * turns)) is many
    assert has_many_turns({"prompt": "x"}) is False


def test_the_input_of_a_response_is_a_conversation_too() -> None:
    assert session_key(None, {"input": [SYSTEM, FIRST]}) == session_key(None, chat(SYSTEM, FIRST))
    assert session_key(None, {"input": ["a", "b"]}) is None
