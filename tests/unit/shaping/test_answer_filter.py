from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.config.filter_file import FilterFile
from ds4watch.shaping.answer_filter import AnswerFilter
from ds4watch.shaping.filter_rules import compile_filter

SHELL = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 3, "completion_tokens": 9}


def filter_of(*rules: dict[str, Any]) -> AnswerFilter:
    named = [{"name": f"r{at}"} | rule for at, rule in enumerate(rules)]
    book = compile_filter(FilterFile(rules=named), "f.yml")
    return AnswerFilter(book.sets(key="", models=("m",)))


def event(*choices: dict[str, Any], **more: Any) -> bytes:
    return b"data: " + json.dumps(SHELL | {"choices": list(choices)} | more).encode() + b"\n\n"


def delta(text: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    inner = {} if text is None else {"content": text}
    return {"index": index, "delta": inner, "finish_reason": None} | more


def answers(data: bytes) -> list[dict[str, Any]]:
    lines = [line[6:] for line in data.splitlines() if line.startswith(b"data: {")]
    return [json.loads(line) for line in lines]


def text_in(data: bytes, name: str = "content", index: int = 0) -> str:
    choices = [choice for answer in answers(data) for choice in answer["choices"]]
    mine = [choice["delta"] for choice in choices if choice["index"] == index]
    return "".join(inner.get(name) or "" for inner in mine)


MASK = {"words": ["secret"]}
STOP = {"words": ["enough"], "action": "stop"}


def test_what_no_rule_finds_passes_byte_for_byte() -> None:
    data = event(delta("Hello ", logprobs={"content": []})) + event(delta("you.")) + DONE
    one = filter_of(MASK)
    assert one.feed(data) == data
    assert one.mark() == ""


def test_a_word_split_over_events_and_escapes_is_masked() -> None:
    raw = event(delta("a s\u00e9c")).replace(b"\\u00e9", b"\\u0065") + event(delta("ret!"))
    end = event(delta(finish_reason="stop"))
    one = filter_of(MASK)
    out = one.feed(raw + end + DONE)
    assert text_in(out) == "a ***!"
    assert b"secret" not in out
    assert out.endswith(b": x-ds4-filter mask=1;rules=r0\n\ndata: [DONE]\n\n")


def test_what_is_held_back_comes_with_the_end() -> None:
    out = filter_of(MASK).feed(event(delta("a sec")) + event(delta(finish_reason="stop")) + DONE)
    assert text_in(out) == "a sec"
    assert [it["choices"][0]["finish_reason"] for it in answers(out)] == [None, "stop"]
    # Even where a worker tells no end.
    out = filter_of(MASK).feed(event(delta("a sec")) + DONE)
    assert text_in(out) == "a sec"
    assert answers(out)[-1] | {"choices": []} == SHELL | {"choices": []}


def test_tokens_do_not_tell_what_the_text_hides() -> None:
    logprobs = {"content": [{"token": "secret"}]}
    out = filter_of(MASK).feed(event(delta("secret, ", logprobs=logprobs, token_ids=[7])) + DONE)
    choice = answers(out)[0]["choices"][0]
    assert (choice["logprobs"], choice["token_ids"]) == (None, None)


def test_a_stop_ends_the_choice_and_leaves_the_others_and_the_usage() -> None:
    out = filter_of(STOP).feed(
        event(delta("well "), delta("x", index=1))
        + event(delta("enough of"), delta("y", index=1))
        + event(delta("this"))
        + event(delta("that"), delta("z", index=1, finish_reason="stop"))
        + event(usage=USAGE)
        + DONE
    )
    assert text_in(out) == "well "
    assert text_in(out, index=1) == "xyz"
    reasons = [choice["finish_reason"] for it in answers(out) for choice in it["choices"]]
    assert reasons == [None, None, "content_filter", None, "stop"]
    assert answers(out)[-1]["usage"] == USAGE


def test_the_arguments_of_tools_are_left_alone_unless_it_is_said() -> None:
    call = {"index": 0, "function": {"name": "f", "arguments": '{"a": "secret"}'}}
    data = (
        event({"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}) + DONE
    )
    assert filter_of(MASK).feed(data) == data
    out = filter_of(MASK | {"where": ["tools"]}).feed(data)
    calls = answers(out)[0]["choices"][0]["delta"]["tool_calls"]
    assert calls[0]["function"] == {"name": "f", "arguments": '{"a": "***"}'}


def test_reasoning_is_a_text_of_its_own_that_ends_where_the_answer_begins() -> None:
    out = filter_of(MASK).feed(
        event({"index": 0, "delta": {"reasoning_content": "the sec"}, "finish_reason": None})
        + event(delta("ret "))
        + DONE
    )
    assert text_in(out, "reasoning_content") == "the sec"
    assert text_in(out) == "ret "


def test_an_answer_that_is_not_streamed_is_filtered_too() -> None:
    message = {"role": "assistant", "content": "a secret"}
    choices = [
        {"index": 0, "message": message, "finish_reason": "stop", "logprobs": {}},
        {"index": 1, "message": {"content": "fine"}, "finish_reason": "length"},
    ]
    body = json.dumps({"choices": choices, "usage": USAGE}).encode()
    one = filter_of(MASK)
    told = json.loads(one.whole(body))
    assert [it["message"]["content"] for it in told["choices"]] == ["a ***", "fine"]
    assert [it["finish_reason"] for it in told["choices"]] == ["stop", "length"]
    assert told["usage"] == USAGE
    assert one.mark() == "mask=1;rules=r0"
    one = filter_of(STOP)
    text = {"choices": [{"index": 0, "text": "well enough", "finish_reason": "stop"}]}
    told = json.loads(one.whole(json.dumps(text).encode()))["choices"][0]
    assert (told["text"], told["finish_reason"]) == ("well ", "content_filter")
    for odd in (b"", b"[]", b'{"choices": 5}', b'{"choices": [{"message": 5}]}', b"\xff"):
        assert filter_of(MASK).whole(odd) == odd


def test_odd_events_pass_as_they_are() -> None:
    for odd in (
        b": hello\n\n",
        b"event: x\n\n",
        b'data: {"choices": 5}\n\n',
        b'data: {"choices"\n\n',
    ):
        assert filter_of(MASK).feed(odd) == odd


@given(st.lists(st.text("secr t.", max_size=5), max_size=12), st.data())
def test_a_stream_tells_what_the_whole_answer_tells(pieces: list[str], data: Any) -> None:
    message = {"content": "".join(pieces)}
    whole = filter_of(MASK).whole(json.dumps({"choices": [{"message": message}]}).encode())
    raw = b"".join(event(delta(piece)) for piece in pieces) + event(delta(finish_reason="stop"))
    one = filter_of(MASK)
    events = [it + b"\n\n" for it in (raw + DONE).split(b"\n\n")[:-1]]
    cut = data.draw(st.integers(0, len(events)))
    out = one.feed(b"".join(events[:cut])) + one.feed(b"".join(events[cut:]))
    assert text_in(out) == json.loads(whole)["choices"][0]["message"]["content"]


def compact(*choices: dict[str, Any], **more: Any) -> bytes:
    answer = SHELL | {"choices": list(choices)} | more
    return b"data: " + json.dumps(answer, separators=(",", ":")).encode() + b"\n\n"


PLACES = st.sampled_from(
    [
        lambda text: (delta(text), {}),
        lambda text: (delta(text), {}),
        lambda text: (delta(text), {}),
        lambda text: (delta(text, index=1), {}),
        lambda text: (delta(text, finish_reason="length"), {}),
        lambda text: (delta(text), {"id": "c2"}),
        lambda text: (delta(text), {"usage": USAGE}),
        lambda text: (delta(text, logprobs={"content": [{"token": text}]}), {}),
        lambda text: (delta(text, delta={"content": text, "reasoning": text}), {}),
        lambda text: (delta(text, delta={"role": "assistant", "content": text}), {}),
        lambda text: (delta(text, delta={"reasoning_content": text}), {}),
        lambda text: (delta(text, content=text), {}),
    ]
)


@given(
    st.lists(st.tuples(PLACES, st.text('secr t.é"\\\n', max_size=6) | st.just("enough"))),
    st.sampled_from([(MASK,), (STOP,), (MASK, STOP), ({"regex": "s.?e", "action": "flag"},)]),
)
def test_events_written_without_spaces_are_filtered_like_those_with(
    told: list[tuple[Any, str]], rules: tuple[dict[str, Any], ...]
) -> None:
    """The former may pass without being read as JSON."""
    fast, slow = filter_of(*rules), filter_of(*rules)
    for place, text in told:
        choice, more = place(text)
        terse, wide = compact(choice, **more), event(choice, **more)
        out, other = fast.feed(terse), slow.feed(wide)
        assert answers(out) == answers(other)
        assert out == terse or other != wide
    assert answers(fast.feed(DONE)) == answers(slow.feed(DONE))
    assert fast.found == slow.found
