from __future__ import annotations

import itertools
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.usage import Usage
from ds4watch.shaping.sse import OversizedEventError, SseRelay
from ds4watch.shaping.usage import usage_at_the_end, usage_of


def usage(prompt: int, completion: int, cached: int | None = None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
    }
    return told if cached is None else told | {"prompt_tokens_details": {"cached_tokens": cached}}


def event(data: Any, *, end: str = "\n\n") -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    return f"data: {text}{end}".encode()


def chunk(text: str, *, index: int = 0, told: Any = None, **extra: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "id": "c1",
        "choices": [{"index": index, "delta": {"content": text}}],
        **extra,
    }
    return answer if told is None else answer | {"usage": told}


STREAM = (
    event(chunk("Hel", told=usage(5, 1)))
    + b": ping\n\n"
    + event(chunk('lo, "usage":{"a":1}} äöü \\', told=usage(5, 2)), end="\r\n\r\n")
    + event(chunk("usage", told=usage(5, 3)))
    + event(chunk("error"))
    + event({"id": "c1", "choices": [], "usage": usage(5, 4, 2)})
    + event("[DONE]")
)


def test_case_62_cached_tokens_of_a_stream_are_those_of_the_plain_answer() -> None:
    """Cached input was priced as full input, only when streamed (BerriAI/litellm#11789)."""
    told = usage(2459, 12, 2455)
    _, relay = run([event({"id": "c1", "choices": [], "usage": told}) + event("[DONE]")])
    plain = usage_at_the_end(json.dumps({"id": "c1", "choices": [], "usage": told}).encode())
    assert relay.usage == plain == Usage(2459, 2455, 12)
    assert relay.usage.work == plain.work


def test_pieces_of_an_answer_without_usage_are_counted() -> None:
    _, relay = run([event(chunk("a")) + b": ping\n\n" + event(chunk("error"))])
    assert (relay.usage, relay.deltas) == (None, 2)


def run(pieces: list[bytes], *, last: bool = False, each: bool = False) -> tuple[bytes, SseRelay]:
    relay = SseRelay(keep_last=last, keep_each=each)
    out = b"".join(relay.feed(piece) for piece in pieces)
    return out + relay.finish(), relay


def answers(text: bytes) -> list[Any]:
    lines = [line[6:].strip() for line in text.splitlines() if line.startswith(b"data: ")]
    return [line if line == b"[DONE]" else json.loads(line) for line in lines]


def test_a_client_that_asked_for_no_usage_sees_none() -> None:
    out, relay = run([STREAM])
    seen = answers(out)
    assert len(seen) == 5
    assert all("usage" not in answer for answer in seen[:-1])
    assert seen[1]["choices"][0]["delta"]["content"] == 'lo, "usage":{"a":1}} äöü \\'
    assert seen[2]["choices"][0]["delta"]["content"] == "usage"
    assert b": ping\n\n" in out
    assert relay.usage == Usage(prompt=5, cached=2, completion=4)
    assert relay.done
    assert relay.error is None


def test_a_client_that_asked_for_the_last_usage_sees_that_alone() -> None:
    out, _ = run([STREAM], last=True)
    told = [answer.get("usage") for answer in answers(out)[:-1]]
    assert told == [None, None, None, None, usage(5, 4, 2)]


def test_a_client_that_asked_for_all_gets_the_workers_bytes() -> None:
    out, relay = run([STREAM], last=True, each=True)
    assert out == STREAM
    assert relay.usage == Usage(prompt=5, cached=2, completion=4)


@pytest.mark.parametrize(("last", "each"), [(False, False), (True, False), (True, True)])
def test_a_cut_at_any_byte_gives_the_same(last: bool, each: bool) -> None:
    whole, noted = run([STREAM], last=last, each=each)
    for at in range(len(STREAM) + 1):
        out, relay = run([STREAM[:at], STREAM[at:]], last=last, each=each)
        assert (out, relay.usage, relay.done) == (whole, noted.usage, noted.done)
    out, relay = run([STREAM[at : at + 1] for at in range(len(STREAM))], last=last, each=each)
    assert (out, relay.usage, relay.done) == (whole, noted.usage, noted.done)


