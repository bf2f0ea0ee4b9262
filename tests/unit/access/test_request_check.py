from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.access.fields import Invalid
from ds4watch.access.request_check import DANGEROUS, RequestCheck, RequestLimits

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TEXT: dict[str, Any] = {"model": "m", "prompt": "hi"}
CHECK = RequestCheck(RequestLimits())


def part(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [fields]}]}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({}, None),
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": 7}, "model"),
        ({"model": "x" * 300}, "model"),
        ({"model": "m\n"}, "model"),
        ({"model": "m\x00"}, "model"),
        ({"model": "m\u2028"}, "model"),
        ({"model": "m\ud800"}, "model"),
        ({"model": "my model/Ü-7b:v1"}, None),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages"),
        ({"messages": [{}] * 5000}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}] * 2000}]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "assistant", "content": None, "tool_calls": []}]}, None),
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
        ({"best_of": 1000}, "best_of"),
        ({"logprobs": True, "top_logprobs": 20}, None),
        ({"logprobs": 5}, "logprobs"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"prompt_logprobs": 500}, "prompt_logprobs"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": 0}, None),
        ({"top_p": 10**400}, "top_p"),
        ({"seed": 2**63}, "seed"),
        ({"stop": "x"}, None),
        ({"stop": ["x"] * 65}, "stop"),
        ({"stop": ["x" * 2000]}, "stop"),
        ({"stop_token_ids": [1, 2**31]}, "stop_token_ids"),
        ({"logit_bias": {"5": float("inf")}}, "logit_bias.5"),
        ({"tools": [{"type": "function"}] * 300}, "tools"),
        ({"tools": ["x"]}, "tools"),
        ({"user": "u" * 2000}, "user"),
        ({"stream": "true"}, "stream"),
        ({"stream": None}, None),
        ({"stream_options": []}, "stream_options"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, None),
        ({"chat_template_kwargs": {"tokenize": True}}, "chat_template_kwargs.tokenize"),
        ({"chat_template_kwargs": {"a": [[]]}}, "chat_template_kwargs.a"),
        ({"anything": {"else": [1]}}, None),
    ],
)
def test_a_chat_request_is_checked_field_by_field(
    changes: dict[str, Any], field: str | None
) -> None:
    fault = CHECK.chat(CHAT | changes)
    assert (fault.field.startswith(field) if fault and field else fault) == (field and True)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({}, None),
        ({"prompt": None}, "prompt"),
        ({"prompt": None, "prompt_embeds": "base64"}, "prompt_embeds"),
        ({"prompt": []}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": [1, 2, 3] * 1000}, None),
        ({"prompt": ["a"] * 2000}, "prompt"),
        ({"prompt": [[1, 2]] * 2000}, "prompt"),
        ({"prompt": ["a", None]}, "prompt"),
        ({"logprobs": 5}, None),
        ({"logprobs": 10**6}, "logprobs"),
    ],
)
def test_a_text_request_is_checked_field_by_field(
    changes: dict[str, Any], field: str | None
) -> None:
    fault = CHECK.text(TEXT | changes)
    assert (fault.field if fault else None) == field


@pytest.mark.parametrize("field", DANGEROUS)
def test_what_reaches_into_the_worker_is_refused_unless_it_is_allowed(field: str) -> None:
    body = CHAT | {field: "x"}
    fault = CHECK.chat(body)
    assert fault is not None
    assert fault.field == field
    assert CHECK.chat(CHAT | {field: None}) is None
    assert RequestCheck(RequestLimits(allow_fields=frozenset({field}))).chat(body) is None


def test_prompts_as_embeddings_can_be_allowed() -> None:
    check = RequestCheck(RequestLimits(allow_fields=frozenset({"prompt_embeds"})))
    assert check.text({"model": "m", "prompt_embeds": "base64"}) is None


@pytest.mark.parametrize(
    ("field", "value", "is_fine"),
    [
        ("guided_regex", r"\d{4}-\d{2}", True),
        ("guided_regex", "a" * 3000, False),
        ("guided_regex", "a{1,100000}", False),
        ("guided_regex", "a{100000000000000000000}", False),
        ("guided_regex", "(a{1000}){1000}", False),
        ("guided_grammar", "root ::= x", True),
        ("guided_grammar", "x" * 20_000, False),
        ("guided_choice", ["yes", "no"], True),
        ("guided_choice", ["x"] * 2000, False),
        ("guided_json", {"type": "object", "properties": {"a": {"type": "string"}}}, True),
        ("guided_json", {"enum": list(range(20_000))}, False),
        ("guided_json", {"properties": {"a": {"pattern": "(x{1000}){1000}"}}}, False),
        ("guided_json", {"patternProperties": {"x{5000}": {}}}, False),
        ("guided_json", {"type": "array", "minItems": 10**9}, False),
        ("structured_outputs", {"regex": "ab?"}, True),
        ("structured_outputs", {"regex": "a{9999}"}, False),
        ("structured_outputs", {"json": {"pattern": "a{9999}"}}, False),
        ("structured_outputs", {"_backend": "outlines"}, False),
        ("structured_outputs", "x", False),
        ("response_format", {"type": "json_object"}, True),
        ("response_format", {"json_schema": {"schema": {"pattern": "a{9999}"}}}, False),
        ("tools", [{"function": {"parameters": {"pattern": "a{9999}"}}}], False),
        ("tools", [{"function": {"parameters": {"properties": {"pattern": {}}}}}], True),
    ],
)
def test_grammars_that_explode_are_refused(field: str, value: Any, is_fine: bool) -> None:
    fault = CHECK.chat(CHAT | {field: value})
    assert (fault is None) == is_fine
    assert fault is None or fault.field.startswith(field)


