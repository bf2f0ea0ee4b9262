"""Column types: readable instants, numbers that survive being NaN, text that any engine takes."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Integer, String, Text
from sqlalchemy.dialects import sqlite
from sqlalchemy.types import TypeDecorator, TypeEngine

from ds4watch.model.ports import UnixSeconds

_ISO_UTC = (
    "%(year)04d-%(month)02d-%(day)02dT%(hour)02d:%(minute)02d:%(second)02d.%(microsecond)06dZ"
)
_DIGEST_SIGNS = 8

BigId = BigInteger().with_variant(Integer(), "sqlite")
"""A key that counts up by itself; SQLite does so for INTEGER only."""

Document = JSON
"""A JSON object, readable with json_extract or ->>."""


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


class Words(TypeDecorator[str]):
    """Text of any length; what PostgreSQL or UTF-8 cannot hold is replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Replace NUL and lone surrogates."""
        return None if value is None else _storable(value)


class Name(TypeDecorator[str]):
    """Text of a bounded length; a longer one ends in a digest, so that two never become one.

    PostgreSQL refuses what is too long for its column, SQLite stores it.
    """

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Replace what cannot be stored, and shorten."""
        return None if value is None else _clipped(_storable(value), self._limit())

    def _limit(self) -> int:
        length = getattr(self.impl, "length", None)
        assert isinstance(length, int)
        return length


def json_text(value: Any) -> str:
    """Return a value as JSON that both engines take: NaN and infinities become text."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value


def _storable(text: str) -> str:
    if "\0" not in text and text.isascii():
        return text
    # "?" in place of a lone surrogate, which UTF-8 does not have
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def _clipped(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_SIGNS]
    return f"{text[: limit - _DIGEST_SIGNS - 1]}~{digest}"
