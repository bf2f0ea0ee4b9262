from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.limits import Limits, Substitution
from ds4watch.model.service_policy import ServicePolicy
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView
from ds4watch.shaping.request import (
    NOT_DEGRADING,
    Asked,
    Degrading,
    RequestKind,
    degrading_of,
    shape,
)

SMALLER = Substitution("big", "small")
CHAT: dict[str, Any] = {"model": "big", "messages": [{"role": "user", "content": "hi"}]}


def worker(model: str, **more: Any) -> WorkerView:
    return WorkerView(model, "p", (model,), "http://x", WorkerPhase.READY, since=0.0, **more)


FLEET = FleetSnapshot(0.0, (worker("big"), worker("small")))


def policy(level: int = 1, fleet: FleetSnapshot = FLEET, **limits: Any) -> Degrading:
    tight = ServicePolicy(level=level, limits=Limits(**limits))
    return degrading_of(tight, fleet, fleet.models())


@pytest.mark.parametrize(
    ("kind", "asked", "cap", "sent"),
    [
        (RequestKind.CHAT, {}, None, {}),
        (RequestKind.CHAT, {}, 16, {"max_tokens": 16}),
        (RequestKind.CHAT, {"max_tokens": None}, 16, {"max_tokens": 16}),
        (RequestKind.CHAT, {"max_tokens": 16}, 16, {"max_tokens": 16}),
        (RequestKind.CHAT, {"max_tokens": 99}, 16, {"max_tokens": 16}),
        (RequestKind.CHAT, {"max_tokens": 5}, 16, {"max_tokens": 5}),
        (RequestKind.CHAT, {"max_completion_tokens": 99}, 16, {"max_completion_tokens": 16}),
        (
            RequestKind.CHAT,
            {"max_tokens": 99, "max_completion_tokens": 5},
            16,
            {"max_tokens": 16, "max_completion_tokens": 5},
        ),
        (
            RequestKind.CHAT,
            {"max_tokens": 99, "min_tokens": 50},
            16,
            {"max_tokens": 16, "min_tokens": 16},
        ),
        (RequestKind.TEXT, {}, 64, {}),
        (RequestKind.TEXT, {}, 8, {"max_tokens": 8}),
        (RequestKind.TEXT, {"max_tokens": 0}, 8, {"max_tokens": 0}),
        (RequestKind.RESPONSES, {}, 8, {"max_output_tokens": 8}),
        (RequestKind.RESPONSES, {"max_output_tokens": 9}, 8, {"max_output_tokens": 8}),
        (RequestKind.RESPONSES, {"max_output_tokens": 7}, 8, {"max_output_tokens": 7}),
        (RequestKind.OTHER, {"dimensions": 99}, 8, {"dimensions": 99}),
    ],
)
def test_tokens_are_capped_and_never_raised(
    kind: RequestKind, asked: dict[str, Any], cap: int | None, sent: dict[str, Any]
) -> None:
    shaped = shape({"model": "big", "prompt": "p"} | asked, policy(max_tokens_cap=cap), kind)
    assert shaped.body == {"model": "big", "prompt": "p"} | sent
    assert shaped.changed == bool({k: v for k, v in sent.items() if asked.get(k) != v})


def test_what_was_taken_away_is_told() -> None:
    tight = policy(2, max_tokens_cap=16, substitutions=(SMALLER,))
    shaped = shape(CHAT | {"max_tokens": 99}, tight, RequestKind.CHAT)
    assert shaped.degraded == ("level=2", "model=small", "max_tokens=16")
    assert shaped.model == "small"


def test_a_request_that_a_level_does_not_touch_is_not_called_degraded() -> None:
    shaped = shape(CHAT | {"max_tokens": 5}, policy(max_tokens_cap=16), RequestKind.CHAT)
    assert shaped.degraded == ()
    assert shaped.changed is False


def test_a_substitute_is_used_only_where_somebody_serves_it() -> None:
    alone = policy(fleet=FleetSnapshot(0.0, (worker("big"),)), substitutions=(SMALLER,))
    assert shape(CHAT, alone, RequestKind.CHAT).model == "big"


@pytest.mark.parametrize(
    ("options", "usage", "continuous"),
    [
        (None, False, False),
        ({}, False, False),
        ({"include_usage": True}, True, False),
        ({"include_usage": True, "continuous_usage_stats": True}, True, True),
        ({"continuous_usage_stats": True}, False, False),
        ({"include_usage": False, "x": 1}, False, False),
    ],
)
def test_a_stream_is_asked_for_its_usage_and_the_clients_wish_is_kept_in_mind(
    options: dict[str, Any] | None, usage: bool, continuous: bool
) -> None:
    body = CHAT | {"stream": True} | ({} if options is None else {"stream_options": options})
    shaped = shape(body, NOT_DEGRADING, RequestKind.CHAT)
    assert shaped.stream
    assert shaped.body["stream_options"] == (options or {}) | {
        "include_usage": True,
        "continuous_usage_stats": True,
    }
    assert shaped.client_wants_usage is usage
    assert shaped.client_wants_continuous_usage is continuous
    assert shaped.degraded == ()


@pytest.mark.parametrize(
    ("kind", "asked", "sent", "told"),
    [
        (RequestKind.CHAT, {"n": 4}, {"n": 2}, ("n=2",)),
        (RequestKind.CHAT, {"n": 2, "best_of": 9}, {"n": 2, "best_of": 3}, ("best_of=3",)),
        (RequestKind.TEXT, {"n": 1, "best_of": 2}, {"n": 1, "best_of": 2}, ()),
        (RequestKind.CHAT, {}, {}, ()),
    ],
)
def test_answers_and_tries_are_capped(
    kind: RequestKind, asked: dict[str, Any], sent: dict[str, Any], told: tuple[str, ...]
) -> None:
    shaped = shape(CHAT | asked, policy(n_cap=2, best_of_cap=3), kind)
    assert shaped.body == CHAT | sent
    assert shaped.degraded[1:] == told


