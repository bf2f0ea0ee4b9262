"""Upserts that SQLite and PostgreSQL both understand."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Connection, Insert, Table
from sqlalchemy.dialects import sqlite

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql


def replace(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows; one whose primary key exists takes the place of the stored one."""
    _upsert(connection, table, rows, adding=False)


def add(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows; where the primary key exists, add the other columns to the stored ones."""
    _upsert(connection, table, rows, adding=True)


def insert_new(connection: Connection, table: Table, row: dict[str, Any]) -> bool:
    """Insert a row unless its primary key exists, and return whether it was inserted."""
    return connection.execute(_insert_new(connection.dialect.name, table), row).rowcount > 0


def _upsert(
    connection: Connection, table: Table, rows: Sequence[dict[str, Any]], *, adding: bool
) -> None:
    if rows:
        connection.execute(_upserting(connection.dialect.name, table, adding=adding), list(rows))


@lru_cache(maxsize=256)
def _insert_new(dialect: str, table: Table) -> Insert:
    keys = [column.name for column in table.primary_key]
    statement = _insert(dialect, table).on_conflict_do_nothing(index_elements=keys)
    return statement.execution_options(preserve_rowcount=True)


@lru_cache(maxsize=256)
def _upserting(dialect: str, table: Table, *, adding: bool) -> Insert:
    """Return the statement; building it takes longer than running it."""
    statement = _insert(dialect, table)
    new = statement.excluded
    changed = {
        column.name: column + new[column.name] if adding else new[column.name]
        for column in table.columns
        if not column.primary_key
    }
    keys = [column.name for column in table.primary_key]
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)


def _insert(dialect: str, table: Table) -> sqlite.Insert | postgresql.Insert:
    if dialect == "postgresql":
        # Loaded where it is used: it takes a while, and most have SQLite.
        module: Any = importlib.import_module("sqlalchemy.dialects.postgresql")
        return cast("postgresql.Insert", module.insert(table))
    return sqlite.insert(table)
