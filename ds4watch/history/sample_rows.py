"""Statements on samples.db: targets, schemas and raw scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import (
    BigInteger,
    Connection,
    Dialect,
    Integer,
    Row,
    bindparam,
    func,
    insert,
    select,
)
from sqlalchemy.sql.compiler import SQLCompiler

from ds4watch.history import sql
from ds4watch.history.chunk_codec import Scrapes
from ds4watch.history.codec import PackedRow, unpack_rows
from ds4watch.history.frames import NO_SCHEMA, Pick, SchemaOf
from ds4watch.history.sample_models import chunks, scrapes, targets
from ds4watch.history.sample_models import schemas as schemas_table
from ds4watch.history.schemas import series_document, series_from
from ds4watch.history.sweep import live, mark_of
from ds4watch.model.errors import EdgeReason
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.scrape import ScrapeFailure, ScrapeResult, Target
from ds4watch.model.series import Schema

RAW_COLUMNS = (
    scrapes.c.id,
    scrapes.c.at_ms,
    scrapes.c.took_ms,
    scrapes.c.page_samples,
    scrapes.c.schema_id,
    scrapes.c.keyframe,
    scrapes.c.payload,
    scrapes.c.failure,
    scrapes.c.message,
)
_TARGET = bindparam("target_id", type_=Integer)
# Made once: to make them takes longer than to run them.
_NAMED = select(targets).where(targets.c.name.in_(bindparam("names", expanding=True)))
_RAW = (
    select(*RAW_COLUMNS)
    .where(live(_TARGET), scrapes.c.id >= bindparam("first_id"))
    .where(scrapes.c.id < bindparam("end_id"))
    .order_by(scrapes.c.id)
    .limit(bindparam("most", type_=BigInteger))
)
# By time, and marked ones with the rest, for then SQLite takes the index of keyframes.
_KEYFRAMES = (
    select(scrapes.c.id, scrapes.c.at_ms, mark_of(_TARGET).label("marked_id"))
    .where(scrapes.c.target_id == _TARGET, scrapes.c.keyframe)
    .order_by(scrapes.c.at_ms)
)
_BEYOND_ALL = (1 << 63) - 1
_TARGETS_PER_SPAN = 10
_MOST_ROWS = 2000
_INSERTED = [column.name for column in scrapes.columns if not column.primary_key]


class RawRows(NamedTuple):
    """Raw scrapes column by column, in the order in which they were stored."""

    ids: Sequence[int]
    times_ms: Sequence[int]
    took_ms: Sequence[int]
    page_samples: Sequence[int | None]
    schema_ids: Sequence[int]
    keyframes: Sequence[bool]
    payloads: Sequence[Any]
    failures: Sequence[str | None]
    messages: Sequence[str | None]

    @classmethod
    def of(cls, rows: Sequence[Sequence[Any]]) -> RawRows:
        """Turn rows of RAW_COLUMNS into columns."""
        if not rows:
            return cls(*((),) * len(RAW_COLUMNS))
        columns: list[Any] = list(zip(*rows, strict=True))
        return cls(*columns)

    def part(self, start: int, end: int) -> RawRows:
        """Return some of the rows."""
        if (start, end) == (0, len(self.ids)):
            return self
        columns: list[Any] = [column[start:end] for column in self]
        return RawRows(*columns)


class Span(NamedTuple):
    """Targets, by number."""

    first_id: int
    last_id: int


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


def stored_targets(connection: Connection) -> dict[int, Target]:
    """Return the stored targets by number."""
    return {row.id: target_of(row) for row in connection.execute(select(targets))}


def targets_named(connection: Connection, names: Sequence[str]) -> Sequence[Row[Any]]:
    """Return the rows of the targets of these names; names that are too long were stored cut."""
    return connection.execute(_NAMED, {"names": list(names)}).all()


def target_of(row: Row[Any]) -> Target:
    """Return a target as it was stored."""
    return Target(row.name, row.url, tuple(row.labels.items()), row.group_name)


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
        "payload_bytes": 0 if packed is None else len(packed.payload),
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


def raw_between(
    connection: Connection,
    target_id: int,
    first_id: int = 0,
    end_id: int = _BEYOND_ALL,
    *,
    most: int = _BEYOND_ALL,
) -> RawRows:
    """Return the first raw scrapes of a target with first_id <= id < end_id."""
    given = {"target_id": target_id, "first_id": first_id, "end_id": end_id, "most": most}
    return RawRows.of(connection.execute(_RAW, given).all())


def raw_slice(
    connection: Connection, target_id: int, first_id: int = 0, end_id: int = _BEYOND_ALL
) -> RawRows:
    """Return the same, of very many only so many that nothing after them stands on them."""
    rows = raw_between(connection, target_id, first_id, end_id, most=_MOST_ROWS)
    if len(rows.ids) < _MOST_ROWS:
        return rows
    last = max((place for place, keyframe in enumerate(rows.keyframes) if keyframe), default=0)
    return rows.part(0, last or len(rows.ids))


def keyframes(connection: Connection, target_id: int) -> list[tuple[int, int]]:
    """Return the ids and times of a target's keyframes, in the order in which they were stored."""
    found = connection.execute(_KEYFRAMES, {"target_id": target_id}).all()
    return sorted((row_id, at_ms) for row_id, at_ms, marked_id in found if row_id > marked_id)


