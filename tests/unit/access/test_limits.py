from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.access.limits import Invalid, RequestLimits, check_request

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TEXT: dict[str, Any] = {"model": "m", "prompt": "hi"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({}, None),
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": 7}, "model"),
        ({"model": "x" * 300}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages"),
        ({"messages": [{}] * 5000}, "messages"),
        ({"max_tokens": None}, None),
        ({"max_tokens": 1}, None),
        ({"max_tokens": 16.0}, None),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": "16"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"max_tokens": float("inf")}, "max_tokens"),
        ({"max_completion_tokens": []}, "max_completion_tokens"),
        ({"min_tokens": {}}, "min_tokens"),
        ({"n": 0}, "n"),
        ({"n": 1000}, "n"),
        ({"stream": "true"}, "stream"),
        ({"stream": None}, None),
        ({"stream_options": []}, "stream_options"),
        ({"anything": {"else": [1]}}, None),
    ],
)
def test_a_chat_request_is_checked_field_by_field(
    changes: dict[str, Any], field: str | None
) -> None:
    fault = check_request(CHAT | changes, chat=True)
    assert (fault.field if fault else None) == field


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({}, None),
        ({"prompt": None}, "prompt"),
        ({"prompt": None, "prompt_embeds": "base64"}, None),
        ({"prompt": []}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": [1, 2, 3] * 1000}, None),
        ({"prompt": ["a"] * 2000}, "prompt"),
        ({"prompt": [[1, 2]] * 2000}, "prompt"),
    ],
)
def test_a_text_request_is_checked_field_by_field(
    changes: dict[str, Any], field: str | None
) -> None:
    fault = check_request(TEXT | changes, chat=False)
    assert (fault.field if fault else None) == field


def test_limits_are_the_operators_to_set() -> None:
    fault = check_request(CHAT | {"n": 2}, chat=True, limits=RequestLimits(n=1))
    assert fault == Invalid("n", "must be a whole number from 1 to 1")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["model", "messages", "prompt", "max_tokens", "n", "min_tokens", "stream", "stream_options"]
)


@given(st.dictionaries(FIELDS, JSON), st.booleans())
def test_no_body_whatever_makes_the_check_raise(body: dict[str, Any], chat: bool) -> None:
    fault = check_request(body, chat=chat)
    assert fault is None or fault.reason
