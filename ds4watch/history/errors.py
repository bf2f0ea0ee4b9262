"""Foreign exceptions of the database, mapped to ours in this one place."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from ds4watch.model.errors import EdgeReason, StoreError

_BY_SQLITE_CODE: dict[int, tuple[EdgeReason, bool]] = {
    sqlite3.SQLITE_BUSY: (EdgeReason.LOCKED, True),
    sqlite3.SQLITE_LOCKED: (EdgeReason.LOCKED, True),
    sqlite3.SQLITE_FULL: (EdgeReason.FULL, True),
    sqlite3.SQLITE_IOERR: (EdgeReason.GONE, True),
    sqlite3.SQLITE_CANTOPEN: (EdgeReason.GONE, True),
    sqlite3.SQLITE_READONLY: (EdgeReason.REFUSED, True),
    sqlite3.SQLITE_PERM: (EdgeReason.REFUSED, True),
}
_CORRUPT_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_PRIMARY_CODE_MASK = 0xFF

# SQLSTATE, whole or its class (the first two signs): PostgreSQL's documentation, Appendix A.
_BY_SQLSTATE: dict[str, EdgeReason] = {
    "08": EdgeReason.GONE,  # connection exception
    "25006": EdgeReason.REFUSED,  # read only: a standby
    "25P03": EdgeReason.GONE,  # idle in transaction for too long
    "28": EdgeReason.REFUSED,  # who we say we are
    "3D000": EdgeReason.REFUSED,  # no such database
    "40001": EdgeReason.LOCKED,
    "40P01": EdgeReason.LOCKED,  # deadlock
    "42501": EdgeReason.REFUSED,  # what we may do
    "53": EdgeReason.FULL,  # disk, memory
    "53300": EdgeReason.GONE,  # too many connections
    "55P03": EdgeReason.LOCKED,  # lock_timeout
    "57014": EdgeReason.TIMEOUT,  # statement_timeout
    "57P": EdgeReason.GONE,  # shutdown, crash, starting up, database dropped
    "58": EdgeReason.GONE,  # input/output
}
# A refused connection has no SQLSTATE. These, unlike a wrong password, pass by themselves.
_PASSING = ("the database system is", "too many", "connection slots")


@runtime_checkable
class _ServerError(Protocol):
    """psycopg.Error, by its looks: without a server its module is never loaded."""

    sqlstate: str | None
    diag: Any


class CorruptError(StoreError):
    """The file is not a database, or no longer one."""


def to_store_error(error: Exception) -> StoreError:
    """Return what a foreign exception means to us."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        return _of_sqlite(cause)
    if isinstance(cause, _ServerError):
        return _of_postgres(cause)
    if isinstance(error, OSError):
        return StoreError(str(error), reason=EdgeReason.GONE, retryable=True)
    return StoreError(str(error), reason=EdgeReason.OTHER)


@contextmanager
def store_errors(*more: type[Exception]) -> Iterator[None]:
    """Raise StoreError in place of what the database library, or the file system, raises.

    more: the base of what a server's driver raises.
    """
    foreign: tuple[type[Exception], ...] = (SQLAlchemyError, sqlite3.Error, OSError, *more)
    try:
        yield
    except foreign as error:
        raise to_store_error(error) from error


def _of_sqlite(cause: sqlite3.Error) -> StoreError:
    # Errors that the binding raises itself, not SQLite, carry no code.
    code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY_CODE_MASK
    if code in _CORRUPT_CODES:
        return CorruptError(str(cause), reason=EdgeReason.PARSE)
    reason, retryable = _BY_SQLITE_CODE.get(code, (EdgeReason.OTHER, False))
    return StoreError(str(cause), reason=reason, retryable=retryable)


def _of_postgres(cause: _ServerError) -> StoreError:
    message = " ".join((cause.diag.message_primary or str(cause)).split())
    reason = _reason_of(cause, message)
    return StoreError(message, reason=reason, retryable=reason is not EdgeReason.OTHER)


def _reason_of(cause: _ServerError, message: str) -> EdgeReason:
    if cause.sqlstate is not None:
        starts = (cause.sqlstate[:length] for length in (5, 3, 2))
        return next((_BY_SQLSTATE[it] for it in starts if it in _BY_SQLSTATE), EdgeReason.OTHER)
    kinds = {kind.__name__ for kind in type(cause).__mro__}
    if "ConnectionTimeout" in kinds:
        return EdgeReason.TIMEOUT
    if "OperationalError" not in kinds:
        return EdgeReason.OTHER
    was_answered = "FATAL:" in message
    passes = any(words in message for words in _PASSING)
    return EdgeReason.REFUSED if was_answered and not passes else EdgeReason.GONE
