from __future__ import annotations

import sqlite3

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


def test_the_cause_is_kept_and_our_own_errors_pass() -> None:
    with pytest.raises(StoreError, match="disk") as caught, store_errors():
        raise OSError("disk")
    assert isinstance(caught.value.__cause__, OSError)
    own = StoreError("own", reason=EdgeReason.LOCKED)
    with pytest.raises(StoreError) as again, store_errors():
        raise own
    assert again.value is own
