"""Foreign exceptions of the database, mapped to ours in this one place."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

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


class CorruptError(StoreError):
    """The file is not a database, or no longer one."""


def to_store_error(error: Exception) -> StoreError:
    """Return what a foreign exception means to us."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        # Errors that the binding raises itself, not SQLite, carry no code.
        code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY_CODE_MASK
        if code in _CORRUPT_CODES:
            return CorruptError(str(cause), reason=EdgeReason.PARSE)
        reason, retryable = _BY_SQLITE_CODE.get(code, (EdgeReason.OTHER, False))
        return StoreError(str(cause), reason=reason, retryable=retryable)
    if isinstance(error, OSError):
        return StoreError(str(error), reason=EdgeReason.GONE, retryable=True)
    return StoreError(str(error), reason=EdgeReason.OTHER)


@contextmanager
def store_errors() -> Iterator[None]:
    """Raise StoreError in place of what the database library, or the file system, raises."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        raise to_store_error(error) from error
