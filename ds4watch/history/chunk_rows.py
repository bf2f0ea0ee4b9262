"""Statements on samples.db: chunks and roll-ups."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, bindparam, insert, select

from ds4watch.history.chunk_codec import Scrapes, checksum, pack_chunk
from ds4watch.history.chunk_reading import Reading, whole
from ds4watch.history.frames import Pick, RollupFrame
from ds4watch.history.rollup import Buckets, merge, pack_buckets, unpack_buckets
from ds4watch.history.sample_models import chunks, rollups
from ds4watch.history.sample_rows import known, target_of, targets_named
from ds4watch.model.scrape import Target
from ds4watch.model.series import Schema

_log = logging.getLogger(__name__)

T = TypeVar("T")

_PARTS = ("_bucket", "_sum", "_count", "_total", "_created")
# Made once: to make them takes longer than to run them.
_ROLLUPS = (
    select(rollups)
    .where(rollups.c.target_id == bindparam("target_id"))
    .where(rollups.c.resolution_seconds == bindparam("resolution_seconds"))
    .where(rollups.c.end_ms >= bindparam("start_ms"), rollups.c.start_ms <= bindparam("end_ms"))
    .order_by(rollups.c.start_ms, rollups.c.id)
)


def chunk_row(
    target_id: int, schema: Schema, scrapes_of_run: Scrapes, *, lasting: bool = False
) -> dict[str, Any]:
    """Return the row of a chunk; see `pack_chunk` for `lasting`."""
    payload = pack_chunk(scrapes_of_run, strips_of(schema), lasting=lasting)
    return {
        "target_id": target_id,
        "schema_id": schema.id,
        "start_ms": int(scrapes_of_run.times_ms.min()),
        "end_ms": int(scrapes_of_run.times_ms.max()),
        "rows": len(scrapes_of_run.times_ms),
        "samples": scrapes_of_run.values.size,
        "checksum": checksum(payload),
        "payload_bytes": len(payload),
        "payload": payload,
    }


def strips_of(schema: Schema) -> NDArray[np.bool_]:
    """Return where on a page a strip begins: a metric, of a histogram all its parts."""
    families = [_family(key.name) for key in schema.series]
    begins = [one != before for one, before in zip(families, ["", *families], strict=False)]
    return np.array(begins, dtype=np.bool_)


def _family(name: str) -> str:
    for part in _PARTS:
        if name.endswith(part):
            return name[: -len(part)]
    return name


def rollup_row(
    target_id: int, schema_id: int, buckets: Buckets, resolution_seconds: int, *, settled: bool
) -> dict[str, Any]:
    """Return the row of a roll-up."""
    payload = pack_buckets(buckets)
    return {
        "target_id": target_id,
        "schema_id": schema_id,
        "resolution_seconds": resolution_seconds,
        "start_ms": int(buckets.starts_ms[0]),
        "end_ms": int(buckets.starts_ms[-1]) + 1000 * resolution_seconds,
        "buckets": len(buckets.starts_ms),
        "settled": settled,
        "checksum": checksum(payload),
        "payload_bytes": len(payload),
        "payload": payload,
    }


def insert_folded(
    connection: Connection,
    chunk_rows: Sequence[dict[str, Any]],
    rollup_rows: Sequence[dict[str, Any]],
) -> None:
    """Store chunks and roll-ups."""
    if chunk_rows:
        connection.execute(insert(chunks), list(chunk_rows))
    if rollup_rows:
        connection.execute(insert(rollups), list(rollup_rows))


def read_rollups(
    connection: Connection,
    name: str,
    resolution_seconds: int,
    start_ms: int,
    end_ms: int,
    reading: Reading,
) -> list[RollupFrame]:
    """Return the buckets of a target that begin in start <= … <= end; those of a schema as one."""
    found: list[RollupFrame] = []
    for row in targets_named(connection, [name]):
        parts: dict[int, list[Buckets]] = {}
        given = {
            "target_id": row.id,
            "start_ms": start_ms,
            "end_ms": end_ms,
            "resolution_seconds": resolution_seconds,
        }
        for stored in connection.execute(_ROLLUPS, given):
            unpacked = whole("roll-up", stored, reading, lambda one: unpacked_rollup(one, reading))
            if unpacked is not None:
                parts.setdefault(stored.schema_id, []).append(unpacked)
        for schema_id, buckets in parts.items():
            merged = merge(buckets, 1000 * resolution_seconds)
            schema = known(reading.schema_of, schema_id)
            found.append(
                _rollup_frame(target_of(row), schema, merged, start_ms, end_ms, reading.pick)
            )
    return sorted((one for one in found if len(one.starts_at)), key=lambda one: one.starts_at[0])


def unpacked_rollup(row: Row[Any], reading: Reading) -> Buckets:
    """Return what a roll-up holds. Raises ValueError where it is damaged."""
    schema = known(reading.schema_of, row.schema_id)
    pick = reading.pick(schema)
    buckets = unpack_buckets(row.payload, pick)
    if buckets.count.shape != (row.buckets, len(schema.series if pick is None else pick)):
        message = f"{buckets.count.shape} values where its schema has {len(schema.series)}"
        raise ValueError(message)
    return buckets


def _rollup_frame(
    target: Target, schema: Schema, buckets: Buckets, start_ms: int, end_ms: int, pick: Pick
) -> RollupFrame:
    inside: NDArray[np.bool_] = (buckets.starts_ms >= start_ms) & (buckets.starts_ms <= end_ms)
    places = pick(schema)
    tables = {
        field.name: getattr(buckets, field.name)[inside]
        for field in fields(Buckets)
        if field.name != "starts_ms"
    }
    return RollupFrame(
        target=target,
        schema=schema,
        columns=np.arange(len(schema.series)) if places is None else places,
        starts_at=buckets.starts_ms[inside] / 1000,
        **tables,
    )
