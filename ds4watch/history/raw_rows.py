"""Raw scrapes out of the samples database, column by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import BigInteger, Connection, Integer, bindparam, select

from ds4watch.history.chunk_codec import Scrapes
from ds4watch.history.codec import unpack_rows
from ds4watch.history.frames import NO_SCHEMA, Pick, SchemaOf
from ds4watch.history.sample_models import scrapes
from ds4watch.history.sweep import live, mark_of
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import ScrapeFailure
from ds4watch.model.series import Schema

_COLUMNS = (
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
_RAW = (
    select(*_COLUMNS)
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

    def part(self, start: int, end: int) -> RawRows:
        """Return some of the rows."""
        if (start, end) == (0, len(self.ids)):
            return self
        columns: list[Any] = [column[start:end] for column in self]
        return RawRows(*columns)


def raw_rows(connection: Connection, target_id: int, start_ms: int, end_ms: int) -> RawRows:
    """Return all raw scrapes of a target from `start_ms` to `end_ms`, and some before and after.

    They begin and end at keyframes, for a row can be read only with all before it.
    """
    begins = keyframes(connection, target_id)
    before = takewhile(lambda one: one[1] <= start_ms, begins)
    after = takewhile(lambda one: one[1] > end_ms, reversed(begins))
    first_id = max((row_id for row_id, _ in before), default=0)
    end_id = min((row_id for row_id, _ in after), default=_BEYOND_ALL)
    return raw_between(connection, target_id, first_id, end_id)


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
    columns = list(zip(*connection.execute(_RAW, given).all(), strict=True))
    return RawRows(*columns) if columns else RawRows(*((),) * len(_COLUMNS))


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
