"""Column types: instants that people can read, numbers that survive being NaN."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Integer, String
from sqlalchemy.dialects import sqlite
from sqlalchemy.types import TypeDecorator, TypeEngine

from ds4watch.model.ports import UnixSeconds

_ISO_UTC = (
    "%(year)04d-%(month)02d-%(day)02dT%(hour)02d:%(minute)02d:%(second)02d.%(microsecond)06dZ"
)

BigId = BigInteger().with_variant(Integer(), "sqlite")
"""A key that counts up by itself; SQLite does so for INTEGER only."""

Document = JSON
"""A JSON object, readable with json_extract."""


class Instant(TypeDecorator[UnixSeconds]):
    """Unix seconds in Python, a UTC timestamp in the database (ISO text in SQLite)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the column type of this database."""
        if dialect.name == "sqlite":
            iso = sqlite.DATETIME(storage_format=_ISO_UTC)  # type: ignore[no-untyped-call] # theirs
            return dialect.type_descriptor(iso)
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: UnixSeconds | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Turn unix seconds into a UTC timestamp."""
        return None if value is None else datetime.fromtimestamp(value, UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> UnixSeconds | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Turn a UTC timestamp into unix seconds."""
        if value is None:
            return None
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()


class Number(TypeDecorator[float]):
    """A float as text: SQLite turns a NaN in a float column into NULL."""

    impl = String(32)
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Turn a float into its shortest exact text."""
        return None if value is None else repr(float(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> float | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Turn the text back."""
        return None if value is None else float(value)