TEXT = st.text(max_size=12) | st.sampled_from(['"usage":{}', "usage", '}\n\n{"usage":1}', "\\"])
TOLD = st.none() | st.builds(usage, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
CHUNKS = st.builds(
    chunk, TEXT, told=TOLD, nested=st.none() | st.just({"a": 1, "usage": {"prompt_tokens": 1}})
)


@given(
    st.lists(CHUNKS, max_size=6),
    st.lists(st.integers(0, 2000), max_size=8),
    st.booleans(),
    st.sampled_from(["\n\n", "\r\n\r\n"]),
)
def test_what_the_client_reads_is_the_stream_less_its_usage(
    chunks: list[dict[str, Any]], cuts: list[int], compact: bool, end: str
) -> None:
    separators = (",", ":") if compact else (", ", ": ")
    stream = b"".join(
        f"data: {json.dumps(one, separators=separators)}{end}".encode() for one in chunks
    )
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(borders)]
    out, relay = run(pieces)
    wanted = [{k: v for k, v in one.items() if k != "usage"} for one in chunks]
    assert answers(out) == wanted
    told = [one["usage"] for one in chunks if "usage" in one]
    assert relay.usage == (usage_of(told[-1]) if told else None)


def test_running_usage_of_several_choices_adds_up() -> None:
    _, relay = run(
        [
            event(chunk("a", index=0, told=usage(5, 1))),
            event(chunk("b", index=1, told=usage(5, 1))),
            event(chunk("c", index=1, told=usage(5, 2))),
        ]
    )
    assert relay.usage == Usage(prompt=5, completion=3)
    assert not relay.has_final_usage
    assert not relay.done


def test_an_error_after_the_200_is_noted_and_passed_on() -> None:
    stream = event({"error": {"message": "boom", "code": 500}}) + event("[DONE]")
    out, relay = run([stream])
    assert out == stream
    assert relay.error == {"message": "boom", "code": 500}


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"\n\n\n\n",
        b"nonsense\n\n",
        b'data: {not json, "usage": 5}\n\n',
        b'data: {"usage": 5}\n\n',
        b'data: {"usage": null}\n\n',
        b'data: {"id": 1, "usage": null}\n\n',
        b'data: ["usage"]\n\n',
        b'data: {"id": 1, "usage": {"prompt_tokens": "x"}}\n\n',
        b"data: " + b'{"usage":' * 5000 + b"\n\n",
        b'data: \xff\xfe"usage"\n\n',
        b"event: x\nid: 5\n\n",
    ],
)
def test_odd_streams_raise_nothing_and_tell_no_usage(stream: bytes) -> None:
    _, relay = run([stream])
    assert relay.usage is None


def test_an_answer_that_ends_without_its_last_newline_is_still_whole() -> None:
    out, relay = run([b"data: [DONE]"])
    assert out == b"data: [DONE]\n\n"
    assert relay.done


def test_data_over_several_lines_is_one_text() -> None:
    out, relay = run([b'event: x\ndata: {"id": 1,\ndata: "usage": {"prompt_tokens": 3}}\n\n'])
    assert relay.usage == Usage(prompt=3)
    assert answers(out) == [{"id": 1}]


def test_an_endless_event_is_refused_rather_than_held() -> None:
    relay = SseRelay(keep_last=False, keep_each=False, max_event_bytes=10)
    with pytest.raises(OversizedEventError):
        relay.feed(b"data: 0123456789")


