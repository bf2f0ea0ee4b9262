from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ds4watch.access.signature import (
    Signed,
    fault_of_form,
    is_genuine,
    signature_of,
    signed_of,
    signing_key,
)

NOW = 1_800_000_000.0
KEY = signing_key("ds4-secret")
REQUEST: dict[str, Any] = {
    "method": "POST",
    "target": "/v1/chat/completions?a=b",
    "body": b'{"model": "m"}',
}
SIGNED = Signed(
    "team-a",
    "1800000000",
    "n-1",
    signature_of(KEY, timestamp="1800000000", nonce="n-1", **REQUEST),
)


def test_a_signature_is_known_by_its_maker() -> None:
    assert is_genuine(SIGNED, KEY, **REQUEST)
    assert fault_of_form(SIGNED, NOW, window_seconds=300) is None
    assert "ds4-secret" not in KEY


@pytest.mark.parametrize(
    "change",
    [
        {"method": "PUT"},
        {"target": "/v1/chat/completions"},
        {"target": "/v1/chat/completions?a=b&c"},
        {"body": b'{"model": "n"}'},
    ],
)
def test_no_part_of_a_signed_request_can_be_changed(change: dict[str, Any]) -> None:
    assert not is_genuine(SIGNED, KEY, **(REQUEST | change))


@pytest.mark.parametrize(
    "change",
    [
        {"timestamp": "1800000001"},
        {"nonce": "n-2"},
        {"nonce": ""},
        {"signature": "0" * 64},
        {"signature": "ü\udcff"},
    ],
)
def test_no_header_can_be_changed(change: dict[str, str]) -> None:
    assert not is_genuine(replace(SIGNED, **change), KEY, **REQUEST)


def test_another_key_does_not_do() -> None:
    assert not is_genuine(SIGNED, signing_key("ds4-other"), **REQUEST)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"timestamp": "1799999700"}, None),
        ({"timestamp": "1800000300"}, None),
        ({"timestamp": "1799999699"}, "x-ds4-timestamp is more than 300 s off"),
        ({"timestamp": "1800000301"}, "x-ds4-timestamp is more than 300 s off"),
        ({"timestamp": "1.8e9"}, "x-ds4-timestamp must be whole unix seconds"),
        ({"timestamp": "1" * 400}, "x-ds4-timestamp must be whole unix seconds"),
        ({"timestamp": "١٨٠٠٠٠٠٠٠٠"}, "x-ds4-timestamp must be whole unix seconds"),
        ({"nonce": "a\nb"}, "x-ds4-nonce must be at most 64 letters, digits, - or _"),
        ({"nonce": "a" * 65}, "x-ds4-nonce must be at most 64 letters, digits, - or _"),
        ({"signature": "abc"}, "x-ds4-signature must be 64 hex digits"),
    ],
)
def test_the_form_is_looked_at_first(change: dict[str, str], told: str | None) -> None:
    assert fault_of_form(replace(SIGNED, **change), NOW, window_seconds=300) == told


def test_a_request_without_a_signature_is_not_signed() -> None:
    assert signed_of({"authorization": "Bearer ds4-secret"}) is None
    assert signed_of({"x-ds4-key": "team-a", "authorization": "Bearer ds4-secret"}) is None


def test_a_key_that_is_named_and_not_sent_is_a_signature_left_out() -> None:
    assert signed_of({"x-ds4-key": "team-a"}) == Signed("team-a", "", "", "")
    assert signed_of({"x-ds4-signature": "s"}) == Signed("", "", "", "s")
