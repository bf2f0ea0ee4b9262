"""Joining: a target's chunks of ten minutes become one of an hour, and those one of six hours.

What is read over a day then lies in a tenth of the pieces, and in fewer bytes. As with folding, the
new chunk is made beside the writer, and one short transaction puts it in the place of the old ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select

from ds4watch.history.chunk_codec import Scrapes
from ds4watch.history.chunk_reading import Reading, whole_chunks
from ds4watch.history.chunk_rows import chunk_row
from ds4watch.history.frames import Pick, SchemaOf
from ds4watch.history.sample_models import chunks
from ds4watch.model.errors import EdgeReason, StoreError

SPANS_MS = (3_600_000, 21_600_000)
LONGEST_CHUNK_MS = SPANS_MS[-1] + SPANS_MS[0]
"""A piece begins and ends up to an hour beside its span: where its scrapes can be cut."""
WAIT_MS = 1_800_000
"""What rules look back on stays in small pieces, for a start to read no more than it needs."""
MOST_BYTES = 1 << 20
MOST_ROWS = 4096
"""So that a transaction stays short, and no step takes long."""

_CHUNKS = (
    select(
        chunks.c.id,
        chunks.c.schema_id,
        chunks.c.start_ms,
        chunks.c.end_ms,
        chunks.c.rows,
        chunks.c.payload_bytes,
    )
    .where(chunks.c.target_id == bindparam("target_id"))
    .where(chunks.c.end_ms >= bindparam("from_ms"), chunks.c.end_ms < bindparam("until_ms"))
    .order_by(chunks.c.end_ms, chunks.c.id)
)
_WHOLE = select(chunks).order_by(chunks.c.end_ms, chunks.c.id)
_TARGETS = (
    select(chunks.c.target_id)
    .group_by(chunks.c.target_id)
    .having(func.count() > 1)
    .order_by(chunks.c.target_id)
)


@dataclass(frozen=True, slots=True)
class Joining:
    """Chunks `ids` of a target as one; None if they stay as they are. `damaged` are some that do.

    end_ms: the end of the last of them.
    """

    ids: Sequence[int]
    damaged: Sequence[int]
    row: dict[str, Any] | None
    end_ms: int


def target_ids(connection: Connection) -> list[int]:
    """Return the targets that have several chunks; of others there is nothing to join."""
    return list(connection.execute(_TARGETS).scalars())


def read_joining(
    connection: Connection,
    target_id: int,
    span_ms: int,
    from_ms: int,
    until_ms: int,
    schema_of: SchemaOf,
) -> Joining | None:
    """Join the oldest chunks of a target that one span has several of; None if there are none."""
    given = {"target_id": target_id, "from_ms": from_ms, "until_ms": until_ms}
    run = _first_run(connection.execute(_CHUNKS, given).all(), span_ms)
    if not run:
        return None
    rows = connection.execute(_WHOLE.where(chunks.c.id.in_([row.id for row in run]))).all()
    return _joined(target_id, rows, schema_of)


def store_joining(connection: Connection, joining: Joining) -> None:
    """Put the joined chunk in the place of what it was made of."""
    gone = connection.execute(delete(chunks).where(chunks.c.id.in_(joining.ids)))
    if gone.rowcount != len(joining.ids):
        message = "chunks changed while they were joined"
        raise StoreError(message, reason=EdgeReason.OTHER, retryable=True)
    connection.execute(insert(chunks), joining.row)


def _first_run(rows: Sequence[Any], span_ms: int) -> list[Any]:
    """Return the first chunks, several of one span and schema, that are not too much together."""
    run: list[Any] = []
    for row in rows:
        if run and not _goes_on(run, row, span_ms):
            if len(run) > 1:
                return run
            run = []
        run.append(row)
    return run if len(run) > 1 else []


def _goes_on(run: Sequence[Any], row: Any, span_ms: int) -> bool:
    return bool(
        row.schema_id == run[-1].schema_id
        and row.end_ms // span_ms == run[-1].end_ms // span_ms
        # A clock was set back: what came later stays apart.
        and row.start_ms > run[-1].end_ms
        and sum(one.rows for one in run) + row.rows <= MOST_ROWS
        and sum(one.payload_bytes for one in run) + row.payload_bytes <= MOST_BYTES
    )


def _joined(target_id: int, rows: Sequence[Row[Any]], schema_of: SchemaOf) -> Joining:
    reading = Reading(schema_of, Pick(None), lambda _what: None)
    parts = whole_chunks(rows, reading)
    whole = [(row, part) for row, part in zip(rows, parts, strict=True) if part is not None]
    joined = None
    if len(whole) > 1:
        _, (schema, _) = whole[0]
        together = _concatenated([one for _, (_, one) in whole])
        joined = chunk_row(target_id, schema, together, lasting=True)
    return Joining(
        ids=[row.id for row, _ in whole],
        damaged=[row.id for row, part in zip(rows, parts, strict=True) if part is None],
        row=joined,
        end_ms=rows[-1].end_ms,
    )


def _concatenated(parts: Sequence[Scrapes]) -> Scrapes:
    starts = np.cumsum([0, *(len(part.times_ms) for part in parts)]).tolist()
    return Scrapes(
        times_ms=np.concatenate([part.times_ms for part in parts]),
        took_ms=np.concatenate([part.took_ms for part in parts]),
        page_samples=np.concatenate([part.page_samples for part in parts]),
        failures={
            start + place: why
            for start, part in zip(starts, parts, strict=False)
            for place, why in part.failures.items()
        },
        values=np.concatenate([part.values for part in parts]),
    )