@pytest.mark.parametrize(
    ("reported", "read"),
    [
        (None, None),
        (5, None),
        ({}, None),
        ({"prompt_tokens": None}, None),
        ({"prompt_tokens": True}, None),
        ({"prompt_tokens": -1}, None),
        ({"prompt_tokens": 3}, Usage(prompt=3)),
        (usage(3, 4), Usage(prompt=3, completion=4)),
        (usage(3, 4) | {"prompt_tokens_details": None}, Usage(prompt=3, completion=4)),
        (usage(3, 4, 2), Usage(prompt=3, cached=2, completion=4)),
        (usage(3, 4, 9), Usage(prompt=3, cached=3, completion=4)),
    ],
)
def test_usage_is_read_without_trust(reported: Any, read: Usage | None) -> None:
    assert usage_of(reported) == read


TEXTS = st.sampled_from(
    ["a", 'lo, "usage":{"a":1}}', "[DONE]", '"choices":[]', "\n\n", "{}", "error", "data: {"]
)
SINGLE = st.one_of(
    st.builds(chunk, TEXTS, told=st.builds(usage, st.just(5), st.integers(0, 99))),
    st.builds(chunk, TEXTS, told=st.builds(usage, st.just(5), st.integers(0, 9), st.just(2))),
    st.builds(chunk, TEXTS, index=st.integers(0, 2), told=st.builds(usage, st.just(5), st.just(1))),
    st.builds(chunk, TEXTS, told=st.just({"prompt_tokens": 1, "odd": "}"})),
    st.builds(chunk, TEXTS, usage=st.none()),
    st.builds(chunk, TEXTS, usage=st.just({"prompt_tokens": 3}), after=TEXTS),
    st.builds(chunk, TEXTS, error=st.just({"message": "boom"})),
    st.builds(lambda told: {"id": "c1", "choices": [], "usage": told}, st.builds(
        usage, st.just(5), st.integers(0, 9))),
    st.just("[DONE]"),
)  # fmt: skip


@given(
    events=st.lists(st.tuples(SINGLE, st.sampled_from(["\n\n", "\n\n", "\n\n", "\r\n\r\n"]))),
    last=st.booleans(),
    each=st.booleans(),
)
def test_many_events_at_once_are_the_same_as_one_by_one(
    events: list[tuple[Any, str]], last: bool, each: bool
) -> None:
    pieces = [event(data, end=end) for data, end in events]
    at_once, one = run([b"".join(pieces)], last=last, each=each)
    singly, other = run(pieces, last=last, each=each)
    assert at_once == singly
    assert (one.usage, one.done, one.error) == (other.usage, other.done, other.error)
    together = SseRelay(keep_last=last, keep_each=each)
    assert together.feed_all(pieces) + together.finish() == singly
    noted = (together.usage, together.done, together.error, together.deltas)
    assert noted == (other.usage, other.done, other.error, other.deltas)


@given(
    events=st.lists(
        st.tuples(SINGLE, st.sampled_from(["\n\n", "\n\n", "\r\n\r\n", "\n\r\n", "\n"]))
    ),
    cuts=st.lists(st.integers(0, 3000), max_size=8),
    groups=st.lists(st.integers(1, 4), max_size=12),
    last=st.booleans(),
    each=st.booleans(),
)
def test_chunks_that_came_at_once_are_the_same_as_byte_for_byte(
    events: list[tuple[Any, str]], cuts: list[int], groups: list[int], last: bool, each: bool
) -> None:
    stream = b"".join(event(data, end=end) for data, end in events)
    edges = itertools.accumulate(len(event(data, end=end)) for data, end in events)
    borders = sorted({0, *edges, *(min(cut, len(stream)) for cut in cuts)})
    pieces = [stream[a:b] for a, b in pairwise(borders)]
    relay = SseRelay(keep_last=last, keep_each=each)
    out, at = b"", 0
    for group in [*groups, len(pieces)]:
        out += relay.feed_all(pieces[at : at + group])
        at += group
    out += relay.finish()
    singly, other = run([stream[at : at + 1] for at in range(len(stream))], last=last, each=each)
    assert out == singly
    noted = (relay.usage, relay.done, relay.error, relay.deltas, relay.has_final_usage)
    assert noted == (other.usage, other.done, other.error, other.deltas, other.has_final_usage)