def runs(rows: RawRows, schema_of: SchemaOf, pick: Pick) -> Iterator[tuple[Schema, Scrapes]]:
    """Return raw scrapes in runs of one schema. Raises ValueError on bytes that nobody packed.

    A failed scrape belongs to the run that it falls in, at the start to the one that follows.
    """
    if not rows.ids:
        return
    good = np.array([failure is None for failure in rows.failures], dtype=np.bool_)
    numbers = np.array(rows.schema_ids, dtype=np.int64)
    latest = np.maximum.accumulate(np.where(good, np.arange(len(good)), -1))
    latest[latest < 0] = int(good.argmax())
    numbers = numbers[latest]
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(good)]
    for start, end in pairwise(edges):
        schema = NO_SCHEMA
        if good[start:end].any():
            schema = known(schema_of, int(numbers[start]))
        yield schema, _scrapes(rows.part(start, end), schema, pick)


def last_at_ms(connection: Connection, name: str) -> int | None:
    """Return when the newest scrape of a target began, in a chunk or not."""
    raw = select(scrapes.c.at_ms).join(targets).where(targets.c.name == name)
    newest = connection.execute(raw.order_by(scrapes.c.id.desc()).limit(1)).scalar()
    if newest is None:
        folded = select(func.max(chunks.c.end_ms)).join(targets).where(targets.c.name == name)
        newest = connection.execute(folded).scalar()
    return None if newest is None else int(newest)


def spans(connection: Connection) -> list[Span]:
    """Return all targets' numbers in spans, so few in each that a read of them is short."""
    numbers = list(connection.scalars(select(targets.c.id).order_by(targets.c.id)))
    parts = [
        numbers[start : start + _TARGETS_PER_SPAN]
        for start in range(0, len(numbers), _TARGETS_PER_SPAN)
    ]
    return [Span(part[0], part[-1]) for part in parts]


def oldest_ms(connection: Connection, before_ms: int) -> dict[int, int]:
    """Return when the first raw scrape of each target began, where that was before an instant."""
    oldest = (
        select(scrapes.c.at_ms)
        .where(scrapes.c.target_id == targets.c.id, scrapes.c.id > targets.c.folded_id)
        .order_by(scrapes.c.id)
        .limit(1)
        .scalar_subquery()
    )
    found = connection.execute(select(targets.c.id, oldest).where(oldest < before_ms))
    return {target_id: int(at_ms) for target_id, at_ms in found}


def known(schema_of: SchemaOf, schema_id: int) -> Schema:
    """Return a schema by its number. Raises ValueError if there is none."""
    if schema_id == NO_SCHEMA.id:
        return NO_SCHEMA
    try:
        return schema_of(schema_id)
    except KeyError as error:
        message = f"there is no schema {schema_id}"
        raise ValueError(message) from error


def _scrapes(rows: RawRows, schema: Schema, pick: Pick) -> Scrapes:
    failures = {
        place: ScrapeFailure(EdgeReason(reason), rows.messages[place] or "")
        for place, reason in enumerate(rows.failures)
        if reason is not None
    }
    keyframes, payloads = rows.keyframes, rows.payloads
    if failures:
        good = [place for place in range(len(rows.ids)) if place not in failures]
        keyframes = [keyframes[place] for place in good]
        payloads = [payloads[place] for place in good]
    return Scrapes(
        times_ms=np.array(rows.times_ms, dtype=np.int64),
        took_ms=np.array(rows.took_ms, dtype=np.int64),
        page_samples=np.array(
            [-1 if count is None else count for count in rows.page_samples], dtype=np.int64
        ),
        failures=failures,
        values=unpack_rows(keyframes, payloads, len(schema.series), pick(schema)),
    )
