"""Folding: raw scrapes of a target to chunks, and to minutes.

A batch is read and packed beside the writer; then one short transaction puts the result in the
place of what it was made of. It is refused, and nothing changes, if that has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from ds4watch.history.chunk_rows import chunk_row, insert_folded, rollup_row
from ds4watch.history.codec import SLOT_MS
from ds4watch.history.frames import NO_SCHEMA, Pick, SchemaOf
from ds4watch.history.rollup import last_values, summarise
from ds4watch.history.sample_models import rollups, scrapes, targets
from ds4watch.history.sample_rows import RawRows, Span, keyframes, known, raw_slice, runs
from ds4watch.history.settle import MINUTE_SECONDS, whole_parts
from ds4watch.history.sweep import live, mark
from ds4watch.model.errors import EdgeReason, StoreError
from ds4watch.model.series import FloatArray, Schema, SeriesKey

FOLD_BYTES = 1 << 20
"""Raw scrapes of a target beyond this are folded before their time."""
_GRACE_MS = 30_000
"""A scrape that began in a slot is stored by then."""
_EVERYTHING = Pick(None)
_GOLDEN_RATIO = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True)
class FoldReport:
    """What one pass did. `failures` says, for each target left as it was, why."""

    chunks: int = 0
    rows: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    settled: int = 0
    joined: int = 0
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Carry:
    """The last value of each series of a target: of its newest schema, and those gone since."""

    schema: Schema = NO_SCHEMA
    values: FloatArray = field(default_factory=lambda: np.empty(0))
    others: Mapping[SeriesKey, float] = field(default_factory=dict)

    def of(self, schema: Schema) -> FloatArray:
        """Return the last values of the series of a schema, NaN where there is none."""
        if schema.id == self.schema.id:
            return self.values
        known_values = self._all()
        return np.array([known_values.get(key, np.nan) for key in schema.series], dtype=np.float64)

    def then(self, schema: Schema, values: FloatArray) -> Carry:
        """Return the carry after a run of `schema`."""
        others = self.others if schema.id == self.schema.id else self._all()
        return Carry(schema, values, others)

    def _all(self) -> dict[SeriesKey, float]:
        own = zip(self.schema.series, self.values.tolist(), strict=True)
        return {**self.others, **{key: value for key, value in own if value == value}}  # noqa: PLR0124 - NaN


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows `first_id` to `last_id` of a target, folded."""

    target_id: int
    first_id: int
    last_id: int
    rows: int
    bytes_before: int
    chunk_rows: Sequence[dict[str, Any]]
    rollup_rows: Sequence[dict[str, Any]]
    carry: Carry


@dataclass(frozen=True, slots=True)
class Due:
    """Which slots are due. Targets fall due one after the other, so that none of it is a burst."""

    now_ms: int
    spread_ms: int

    @property
    def until_ms(self) -> int:
        """The end of the last slot that is complete."""
        return (self.now_ms - _GRACE_MS) // SLOT_MS * SLOT_MS

    @property
    def all_had_their_turn(self) -> bool:
        """Whether that slot is due for every target."""
        return self.now_ms - _GRACE_MS - self.spread_ms >= self.until_ms

    def until_of(self, target_id: int) -> int:
        """Return the end of the last slot that is due for a target."""
        return self.span_end(target_id, SLOT_MS, _GRACE_MS)

    def span_end(self, target_id: int, span_ms: int, grace_ms: int) -> int:
        """Return the end of the last span that is due for a target, spread as slots are."""
        # Multiples of the golden ratio are spread evenly, however many there are.
        spread_ms = self.spread_ms * span_ms // SLOT_MS
        delay_ms = round(target_id * _GOLDEN_RATIO % 1 * spread_ms)
        return (self.now_ms - grace_ms - delay_ms) // span_ms * span_ms


def raw_bytes(connection: Connection, span: Span) -> dict[int, int]:
    """Return the bytes of raw scrapes of each target of a span."""
    mine = scrapes.c.target_id.between(*span)
    query = select(scrapes.c.target_id, func.sum(scrapes.c.payload_bytes))
    query = query.join(targets).where(mine, scrapes.c.id > targets.c.folded_id)
    found = connection.execute(query.group_by(scrapes.c.target_id))
    return {target_id: int(size or 0) for target_id, size in found}


