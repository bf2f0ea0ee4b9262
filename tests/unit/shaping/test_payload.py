from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.service_policy import Limits, ServicePolicy
from ds4watch.model.worker import FleetSnapshot
from ds4watch.shaping.payload import payload_of
from ds4watch.shaping.request import NOT_DEGRADING, RequestKind, degrading_of, shape

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Größe }"}]}
CAPPED = degrading_of(
    ServicePolicy(1, 1, limits=Limits(max_tokens_cap=5)), FleetSnapshot(0.0), served=("m",)
)


def test_a_stream_gets_its_field_and_keeps_every_other_byte() -> None:
    raw = b'{ "stream":true, "model" : "m","messages":[], "x": 1.0e0 }'
    shaped = shape(json.loads(raw), NOT_DEGRADING, RequestKind.CHAT)
    sent = payload_of(shaped, raw)
    assert sent.startswith(raw[:-1])
    assert json.loads(sent) == shaped.body


@given(
    options=st.sampled_from([None, {}, {"include_usage": True}, {"include_usage": False}, "none"]),
    more=st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False), max_size=3),
    end=st.sampled_from(["", " ", "\n"]),
    is_capped=st.booleans(),
    kind=st.sampled_from([RequestKind.CHAT, RequestKind.TEXT, RequestKind.RESPONSES]),
)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_what_is_sent_says_what_was_shaped(
    options: Any, more: dict[str, Any], end: str, is_capped: bool, kind: RequestKind,
    separators: tuple[str, str],
) -> None:  # fmt: skip
    body = more | CHAT | {"stream": True}
    if options != "none":
        body["stream_options"] = options
    raw = (json.dumps(body, separators=separators) + end).encode()
    shaped = shape(body, CAPPED if is_capped else NOT_DEGRADING, kind)
    if shaped.changed:
        assert json.loads(payload_of(shaped, raw)) == shaped.body