PLAIN = st.builds(
    chunk,
    TEXT,
    told=st.builds(usage, st.just(5), st.integers(0, 9999), st.sampled_from([None, 2, 16])),
)


@given(answers=st.lists(PLAIN), cached=st.sampled_from([None, 2]))
def test_of_plain_events_all_but_the_usage_passes_byte_for_byte(
    answers: list[dict[str, Any]], cached: int | None
) -> None:
    final = {"id": "c1", "choices": [], "usage": usage(5, 4, cached)}
    sent = [event(it) for it in [*answers, final, "[DONE]"]]
    bare = [event({"id": it["id"], "choices": it["choices"]}) for it in answers]
    relay = SseRelay(keep_last=False, keep_each=False)
    assert relay.feed_all(sent) == b"".join([*bare, event("[DONE]")])
    assert relay.usage == usage_of(final["usage"])
    assert relay.done
    kept = SseRelay(keep_last=True, keep_each=True)
    assert kept.feed_all(sent) == b"".join(sent)
    only_last = SseRelay(keep_last=True, keep_each=False)
    assert only_last.feed_all(sent) == b"".join([*bare, *sent[-2:]])


def test_an_inner_usage_stays_and_that_of_the_answer_goes() -> None:
    inner = chunk("a", more={"usage": {"prompt_tokens": 1}}, told=usage(5, 1))
    out, relay = run([event(inner)])
    assert out == event({name: value for name, value in inner.items() if name != "usage"})
    assert relay.usage == Usage(prompt=5, completion=1)
    first = chunk("a", usage=usage(5, 1), more={"usage": {"prompt_tokens": 1}})
    assert answers(run([event(first)])[0]) == [
        {name: value for name, value in first.items() if name != "usage"}
    ]


def test_a_plain_looking_event_among_plain_ones_is_read_by_itself() -> None:
    odd = event(chunk("b", told=usage(5, 2), after=[1]))  # behind the choices, before the usage
    moved = odd.replace(b',"after":[1]', b"").replace(b"}}\n\n", b'},"after":[1]}\n\n')
    stream = [event(chunk("a", told=usage(5, 1))), moved, event(chunk("c", told=usage(5, 3)))]
    relay = SseRelay(keep_last=False, keep_each=False)
    seen = answers(relay.feed_all(stream))
    assert [one.get("after") for one in seen] == [None, [1], None]
    assert all("usage" not in one for one in seen)
    assert relay.usage == Usage(prompt=5, completion=3)


JSONS = st.recursive(
    st.none() | st.integers(-5, 5) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["usage", "prompt_tokens", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(answer=st.dictionaries(st.sampled_from(["usage", "id", "choices", "z"]), JSONS))
def test_usage_at_the_end_of_an_answer_is_what_reading_all_of_it_tells(
    answer: dict[str, Any],
) -> None:
    expected = usage_of(answer.get("usage"))
    assert usage_at_the_end(json.dumps(answer).encode()) == expected
    assert usage_at_the_end(json.dumps(answer, separators=(",", ":")).encode()) == expected


def test_usage_in_the_words_of_the_responses_api() -> None:
    told = {"input_tokens": 5, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 9}}
    assert usage_of(told) == Usage(prompt=5, cached=5, completion=2)


def test_a_tool_calls_number_is_not_taken_for_its_choices() -> None:
    called = chunk("", told=usage(5, 1), index=0)
    called["choices"][0]["delta"]["tool_calls"] = [{"index": 0, "id": "a"}]
    second = chunk("b", told=usage(5, 3), index=1)
    _, relay = run([event(called) + event(second)])
    assert relay.usage == Usage(prompt=5, completion=4)