def test_there_are_never_fewer_tries_than_answers() -> None:
    shaped = shape(CHAT | {"n": 4, "best_of": 8}, policy(best_of_cap=2), RequestKind.CHAT)
    assert (shaped.body["n"], shaped.body["best_of"]) == (4, 4)


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({}, {"chat_template_kwargs": {"enable_thinking": False}}),
        (
            {"chat_template_kwargs": {"enable_thinking": True, "x": 1}, "reasoning_effort": "high"},
            {
                "chat_template_kwargs": {"enable_thinking": False, "x": 1},
                "reasoning_effort": "low",
            },
        ),
        (
            {"chat_template_kwargs": {"thinking": True}},
            {"chat_template_kwargs": {"thinking": False, "enable_thinking": False}},
        ),
        (
            {"reasoning_effort": "minimal"},
            {
                "reasoning_effort": "minimal",
                "chat_template_kwargs": {"enable_thinking": False},
            },
        ),
    ],
)
def test_thinking_is_switched_off_in_the_words_of_vllm(
    asked: dict[str, Any], sent: dict[str, Any]
) -> None:
    shaped = shape(CHAT | asked, policy(thinking_off=True), RequestKind.CHAT)
    assert shaped.body == CHAT | sent
    assert shaped.degraded == ("level=1", "thinking=off")


def test_who_does_not_think_anyway_is_not_degraded() -> None:
    body = CHAT | {"chat_template_kwargs": {"enable_thinking": False}}
    assert shape(body, policy(thinking_off=True), RequestKind.CHAT).degraded == ()
    text = {"model": "big", "prompt": "p"}
    assert shape(text, policy(thinking_off=True), RequestKind.TEXT).degraded == ()


@pytest.mark.parametrize(("tokens", "ratio"), [(101, 0.5), (100, None), (0, None)])
def test_only_a_long_prompt_is_to_be_compressed(tokens: int, ratio: float | None) -> None:
    tight = policy(compress_ratio=0.5, compress_over_tokens=100)
    assert tight.compress_ratio(tokens) == ratio
    assert NOT_DEGRADING.compress_ratio(tokens) is None


def test_a_compressed_prompt_takes_the_place_of_the_whole_one_and_that_is_told() -> None:
    fields = {"messages": CHAT["messages"][:1]}
    tight = policy(compress_ratio=0.5)
    shaped = shape(CHAT, tight, RequestKind.CHAT, Asked(compressed=fields))
    assert shaped.body["messages"] == fields["messages"]
    assert shaped.degraded == ("level=1", "compressed=0.5")


def test_what_is_no_completion_is_left_alone_by_a_level() -> None:
    tight = policy(substitutions=(SMALLER,), max_tokens_cap=4, n_cap=1, thinking_off=True)
    body = {"model": "big", "input": ["text"], "n": "odd", "max_tokens": "odd"}
    assert shape(body, tight, RequestKind.OTHER).body == body
    response = {"model": "big", "input": "text", "n": "odd"}
    shaped = shape(response, tight, RequestKind.RESPONSES)
    assert shaped.body == response | {"max_output_tokens": 4}
    assert shaped.degraded == ("level=1", "max_output_tokens=4")


def test_what_was_not_compressed_is_not_said_to_be() -> None:
    tight = policy(compress_ratio=0.5, compress_over_tokens=1)
    assert not shape(CHAT, tight, RequestKind.CHAT, Asked(prompt_tokens=9)).changed


def test_a_cap_of_its_own_holds_for_one_request_on_every_level() -> None:
    shaped = shape(CHAT, NOT_DEGRADING, RequestKind.CHAT, Asked(own_cap=7))
    assert (shaped.body["max_tokens"], shaped.degraded) == (7, ("level=0", "max_tokens=7"))
    tighter = shape(CHAT, policy(max_tokens_cap=3), RequestKind.CHAT, Asked(own_cap=7))
    assert tighter.body["max_tokens"] == 3


SMALL = st.none() | st.integers(0, 200)


@given(
    st.dictionaries(st.text(max_size=3), st.integers() | st.text()),
    SMALL,
    SMALL,
    SMALL,
    st.booleans(),
    st.integers(1, 200),
)
def test_shaping_edits_nothing_in_place_and_leaves_unknown_fields_alone(
    extra: dict[str, Any],
    max_tokens: int | None,
    max_completion_tokens: int | None,
    min_tokens: int | None,
    stream: bool,
    cap: int,
) -> None:
    body = (
        {f"x_{name}": value for name, value in extra.items()}
        | CHAT
        | {
            "max_tokens": max_tokens,
            "max_completion_tokens": max_completion_tokens,
            "min_tokens": min_tokens,
            "stream": stream,
        }
    )
    before = copy.deepcopy(body)
    shaped = shape(body, policy(max_tokens_cap=cap), RequestKind.CHAT)
    assert body == before
    assert shaped.changed == (shaped.body != before)
    touched = {"max_tokens", "max_completion_tokens", "min_tokens", "stream_options"}
    assert {k: v for k, v in shaped.body.items() if k not in touched} == {
        k: v for k, v in before.items() if k not in touched
    }
    for field in ("max_tokens", "max_completion_tokens", "min_tokens"):
        value = shaped.body.get(field)
        assert value is None or value <= cap
    given = (shaped.body["max_tokens"], shaped.body["max_completion_tokens"])
    assert any(value is not None for value in given)
