from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.service_policy import Limits, ServicePolicy
from ds4watch.shaping.request import RequestKind, shape

CHAT: dict[str, Any] = {"model": "big", "messages": [{"role": "user", "content": "hi"}]}


def policy(level: int = 1, **limits: Any) -> ServicePolicy:
    return ServicePolicy(level=level, limits=Limits(**limits))


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
    tight = policy(2, max_tokens_cap=16, substitutions=(("big", "small"),))
    shaped = shape(CHAT | {"max_tokens": 99}, tight, RequestKind.CHAT)
    assert shaped.degraded == ("level=2", "model=small", "max_tokens=16")
    assert shaped.model == "small"


def test_a_request_that_a_level_does_not_touch_is_not_called_degraded() -> None:
    shaped = shape(CHAT | {"max_tokens": 5}, policy(max_tokens_cap=16), RequestKind.CHAT)
    assert shaped.degraded == ()
    assert shaped.changed is False


@pytest.mark.parametrize(
    ("served", "model"), [(None, "small"), ({"big", "small"}, "small"), ({"big"}, "big")]
)
def test_a_substitute_is_used_only_where_somebody_serves_it(
    served: set[str] | None, model: str
) -> None:
    shaped = shape(CHAT, policy(substitutions=(("big", "small"),)), RequestKind.CHAT, served=served)
    assert shaped.model == model


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
    shaped = shape(body, ServicePolicy(), RequestKind.CHAT)
    assert shaped.stream
    assert shaped.body["stream_options"] == (options or {}) | {
        "include_usage": True,
        "continuous_usage_stats": True,
    }
    assert shaped.client_wants_usage is usage
    assert shaped.client_wants_continuous_usage is continuous
    assert shaped.degraded == ()


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
