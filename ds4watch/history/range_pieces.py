"""Reads pieces of the stored past: the chunks of many targets, as many at once as fit."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from sqlalchemy import Connection, Integer, bindparam, func, select

from ds4watch.history.chunk_codec import Scrapes
from ds4watch.history.chunk_reading import ChunkRow, Reading, whole_chunks
from ds4watch.history.join import LONGEST_CHUNK_MS, SPANS_MS
from ds4watch.history.range_slabs import Piece, Slab, slab_of
from ds4watch.history.sample_models import chunks, scrapes, targets
from ds4watch.history.sample_rows import known, raw_between, runs
from ds4watch.model.series import Schema

SLAB_MS = SPANS_MS[-1]
"""What one piece of chunks spans."""
_TARGETS_AT_ONCE = 50
_CELLS_AT_ONCE = 1 << 17
"""Numbers decoded at once: what fits into the processor's cache."""
_BYTES_AT_ONCE = 32 << 20

_PLACES = (
    select(
        chunks.c.id,
        chunks.c.target_id,
        chunks.c.schema_id,
        chunks.c.end_ms,
        chunks.c.rows,
        chunks.c.checksum,
        chunks.c.payload_bytes,
    )
    .where(chunks.c.target_id.in_(bindparam("target_ids", type_=Integer, expanding=True)))
    .where(chunks.c.end_ms.between(bindparam("start_ms"), bindparam("end_ms")))
    # As the index has them: to sort them would mean to copy them.
    .order_by(chunks.c.target_id, chunks.c.end_ms, chunks.c.start_ms)
)
_PAYLOADS = select(chunks.c.id, chunks.c.payload)
_SLOT = (chunks.c.end_ms // SLAB_MS).label("slot")
_SLOTS = (
    select(
        chunks.c.target_id, _SLOT, func.count(), func.max(chunks.c.id), func.max(chunks.c.end_ms)
    )
    .where(chunks.c.end_ms.between(bindparam("start_ms"), bindparam("end_ms")))
    .group_by(chunks.c.target_id, _SLOT)
    .order_by(chunks.c.target_id, _SLOT)
)
_TAILS = (
    select(scrapes.c.target_id, func.count(), func.max(scrapes.c.id))
    .join(targets)
    .where(scrapes.c.id > targets.c.folded_id)
    .group_by(scrapes.c.target_id)
)
_Part = tuple[int, int, Schema, Scrapes]
"""End and id of a chunk, and what it holds."""


def stored_pieces(connection: Connection, start_ms: int, end_ms: int) -> dict[int, list[Piece]]:
    """Return what there is of each target from start to end, without reading it."""
    given = {
        # Whole slabs, so that what is kept does not depend on where a query begins.
        "start_ms": start_ms // SLAB_MS * SLAB_MS,
        "end_ms": (end_ms + LONGEST_CHUNK_MS) // SLAB_MS * SLAB_MS + SLAB_MS - 1,
    }
    pieces: dict[int, list[Piece]] = {}
    folded_ms: dict[int, int] = {}
    for target_id, slot, count, newest, until_ms in connection.execute(_SLOTS, given):
        folded_ms[target_id] = until_ms
        piece = Piece(target_id, int(slot), (count, newest))
        pieces.setdefault(target_id, []).append(piece)
    for target_id, count, newest in connection.execute(_TAILS):
        if folded_ms.get(target_id, 0) < end_ms:
            pieces.setdefault(target_id, []).append(Piece(target_id, None, (count, newest)))
    return pieces


def read_slabs(
    connection: Connection, pieces: Sequence[Piece], reading: Reading
) -> Iterator[tuple[Piece, Slab]]:
    """Yield what pieces hold; a caller that has enough may stop."""
    folded: defaultdict[int, list[Piece]] = defaultdict(list)
    for piece in pieces:
        if piece.slot is None:
            yield piece, _tail(connection, piece, reading)
        else:
            folded[piece.target_id].append(piece)
    target_ids = list(folded)
    for start in range(0, len(target_ids), _TARGETS_AT_ONCE):
        some = target_ids[start : start + _TARGETS_AT_ONCE]
        yield from _of_chunks(connection, {one: folded[one] for one in some}, reading)


def _of_chunks(
    connection: Connection, folded: dict[int, list[Piece]], reading: Reading
) -> Iterator[tuple[Piece, Slab]]:
    slots = {
        (target_id, piece.slot or 0): piece for target_id, mine in folded.items() for piece in mine
    }
    bounds = [slot for _, slot in slots]
    given = {
        "target_ids": list(folded),
        "start_ms": min(bounds) * SLAB_MS,
        "end_ms": max(bounds) * SLAB_MS + SLAB_MS - 1,
    }
    parts: defaultdict[tuple[int, int], list[_Part]] = defaultdict(list)
    rows = connection.execute(_PLACES, given).all()
    wanted = [row for row in rows if (row.target_id, row.end_ms // SLAB_MS) in slots]
    for batch in _batches(wanted, reading):
        with _with_payloads(connection, batch) as whole:
            parts_of_batch = whole_chunks(whole, reading)
        for row, part in zip(batch, parts_of_batch, strict=True):
            if part is not None:
                place = row.target_id, row.end_ms // SLAB_MS
                parts[place].append((row.end_ms, row.id, *part))
    for place, piece in slots.items():
        mine = sorted(parts[place], key=lambda part: part[:2])
        yield (
            piece,
            slab_of(
                ((schema, scrapes) for _, _, schema, scrapes in mine), own=not reading.times_only
            ),
        )


@contextmanager
def _with_payloads(connection: Connection, rows: Sequence[Any]) -> Iterator[list[ChunkRow]]:
    """Give chunks their payloads; of SQLite's, only what is asked for is read."""
    if connection.dialect.name != "sqlite":
        query = _PAYLOADS.where(chunks.c.id.in_([row.id for row in rows]))
        payloads = {row.id: row.payload for row in connection.execute(query)}
        yield [_chunk_row(row, payloads[row.id]) for row in rows]
        return
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    with ExitStack() as stack:
        blobs = [
            stack.enter_context(driver.blobopen("chunks", "payload", row.id, readonly=True))
            for row in rows
        ]
        yield [_chunk_row(row, blob) for row, blob in zip(rows, blobs, strict=True)]


def _chunk_row(row: Any, payload: Any) -> ChunkRow:
    return ChunkRow(
        id=row.id,
        target_id=row.target_id,
        schema_id=row.schema_id,
        end_ms=row.end_ms,
        rows=row.rows,
        checksum=row.checksum,
        payload=payload,
    )


def _batches(rows: Sequence[Any], reading: Reading) -> Iterator[list[Any]]:
    batch: list[Any] = []
    cells = size = 0
    for row in rows:
        batch.append(row)
        cells += row.rows * _width(row.schema_id, reading)
        size += row.payload_bytes
        if cells > _CELLS_AT_ONCE or size > _BYTES_AT_ONCE:
            yield batch
            batch, cells, size = [], 0, 0
    if batch:
        yield batch


def _width(schema_id: int, reading: Reading) -> int:
    try:
        picked = reading.pick(known(reading.schema_of, schema_id))
    except ValueError:
        return 0  # told when it is unpacked
    assert picked is not None
    return 1 + len(picked)


def _tail(connection: Connection, piece: Piece, reading: Reading) -> Slab:
    try:
        rows = raw_between(connection, piece.target_id)
        parts = runs(rows, reading.schema_of, reading.pick)
        return slab_of(parts, own=not reading.times_only)
    except ValueError as error:
        reading.damaged(f"scrapes of target {piece.target_id} are left out: {error}")
        return ()
