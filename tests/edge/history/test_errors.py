from __future__ import annotations

import sqlite3

import psycopg
import pytest
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from ds4watch.history.errors import CorruptError, store_errors, to_store_error
from ds4watch.model.errors import EdgeReason, StoreError


def sqlite_error(code: int) -> OperationalError:
    cause = sqlite3.OperationalError("as SQLite says")
    cause.sqlite_errorcode = code
    return OperationalError("SELECT 1", {}, cause)


@pytest.mark.parametrize(
    ("error", "reason", "retryable"),
    [
        (sqlite_error(sqlite3.SQLITE_BUSY), EdgeReason.LOCKED, True),
        (sqlite_error(sqlite3.SQLITE_BUSY_SNAPSHOT), EdgeReason.LOCKED, True),
        (sqlite_error(sqlite3.SQLITE_FULL), EdgeReason.FULL, True),
        (sqlite_error(sqlite3.SQLITE_IOERR_WRITE), EdgeReason.GONE, True),
        (sqlite_error(sqlite3.SQLITE_CANTOPEN), EdgeReason.GONE, True),
        (sqlite_error(sqlite3.SQLITE_READONLY), EdgeReason.REFUSED, True),
        (sqlite_error(sqlite3.SQLITE_CORRUPT), EdgeReason.PARSE, False),
        (sqlite_error(sqlite3.SQLITE_NOTADB), EdgeReason.PARSE, False),
        (sqlite_error(sqlite3.SQLITE_CONSTRAINT), EdgeReason.OTHER, False),
        (sqlite3.ProgrammingError("closed"), EdgeReason.OTHER, False),
        (SQLAlchemyError("theirs"), EdgeReason.OTHER, False),
        (OSError("disk"), EdgeReason.GONE, True),
    ],
)
def test_every_foreign_error_has_a_meaning(
    error: Exception, reason: EdgeReason, retryable: bool
) -> None:
    ours = to_store_error(error)
    assert (ours.reason, ours.retryable) == (reason, retryable)
    assert isinstance(ours, CorruptError) == (reason is EdgeReason.PARSE)


@pytest.mark.parametrize(
    ("sqlstate", "reason"),
    [
        ("08006", EdgeReason.GONE),
        ("57P01", EdgeReason.GONE),
        ("57P03", EdgeReason.GONE),
        ("53300", EdgeReason.GONE),
        ("58030", EdgeReason.GONE),
        ("53100", EdgeReason.FULL),
        ("53200", EdgeReason.FULL),
        ("42501", EdgeReason.REFUSED),
        ("28P01", EdgeReason.REFUSED),
        ("3D000", EdgeReason.REFUSED),
        ("25006", EdgeReason.REFUSED),
        ("55P03", EdgeReason.LOCKED),
        ("40P01", EdgeReason.LOCKED),
        ("40001", EdgeReason.LOCKED),
        ("57014", EdgeReason.TIMEOUT),
        ("23505", EdgeReason.OTHER),
        ("42P01", EdgeReason.OTHER),
        ("XX001", EdgeReason.OTHER),
    ],
)
def test_what_a_server_says_has_a_meaning_by_its_sqlstate(
    sqlstate: str, reason: EdgeReason
) -> None:
    cause = psycopg.errors.lookup(sqlstate)("as PostgreSQL says\nin lines")
    ours = to_store_error(OperationalError("SELECT 1", {}, cause))
    assert (ours.reason, ours.retryable) == (reason, reason is not EdgeReason.OTHER)
    assert str(ours) == "as PostgreSQL says in lines"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("connection refused", EdgeReason.GONE),
        ('FATAL:  password authentication failed for user "a"', EdgeReason.REFUSED),
        ("FATAL:  the database system is starting up", EdgeReason.GONE),
        ("FATAL:  sorry, too many clients already", EdgeReason.GONE),
    ],
)
def test_a_connection_that_does_not_come_about_has_a_meaning_by_its_words(
    message: str, reason: EdgeReason
) -> None:
    assert to_store_error(psycopg.OperationalError(message)).reason is reason
    assert to_store_error(psycopg.errors.ConnectionTimeout("x")).reason is EdgeReason.TIMEOUT


def test_the_cause_is_kept_and_our_own_errors_pass() -> None:
    with pytest.raises(StoreError, match="disk") as caught, store_errors():
        raise OSError("disk")
    assert isinstance(caught.value.__cause__, OSError)
    own = StoreError("own", reason=EdgeReason.LOCKED)
    with pytest.raises(StoreError) as again, store_errors():
        raise own
    assert again.value is own
