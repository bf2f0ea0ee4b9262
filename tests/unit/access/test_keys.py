from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.access.key_rules import denied, denied_model
from ds4watch.access.keys import KeyTable, bearer_token, digest, new_secret
from ds4watch.access.roles import Role, allows
from ds4watch.model.key_budget import BudgetLeft
from ds4watch.model.key_limits import KeyLimits
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
    table = KeyTable(keys)
    found = table.find(secrets[chosen])
    assert found is not None
    assert found.name == f"k{chosen}"
    assert table.find("".join(secrets) + "x") is None
    assert table.find(keys[0].sha256) is None


def test_odd_secrets_and_odd_tables_do_not_raise() -> None:
    assert KeyTable().find("x") is None
    assert not KeyTable()
    assert KeyTable((ApiKey("odd", "ümlaut"), ApiKey("empty", ""))).find("\udcff\x00") is None


def test_a_key_that_signs_is_found_by_name_and_never_by_its_secret() -> None:
    key = ApiKey("signer", digest("secret"), signing="ab" * 32)
    table = KeyTable((key, ApiKey("sends", digest("other"))))
    assert table.find("secret") is None
    assert table.signer("signer") is key
    assert table.signer("sends") is None
    assert "abab" not in repr(key)


NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("key", "status", "code"),
    [
        (ApiKey("k", ""), None, None),
        (ApiKey("k", "", expires_at=NOW + 1), None, None),
        (ApiKey("k", "", expires_at=NOW), 401, "invalid_api_key"),
        (ApiKey("k", "", left=BudgetLeft(1, NOW + 9)), None, None),
        (ApiKey("k", "", left=BudgetLeft(0, NOW + 9)), 429, "insufficient_quota"),
        (ApiKey("k", "", left=BudgetLeft(-5, NOW + 9)), 429, "insufficient_quota"),
        (ApiKey("k", "", left=BudgetLeft(-5, NOW)), None, None),
    ],
)
def test_a_key_ends_with_its_time_and_with_its_money(
    key: ApiKey, status: int | None, code: str | None
) -> None:
    told = denied(key, NOW)
    assert (told.status if told else None, told.code if told else None) == (status, code)


def test_when_the_money_is_spent_the_whole_time_to_wait_is_told() -> None:
    told = denied(ApiKey("k", "", left=BudgetLeft(0, NOW + 8.2)), NOW)
    assert told is not None
    assert told.retry_after_seconds == 9
    assert "in 9 s" in told.message


def test_a_model_out_of_scope_reads_like_one_that_is_not_there() -> None:
    key = ApiKey("k", "", KeyLimits(models=("cheap",)))
    assert denied_model(key, "cheap") is None
    told = denied_model(key, "dear")
    assert told is not None
    assert (told.status, told.code, told.param) == (404, "model_not_found", "model")
    assert denied_model(ApiKey("all", ""), "dear") is None


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
