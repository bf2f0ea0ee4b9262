from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.access.keys import bearer_token, digest, find_key, new_secret
from ds4watch.access.roles import Role, allows
from ds4watch.model.service_policy import ApiKey


def test_a_secret_is_printable_and_holds_all_the_randomness_given() -> None:
    assert new_secret(bytes(24)) == "ds4-" + "A" * 32
    assert new_secret(bytes(24)) != new_secret(bytes(23) + b"\x01")


def test_too_little_randomness_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16"):
        new_secret(b"short")


def test_a_digest_is_plain_sha256() -> None:
    assert digest("abc") == hashlib.sha256(b"abc").hexdigest()


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5, unique=True), st.data())
def test_a_key_is_found_by_its_own_secret_and_by_no_other(
    secrets: list[str], data: st.DataObject
) -> None:
    keys = tuple(ApiKey(f"k{at}", digest(secret)) for at, secret in enumerate(secrets))
    chosen = data.draw(st.integers(0, len(secrets) - 1))
    found = find_key(keys, secrets[chosen])
    assert found is not None
    assert found.name == f"k{chosen}"
    assert find_key(keys, "".join(secrets) + "x") is None


def test_odd_secrets_and_odd_tables_do_not_raise() -> None:
    assert find_key((), "x") is None
    assert find_key((ApiKey("odd", "ümlaut"), ApiKey("empty", "")), "\udcff\x00") is None


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (None, None),
        ("", None),
        ("Bearer", None),
        ("Bearer   ", None),
        ("Basic abc", None),
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("  BEARER   abc  ", "abc"),
    ],
)
def test_a_bearer_header_gives_its_token(header: str | None, token: str | None) -> None:
    assert bearer_token(header) == token


@pytest.mark.parametrize(
    ("role", "may"),
    [
        (Role.VIEWER, {Role.VIEWER}),
        (Role.OPERATOR, {Role.VIEWER, Role.OPERATOR}),
        (Role.ADMIN, {Role.VIEWER, Role.OPERATOR, Role.ADMIN}),
    ],
)
def test_a_role_may_do_what_the_lower_ones_may(role: Role, may: set[Role]) -> None:
    assert {needed for needed in Role if allows(role, needed)} == may
