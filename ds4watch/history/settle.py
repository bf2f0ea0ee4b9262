"""Settling: the minutes of an hour become one row, and an hour; the hours of a day one row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, update

from ds4watch.history.chunk_codec import checksum
from ds4watch.history.chunk_rows import insert_folded, rollup_row
from ds4watch.history.rollup import Buckets, merge, unpack_buckets
from ds4watch.history.sample_models import rollups, scrapes
from ds4watch.history.sweep import live
from ds4watch.model.errors import EdgeReason, StoreError

MINUTE_SECONDS = 60
HOUR_SECONDS = 3600
SPAN_MS = {MINUTE_SECONDS: 3_600_000, HOUR_SECONDS: 86_400_000}
"""What one settled row of a resolution holds."""


@dataclass(frozen=True, slots=True)
class Settling:
    """Roll-ups `ids` of a target, merged into `rows`; those `damaged` stay as they are."""

    ids: Sequence[int]
    damaged: Sequence[int]
    rows: Sequence[dict[str, Any]]


def oldest_ends(connection: Connection, resolution_seconds: int) -> dict[int, int]:
    """Return where the oldest span ends that each target has roll-ups of to settle."""
    span_ms = SPAN_MS[resolution_seconds]
    oldest = (
        select(rollups.c.target_id, func.min(rollups.c.start_ms))
        .where(rollups.c.resolution_seconds == resolution_seconds, ~rollups.c.settled)
        .group_by(rollups.c.target_id)
    )
    found = connection.execute(oldest)
    return {target_id: (start_ms // span_ms + 1) * span_ms for target_id, start_ms in found}


def read_settling(
    connection: Connection, target_id: int, resolution_seconds: int, until_ms: int
) -> Settling | None:
    """Merge the unsettled roll-ups of a target's oldest complete span; None if there is none."""
    span_ms = SPAN_MS[resolution_seconds]
    unsettled = select(rollups).where(
        rollups.c.resolution_seconds == resolution_seconds,
        rollups.c.target_id == target_id,
        ~rollups.c.settled,
    )
    rows = connection.execute(unsettled.order_by(rollups.c.start_ms, rollups.c.id)).all()
    if not rows:
        return None
    end_ms = (rows[0].start_ms // span_ms + 1) * span_ms
    if end_ms > until_ms or _is_open(connection, target_id, resolution_seconds, end_ms):
        return None
    mine = [row for row in rows if row.start_ms < end_ms]
    parts, damaged = whole_parts(mine)
    merged = list(_settled(target_id, parts, resolution_seconds))
    whole_ids = [row.id for row in mine if row.id not in damaged]
    return Settling(whole_ids, damaged, merged)


def store_settling(connection: Connection, settling: Settling) -> None:
    """Put merged roll-ups in the place of what they were made of."""
    gone = connection.execute(delete(rollups).where(rollups.c.id.in_(settling.ids)))
    if gone.rowcount != len(settling.ids):
        message = "roll-ups changed while they were merged"
        raise StoreError(message, reason=EdgeReason.OTHER, retryable=True)
    connection.execute(
        update(rollups).where(rollups.c.id.in_(settling.damaged)).values(settled=True)
    )
    insert_folded(connection, (), settling.rows)


def whole_parts(rows: Sequence[Row[Any]]) -> tuple[list[tuple[int, Buckets]], list[int]]:
    """Return what roll-ups hold, with their schemas, and the ids of those that are damaged."""
    parts, damaged = [], []
    for row in rows:
        if checksum(row.payload) != row.checksum:
            damaged.append(row.id)
            continue
        try:
            parts.append((row.schema_id, unpack_buckets(row.payload)))
        except ValueError:
            damaged.append(row.id)
    return parts, damaged


def _is_open(connection: Connection, target_id: int, resolution_seconds: int, end_ms: int) -> bool:
    """Return whether something that belongs before `end_ms` is still to come."""
    if resolution_seconds == MINUTE_SECONDS:
        query = select(scrapes.c.id).where(live(target_id), scrapes.c.at_ms < end_ms)
    else:
        query = select(rollups.c.id).where(
            rollups.c.resolution_seconds == MINUTE_SECONDS,
            rollups.c.target_id == target_id,
            ~rollups.c.settled,
            rollups.c.start_ms < end_ms,
        )
    return connection.execute(query.limit(1)).first() is not None


def _settled(
    target_id: int, parts: Sequence[tuple[int, Buckets]], resolution_seconds: int
) -> Iterator[dict[str, Any]]:
    """Yield one row for each schema, and for minutes its hour."""
    by_schema: dict[int, list[Buckets]] = defaultdict(list)
    for schema_id, buckets in parts:
        by_schema[schema_id].append(buckets)
    for schema_id, mine in by_schema.items():
        one = merge(mine, 1000 * resolution_seconds)
        yield rollup_row(target_id, schema_id, one, resolution_seconds, settled=True)
        if resolution_seconds == MINUTE_SECONDS:
            hour = merge(mine, 1000 * HOUR_SECONDS)
            yield rollup_row(target_id, schema_id, hour, HOUR_SECONDS, settled=False)
