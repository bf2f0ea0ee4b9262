"""Statements on samples.db: scrapes in, scrapes out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, delete, func, insert, select

from ds4watch.history import sql
from ds4watch.history.codec import PackedRow, unpack_row
from ds4watch.history.sample_models import schemas as schemas_table
from ds4watch.history.sample_models import scrapes, targets
from ds4watch.history.schemas import digest_of, series_document, series_from
from ds4watch.model.errors import EdgeReason, StoreError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.scrape import ScrapeFailure, ScrapeResult, Target
from ds4watch.model.series import FloatArray, Schema

PRUNE_ROWS_PER_SLICE = 2000
NO_VALUES: FloatArray = np.empty(0, dtype=np.float64)


def milliseconds(at: UnixSeconds) -> int:
    """Return an instant as it is stored."""
    return round(at * 1000)


def insert_schemas(connection: Connection, schemas: Iterable[Schema]) -> None:
    """Store schemas under their numbers."""
    for schema in schemas:
        # It may be there: a commit may have succeeded although its answer was lost.
        row = {
            "id": schema.id,
            "digest": digest_of(schema.series),
            "series": series_document(schema.series),
        }
        sql.insert_new(connection, schemas_table, row)


def stored_schemas(connection: Connection) -> list[Schema]:
    """Return every stored schema."""
    return [
        Schema(row.id, series_from(row.series)) for row in connection.execute(select(schemas_table))
    ]


def insert_target(connection: Connection, target: Target) -> int:
    """Store a target and return its number."""
    inserted = connection.execute(
        insert(targets).values(name=target.name, url=target.url, labels=dict(target.labels))
    )
    (number,) = inserted.inserted_primary_key or (0,)
    return int(number)


def stored_targets(connection: Connection, name: str | None = None) -> dict[int, Target]:
    """Return the stored targets, or those of one name, by number."""
    query = select(targets) if name is None else select(targets).where(targets.c.name == name)
    return {
        row.id: Target(row.name, row.url, tuple(row.labels.items()))
        for row in connection.execute(query)
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
    }


def insert_scrapes(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """Store scrapes, in order."""
    connection.execute(insert(scrapes), rows)


def read_scrapes(
    connection: Connection, name: str, start_at: UnixSeconds, end_at: UnixSeconds
) -> list[ScrapeResult]:
    """Return the scrapes of a target with start_at <= at <= end_at, oldest first."""
    start_ms, end_ms = milliseconds(start_at), milliseconds(end_at)
    found: list[ScrapeResult] = []
    for target_id, target in stored_targets(connection, name).items():
        rows = connection.execute(
            select(scrapes)
            .where(
                scrapes.c.target_id == target_id,
                scrapes.c.id >= _keyframe_before(connection, target_id, start_ms),
                scrapes.c.at_ms <= end_ms,
            )
            .order_by(scrapes.c.id)
        )
        found += [
            result for result in _decoded(rows, target) if milliseconds(result.at) >= start_ms
        ]
    return sorted(found, key=lambda result: result.at)


def last_scrape(connection: Connection, name: str) -> ScrapeResult | None:
    """Return the newest scrape of a target, if there is one."""
    newest = connection.execute(
        select(func.max(scrapes.c.at_ms)).join(targets).where(targets.c.name == name)
    ).scalar()
    if newest is None:
        return None
    return read_scrapes(connection, name, newest / 1000, newest / 1000)[-1]


def target_ids(connection: Connection) -> list[int]:
    """Return the numbers of all targets."""
    return list(connection.scalars(select(targets.c.id)))


def expired_before(
    connection: Connection, target_id: int, before_at: UnixSeconds
) -> tuple[int, bool]:
    """Return the id under which a target's rows may be deleted, and whether those are all.

    Rows are kept from the last keyframe on that is not younger than `before_at`, so that what
    follows can be decoded. A target without younger rows loses all.
    """
    before_ms = milliseconds(before_at)
    newest_ms, newest_id = connection.execute(
        select(func.max(scrapes.c.at_ms), func.max(scrapes.c.id)).where(
            scrapes.c.target_id == target_id
        )
    ).one()
    if newest_ms is None or newest_ms < before_ms:
        return (newest_id or 0) + 1, True
    return _keyframe_before(connection, target_id, before_ms), False


def delete_slice(connection: Connection, target_id: int, cut_id: int) -> int:
    """Delete some rows of a target under `cut_id` and return how many."""
    old = (
        select(scrapes.c.id)
        .where(scrapes.c.target_id == target_id, scrapes.c.id < cut_id)
        .limit(PRUNE_ROWS_PER_SLICE)
    )
    return connection.execute(delete(scrapes).where(scrapes.c.id.in_(old))).rowcount


def delete_target_if_empty(connection: Connection, target_id: int) -> bool:
    """Delete a target without rows and return whether it went."""
    rows = select(scrapes.c.id).where(scrapes.c.target_id == target_id).exists()
    gone = connection.execute(delete(targets).where(targets.c.id == target_id, ~rows))
    return gone.rowcount > 0


def _keyframe_before(connection: Connection, target_id: int, at_ms: int) -> int:
    found = connection.execute(
        select(func.max(scrapes.c.id)).where(
            scrapes.c.target_id == target_id, scrapes.c.keyframe, scrapes.c.at_ms <= at_ms
        )
    ).scalar()
    return int(found or 0)


def _decoded(rows: Iterable[Row[Any]], target: Target) -> Iterator[ScrapeResult]:
    previous: FloatArray | None = None
    for row in rows:
        if row.payload is not None:
            try:
                previous = unpack_row(PackedRow(row.keyframe, row.payload), previous)
            except ValueError as error:
                message = f"scrape {row.id} of {target.name}: {error}"
                raise StoreError(message, reason=EdgeReason.PARSE) from error
        failure = None
        if row.failure is not None:
            failure = ScrapeFailure(EdgeReason(row.failure), row.message or "")
        yield ScrapeResult(
            target=target,
            at=row.at_ms / 1000,
            schema_id=row.schema_id,
            values=NO_VALUES if failure or previous is None else previous,
            failure=failure,
            took_seconds=row.took_ms / 1000,
        )
