"""Statements on samples.db: what is too old, what nothing refers to, and both of them gone.

Looking is for readers; what deletes looks once more only where something may have changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Row,
    Table,
    and_,
    delete,
    func,
    select,
)

from ds4watch.history.sample_models import chunks, rollups, scrapes, targets
from ds4watch.history.sample_models import schemas as schemas_table
from ds4watch.history.sample_rows import Span
from ds4watch.history.sweep import live, mark

SLICE_BYTES = 1 << 20
"""Payloads deleted at once: some hundred pages to be freed."""
_MOST_PARTS = 50


@dataclass(frozen=True, slots=True)
class Kind:
    """What is deleted: chunks, or the roll-ups of one resolution. `unit` is what is counted."""

    table: Table
    unit: Column[int]
    resolution_seconds: int | None = None

    def old(self, before_ms: int) -> ColumnElement[bool]:
        """Return the condition for what ends before an instant."""
        too_old = self.table.c.end_ms < before_ms
        if self.resolution_seconds is None:
            return too_old
        return and_(self.table.c.resolution_seconds == self.resolution_seconds, too_old)


CHUNKS = Kind(chunks, chunks.c.rows)


def rollups_of(resolution_seconds: int) -> Kind:
    """Return the roll-ups of one resolution."""
    return Kind(rollups, rollups.c.buckets, resolution_seconds)


@dataclass(frozen=True, slots=True)
class Expiry:
    """Raw scrapes of a target up to `last_id` are too old; `rows` says how many those are.

    newest_id: that of the target's newest row, where that is too old as well.
    """

    target_id: int
    last_id: int
    rows: int
    newest_id: int | None


def targets_with_old(connection: Connection, kind: Kind, before_ms: int) -> list[int]:
    """Return the targets that have something older than an instant."""
    mine = kind.table.c.target_id == targets.c.id
    some = select(kind.table.c.id).where(mine, kind.old(before_ms)).exists()
    return list(connection.scalars(select(targets.c.id).where(some)))


def delete_old(connection: Connection, kind: Kind, target_id: int, before_ms: int) -> int:
    """Delete some of what a target has from before an instant; return how many units."""
    table = kind.table
    query = (
        select(table.c.id, kind.unit.label("units"), table.c.payload_bytes)
        .where(table.c.target_id == target_id, kind.old(before_ms))
        .order_by(table.c.end_ms)
        .limit(_MOST_PARTS)
    )
    old = list(_slice(connection.execute(query).all()))
    connection.execute(delete(table).where(table.c.id.in_([row.id for row in old])))
    return sum(row.units for row in old)


def expiry(connection: Connection, target_id: int, before_ms: int) -> Expiry:
    """Return which raw scrapes of a target are too old.

    Rows are kept from the last keyframe on that is not younger than the instant, so that what
    follows can be decoded. A target without younger rows loses all.
    """
    newest = select(scrapes.c.id).where(live(target_id), scrapes.c.at_ms >= before_ms)
    newest_id: int | None = None
    if connection.execute(newest.order_by(scrapes.c.id.desc()).limit(1)).first() is None:
        newest_id = newest_row(connection, target_id)
        last_id = newest_id or 0
    else:
        keyframe = select(func.max(scrapes.c.id)).where(
            live(target_id), scrapes.c.keyframe, scrapes.c.at_ms <= before_ms
        )
        last_id = (connection.execute(keyframe).scalar() or 0) - 1
    old = select(func.count()).where(live(target_id), scrapes.c.id <= last_id)
    return Expiry(target_id, last_id, connection.execute(old).scalar_one(), newest_id)


def expire(connection: Connection, found: Expiry) -> bool:
    """Let raw scrapes go; return whether that was done.

    It is not where all were too old but newer ones have come in, which may stand on them.
    """
    if found.newest_id is not None and newest_row(connection, found.target_id) != found.newest_id:
        return False
    mark(connection, found.target_id, found.last_id)
    return True


def newest_row(connection: Connection, target_id: int) -> int | None:
    """Return the id of a target's newest raw scrape."""
    newest = select(scrapes.c.id).where(live(target_id)).order_by(scrapes.c.id.desc()).limit(1)
    return connection.execute(newest).scalar()


def empty_targets(connection: Connection) -> list[int]:
    """Return the targets of which nothing is left."""
    return list(connection.scalars(select(targets.c.id).where(*_nothing_left())))


def delete_target_if_empty(connection: Connection, target_id: int) -> bool:
    """Delete a target of which nothing is left and return whether it went."""
    gone = connection.execute(delete(targets).where(targets.c.id == target_id, *_nothing_left()))
    return gone.rowcount > 0


def folded_schemas(connection: Connection, among: Sequence[int]) -> set[int]:
    """Return which of the schemas a chunk or roll-up has."""
    found: set[int] = set()
    for table in (chunks, rollups):
        query = select(table.c.schema_id).where(table.c.schema_id.in_(among)).distinct()
        found.update(connection.scalars(query))
    return found


def raw_schemas(connection: Connection, span: Span) -> set[int]:
    """Return the schemas that raw scrapes of some targets have."""
    query = select(scrapes.c.schema_id).where(scrapes.c.target_id.between(*span))
    return set(connection.scalars(query.distinct()))


def delete_schemas(connection: Connection, schema_ids: Sequence[int]) -> None:
    """Delete schemas that nothing refers to."""
    connection.execute(delete(schemas_table).where(schemas_table.c.id.in_(schema_ids)))


def _slice(rows: Sequence[Row[Any]]) -> Iterator[Row[Any]]:
    """Yield the first row, and those after it that a slice has room for."""
    size = 0
    for row in rows:
        if size and size + row.payload_bytes > SLICE_BYTES:
            return
        size += row.payload_bytes
        yield row


def _nothing_left() -> list[ColumnElement[bool]]:
    return [
        ~select(table.c.id).where(table.c.target_id == targets.c.id).exists()
        for table in (scrapes, chunks, rollups)
    ]
