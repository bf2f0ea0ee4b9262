"""Statements on samples.db: targets, schemas and raw scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Dialect,
    bindparam,
    delete,
    func,
    insert,
    select,
)
from sqlalchemy.sql.compiler import SQLCompiler

from ds4watch.history import sql
from ds4watch.history.codec import PackedRow
from ds4watch.history.sample_models import chunks, rollups, scrapes, targets
from ds4watch.history.sample_models import schemas as schemas_table
from ds4watch.history.schemas import series_document, series_from
from ds4watch.history.sweep import live, mark
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.scrape import ScrapeResult, Target
from ds4watch.model.series import Schema

# Made once: to make it takes longer than to run it.
_TARGETS_NAMED = select(targets).where(targets.c.name == bindparam("name"))
_INSERTED = [column.name for column in scrapes.columns if not column.primary_key]


def milliseconds(at: UnixSeconds) -> int:
    """Return an instant as it is stored."""
    return round(at * 1000)


def insert_schemas(connection: Connection, schemas: Iterable[tuple[str, Schema]]) -> None:
    """Store schemas, each with its digest, under their numbers."""
    for digest, schema in schemas:
        # It may be there: a commit may have succeeded although its answer was lost.
        row = {"id": schema.id, "digest": digest, "series": series_document(schema.series)}
        sql.insert_new(connection, schemas_table, row)


def stored_schemas(connection: Connection) -> list[tuple[str, Schema]]:
    """Return every stored schema with its digest."""
    return [
        (row.digest, Schema(row.id, series_from(row.series)))
        for row in connection.execute(select(schemas_table))
    ]


def delete_schemas(connection: Connection, schema_ids: Sequence[int]) -> None:
    """Delete schemas that nothing refers to."""
    connection.execute(delete(schemas_table).where(schemas_table.c.id.in_(schema_ids)))


def insert_target(connection: Connection, target: Target) -> int:
    """Store a target and return its number."""
    inserted = connection.execute(
        insert(targets).values(
            name=target.name,
            url=target.url,
            labels=dict(target.labels),
            group_name=target.group,
        )
    )
    (number,) = inserted.inserted_primary_key or (0,)
    return int(number)


def stored_targets(connection: Connection, name: str | None = None) -> dict[int, Target]:
    """Return the stored targets, or those of one name, by number."""
    found = connection.execute(select(targets) if name is None else _TARGETS_NAMED, {"name": name})
    return {
        row.id: Target(row.name, row.url, tuple(row.labels.items()), row.group_name)
        for row in found
    }


def scrape_row(result: ScrapeResult, target_id: int, packed: PackedRow | None) -> dict[str, Any]:
    """Return the row of a scrape; `packed` is None for one that failed."""
    failure = result.failure
    return {
        "target_id": target_id,
        "at_ms": milliseconds(result.at),
        "took_ms": milliseconds(result.took_seconds),
        "schema_id": result.schema_id,
        "keyframe": packed is not None and packed.keyframe,
        "payload": None if packed is None else packed.payload,
        "failure": None if failure is None else failure.reason.value,
        "message": None if failure is None else failure.message,
        "page_samples": result.page_samples,
    }


def insert_scrapes(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Store scrapes, in order.

    Straight to the driver: Core's own way takes longer over the parameters than all else together.
    """
    statement, names = _insert_statement(connection.dialect)
    if names is None:
        connection.exec_driver_sql(statement, list(rows))
    else:
        values = [tuple([row[name] for name in names]) for row in rows]
        connection.exec_driver_sql(statement, values)


@lru_cache(maxsize=4)
def _insert_statement(dialect: Dialect) -> tuple[str, Sequence[str] | None]:
    """Return the INSERT for a scrape, and the order of its parameters if they have no names."""
    compiled = insert(scrapes).compile(dialect=dialect, column_keys=_INSERTED)
    assert isinstance(compiled, SQLCompiler)
    return str(compiled), compiled.positiontup


def last_at_ms(connection: Connection, name: str) -> int | None:
    """Return when the newest scrape of a target began, in a chunk or not."""
    raw = select(scrapes.c.at_ms).join(targets).where(targets.c.name == name)
    newest = connection.execute(raw.order_by(scrapes.c.id.desc()).limit(1)).scalar()
    if newest is None:
        folded = select(func.max(chunks.c.end_ms)).join(targets).where(targets.c.name == name)
        newest = connection.execute(folded).scalar()
    return None if newest is None else int(newest)


def target_ids(connection: Connection) -> list[int]:
    """Return the numbers of all targets."""
    return list(connection.scalars(select(targets.c.id)))


def expire(connection: Connection, target_id: int, before_at: UnixSeconds) -> tuple[int, bool]:
    """Let a target's old raw scrapes go; return how many, and whether those are all.

    Rows are kept from the last keyframe on that is not younger than `before_at`, so that what
    follows can be decoded. A target without younger rows loses all.
    """
    before_ms = milliseconds(before_at)
    newest_ms, newest_id = connection.execute(
        select(func.max(scrapes.c.at_ms), func.max(scrapes.c.id)).where(live(target_id))
    ).one()
    everything = newest_ms is None or newest_ms < before_ms
    last_id = newest_id or 0
    if not everything:
        keyframe = select(func.max(scrapes.c.id)).where(
            live(target_id), scrapes.c.keyframe, scrapes.c.at_ms <= before_ms
        )
        last_id = (connection.execute(keyframe).scalar() or 0) - 1
    old = select(func.count()).where(live(target_id), scrapes.c.id <= last_id)
    gone = connection.execute(old).scalar_one()
    mark(connection, target_id, last_id)
    return gone, everything


def empty_targets(connection: Connection) -> list[int]:
    """Return the targets of which nothing is left."""
    return list(connection.scalars(select(targets.c.id).where(*_nothing_left())))


def delete_target_if_empty(connection: Connection, target_id: int) -> bool:
    """Delete a target of which nothing is left and return whether it went."""
    gone = connection.execute(delete(targets).where(targets.c.id == target_id, *_nothing_left()))
    return gone.rowcount > 0


def _nothing_left() -> list[ColumnElement[bool]]:
    return [
        ~select(table.c.id).where(table.c.target_id == targets.c.id).exists()
        for table in (scrapes, chunks, rollups)
    ]