DATA = "data:image/png;base64,iVBORw0KGgo="


@pytest.mark.parametrize(
    ("body", "is_fine"),
    [
        (part(type="text", text="see http://169.254.169.254/ and file:///etc/passwd"), True),
        (part(type="image_url", image_url={"url": DATA, "detail": "low"}), True),
        (part(type="input_audio", input_audio={"data": "UklGRg==", "format": "wav"}), True),
        (part(type="image_url", image_url={"url": "http://169.254.169.254/latest/"}), False),
        (part(type="image_url", image_url={"url": "https://example.org/a.png"}), False),
        (part(type="image_url", image_url="https://example.org/a.png"), False),
        (part(image_url="https://example.org/a.png"), False),
        (part(type="text", text="x", image_url="http://localhost:8101/"), False),
        (part(type="image_url", image_url={"url": "file:///etc/passwd"}), False),
        (part(type="image_url", image_url={"url": "FiLe:///etc/passwd"}), False),
        (part(type="image_url", image_url={"url": " http://10.0.0.1/"}), False),
        (part(type="image_url", image_url={"url": "\thttp://10.0.0.1/"}), False),
        (part(type="image_url", image_url={"url": "//10.0.0.1/a.png"}), False),
        (part(type="video_url", video_url={"url": "gopher://10.0.0.1/"}), False),
        (part(type="audio_url", audio_url={"url": "https://example.org/a.wav"}), False),
        (part(type="image_embeds", image_embeds="gASVag=="), False),
        (part(type="image_embeds", image_embeds={"pixels": "gASVag=="}), False),
        (part(type="prompt_embeds", data="gASVag=="), False),
        (part(uuid="u", image_pil="x"), False),
        (part(type="x", deep=[{"er": ["http://10.0.0.1/"]}]), False),
        (part(type="x", deep=[0] * 30_000), False),
    ],
)
def test_parts_do_not_send_workers_to_fetch_addresses(body: dict[str, Any], is_fine: bool) -> None:
    fault = CHECK.chat(CHAT | body)
    assert (fault is None) == is_fine
    assert fault is None or fault.field.startswith("messages[0].content[0]")


def test_the_same_holds_for_inputs_of_other_paths() -> None:
    image = {"type": "input_image", "image_url": "http://10.0.0.1/"}
    item = {"role": "user", "content": [image]}
    fault = CHECK.other({"model": "m", "input": [item]})
    assert fault is not None
    assert fault.field == "input[0].content.image_url"
    assert CHECK.other({"model": "m", "input": ["a text", "http://10.0.0.1/ is text too"]}) is None
    assert CHECK.other({"model": "m", "input": [1, 2, 3]}) is None
    assert CHECK.other({"model": "m", "input": 5}) == Invalid(
        "input", "must be a text or a list of parts"
    )


@pytest.mark.parametrize(
    ("hosts", "url", "is_fine"),
    [
        (("example.org",), "https://example.org/a.png?b=c@d", True),
        (("example.org",), "https://EXAMPLE.org./a.png", True),
        (("example.org",), "https://example.org:443/a.png", True),
        (("example.org",), "https://example.org:8443/a.png", False),
        (("example.org:8443",), "https://example.org:8443/a.png", True),
        (("example.org",), "https://sub.example.org/a.png", False),
        (("*.example.org",), "https://a.sub.example.org/a.png", True),
        (("*.example.org",), "https://notexample.org/a.png", False),
        (("example.org",), "https://example.org@10.0.0.1/", False),
        (("example.org",), "https://10.0.0.1\\@example.org/", False),
        (("example.org",), "https://example.org\t.evil.net/", False),
        (("example.org",), "https://[::1", False),
        (("example.org",), "https://example.org:99999/", False),
        (("example.org",), "https:///a.png", False),
        (("example.org",), "file://example.org/etc/passwd", False),
        (("*",), "http://anything.net/", True),
        (("*",), "file:///etc/passwd", False),
    ],
)
def test_hosts_can_be_allowed(hosts: tuple[str, ...], url: str, is_fine: bool) -> None:
    check = RequestCheck(RequestLimits(media_hosts=hosts))
    fault = check.chat(CHAT | part(type="image_url", image_url={"url": url}))
    assert (fault is None) == is_fine


def test_limits_are_the_operators_to_set() -> None:
    fault = RequestCheck(RequestLimits(choices=1)).chat(CHAT | {"n": 2})
    assert fault == Invalid("n", "must be a whole number from 1 to 1")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        *("model", "messages", "prompt", "input", "max_tokens", "n", "stream", "stop"),
        *("logit_bias", "tools", "response_format", "structured_outputs", "guided_json", "seed"),
        *("chat_template_kwargs", "stop_token_ids", "temperature", "guided_regex"),
    ]
)


@given(st.dictionaries(FIELDS, JSON))
def test_no_body_whatever_makes_the_check_raise(body: dict[str, Any]) -> None:
    for check in (CHECK.chat, CHECK.text, CHECK.other):
        fault = check(body)
        assert fault is None or fault.reason


@given(JSON)
def test_no_content_whatever_makes_the_check_raise(content: Any) -> None:
    fault = CHECK.chat(CHAT | {"messages": [{"role": "user", "content": content}]})
    assert fault is None or fault.reason