def read_batch(
    connection: Connection,
    target_id: int,
    until_ms: int,
    *,
    carry: Carry | None,
    schema_of: SchemaOf,
    early: bool,
) -> Batch | None:
    """Read and fold up to a slot of a target; None if nothing is due.

    early: take all up to the newest keyframe. Raises StoreError if a scrape cannot be read.
    """
    if early:
        cut_id = max((row_id for row_id, _ in keyframes(connection, target_id)), default=None)
    else:
        cut_id = _slot_end(connection, target_id, until_ms)
    if cut_id is None:
        return None
    rows = raw_slice(connection, target_id, end_id=cut_id)
    if not rows.ids:
        return None
    if carry is None:
        carry = _stored_carry(connection, target_id, schema_of)
    try:
        return _folded(target_id, rows, carry, schema_of)
    except ValueError as error:
        message = f"scrapes {rows.ids[0]} to {rows.ids[-1]} of target {target_id}: {error}"
        raise StoreError(message, reason=EdgeReason.PARSE) from error


def store_batch(connection: Connection, batch: Batch) -> bool:
    """Put chunks and roll-ups in the place of the rows; return whether good rows remain.

    Raises StoreError if the rows are no longer what was read, or others stand on them.
    """
    mine = live(batch.target_id)
    stored = connection.execute(
        select(func.count()).where(mine, scrapes.c.id.between(batch.first_id, batch.last_id))
    ).scalar_one()
    following = connection.execute(
        select(scrapes.c.keyframe)
        .where(mine, scrapes.c.id > batch.last_id, scrapes.c.payload.is_not(None))
        .order_by(scrapes.c.id)
        .limit(1)
    ).first()
    if stored != batch.rows or (following is not None and not following.keyframe):
        message = f"scrapes of target {batch.target_id} changed while they were folded"
        raise StoreError(message, reason=EdgeReason.OTHER, retryable=True)
    mark(connection, batch.target_id, batch.last_id)
    insert_folded(connection, batch.chunk_rows, batch.rollup_rows)
    return following is not None


def _slot_end(connection: Connection, target_id: int, until_ms: int) -> int | None:
    """Return the id before which the oldest slot of a target ends; None if it is not complete."""
    mine = live(target_id)
    oldest = select(scrapes.c.at_ms).where(mine).order_by(scrapes.c.id).limit(1)
    oldest_ms = connection.execute(oldest).scalar()
    if oldest_ms is None or oldest_ms >= until_ms:
        return None
    end_ms = min(until_ms, (oldest_ms // SLOT_MS + 1) * SLOT_MS)
    for row_id, at_ms in keyframes(connection, target_id):
        if at_ms >= end_ms:
            return row_id
    last = select(func.max(scrapes.c.id)).where(mine, scrapes.c.at_ms < end_ms)
    return int(connection.execute(last).scalar_one()) + 1


def _folded(target_id: int, rows: RawRows, carry: Carry, schema_of: SchemaOf) -> Batch:
    chunk_rows, rollup_rows = [], []
    for schema, part in runs(rows, schema_of, _EVERYTHING):
        chunk_rows.append(chunk_row(target_id, schema, part))
        if part.values.size:
            times_ms = part.times_ms[part.good]
            before = carry.of(schema)
            buckets, after = summarise(times_ms, part.values, before, 1000 * MINUTE_SECONDS)
            carry = carry.then(schema, after)
            row = rollup_row(target_id, schema.id, buckets, MINUTE_SECONDS, settled=False)
            rollup_rows.append(row)
    return Batch(
        target_id=target_id,
        first_id=rows.ids[0],
        last_id=rows.ids[-1],
        rows=len(rows.ids),
        bytes_before=sum(len(payload or b"") for payload in rows.payloads),
        chunk_rows=chunk_rows,
        rollup_rows=rollup_rows,
        carry=carry,
    )


def _stored_carry(connection: Connection, target_id: int, schema_of: SchemaOf) -> Carry:
    """Return the last values as far as the minutes tell, oldest schema first."""
    minutes = (rollups.c.target_id == target_id) & (rollups.c.resolution_seconds == MINUTE_SECONDS)
    newest = (
        select(rollups.c.schema_id, func.max(rollups.c.end_ms).label("end_ms"))
        .where(minutes)
        .group_by(rollups.c.schema_id)
        .subquery()
    )
    ends = (rollups.c.schema_id == newest.c.schema_id) & (rollups.c.end_ms == newest.c.end_ms)
    query = select(rollups).join(newest, ends).where(minutes)
    rows = connection.execute(query.order_by(rollups.c.end_ms, rollups.c.id)).all()
    parts, _ = whole_parts(rows)
    carry = Carry()
    for schema_id, buckets in parts:
        schema = known(schema_of, schema_id)
        carry = carry.then(schema, last_values(buckets, carry.of(schema)))
    return carry
