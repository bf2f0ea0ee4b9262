from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.access.strict_json import loads

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_what_is_json_is_read_as_the_library_reads_it(body: dict[str, Any]) -> None:
    raw = json.dumps(body, allow_nan=True).encode()
    if b"Infinity" not in raw:
        assert loads(raw) == body


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b'{"model": "cheap", "model": "dear"}', "'model' stands twice"),
        (b'{"a": [{"b": 1, "\\u0062": 2}]}', "'b' stands twice"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": -Infinity}', "-Infinity is not JSON"),
        (b'{"a": 1e999}', "the number 1e999 is too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "digits"),
        (b"[]", "must be an object"),
        (b"", "Expecting value"),
        (b"\xff\xfe{}", "utf-8"),
        (b"\xef\xbb\xbf{}", "Expecting value"),
        (b'{"a": "\n"}', "control character"),
        (b'{"a": 1} {"a": 2}', "Extra data"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "nested deeper than 64"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper than 64"),
    ],
)
def test_what_two_readers_could_read_in_two_ways_is_refused(raw: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        loads(raw)


def test_sixty_four_levels_and_many_brackets_side_by_side_pass() -> None:
    assert loads(b'{"a":' * 64 + b"1" + b"}" * 64)
    assert loads(b'{"a": [' + b"[1]," * 500 + b"[1]]}")
