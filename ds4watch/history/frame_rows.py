"""Statements on samples.db: frames of targets, out of chunks and raw scrapes.

A start reads those of all targets: so it is many targets at once, and raw rows come straight from
the driver.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile

import numpy as np
from sqlalchemy import Connection, Dialect, Integer, bindparam, select
from sqlalchemy.sql.compiler import SQLCompiler

from ds4watch.history.chunk_codec import Scrapes
from ds4watch.history.chunk_reading import Reading, whole_chunks
from ds4watch.history.frames import FailedScrape, Pick, StoredFrame
from ds4watch.history.sample_models import chunks, scrapes
from ds4watch.history.sample_rows import RAW_COLUMNS, RawRows, runs, target_of, targets_named
from ds4watch.model.scrape import Target
from ds4watch.model.series import Schema

_Part = tuple[Schema, Scrapes]

_IDS = bindparam("target_ids", type_=Integer, expanding=True)
# In the order of their ids only afterwards: a database would carry the payloads along.
_CHUNKS = (
    select(chunks)
    .where(chunks.c.target_id.in_(_IDS))
    .where(chunks.c.end_ms >= bindparam("start_ms"), chunks.c.start_ms <= bindparam("end_ms"))
)
# Marked ones with the rest, for then the index of keyframes has all of it.
_KEYFRAMES = (
    select(scrapes.c.target_id, scrapes.c.id, scrapes.c.at_ms)
    .where(scrapes.c.target_id.in_(_IDS), scrapes.c.keyframe)
    .order_by(scrapes.c.target_id, scrapes.c.at_ms)
)
_RAW = (
    select(*RAW_COLUMNS)
    .where(scrapes.c.target_id == bindparam("target_id"))
    .where(scrapes.c.id >= bindparam("first_id"), scrapes.c.id < bindparam("end_id"))
    .order_by(scrapes.c.id)
)
_BEYOND_ALL = (1 << 63) - 1


def read_frames(
    connection: Connection, names: Sequence[str], start_ms: int, end_ms: int, reading: Reading
) -> dict[str, list[StoredFrame]]:
    """Return the frames of targets with start <= at <= end, by their names as they are stored.

    Those of each by their first scrapes.
    """
    stored = {row.id: row for row in targets_named(connection, names)}
    marks = {target_id: row.folded_id for target_id, row in stored.items()}
    folded = _chunk_parts(connection, list(stored), start_ms, end_ms, reading)
    begins = _keyframes(connection, marks)
    found: defaultdict[str, list[StoredFrame]] = defaultdict(list)
    for target_id, row in stored.items():
        target = target_of(row)
        first_id, end_id = _ends(begins.get(target_id, ()), start_ms, end_ms)
        rows = _raw(connection, target_id, max(first_id, marks[target_id] + 1), end_id)
        parts = [*folded.get(target_id, ()), *_raw_parts(target_id, rows, reading)]
        found[target.name] += _frames(target, parts, start_ms, end_ms, reading.pick)
    return {name: sorted(frames, key=_first_at) for name, frames in found.items()}


def _first_at(frame: StoredFrame) -> float:
    return frame.first_at


def _chunk_parts(
    connection: Connection, target_ids: list[int], start_ms: int, end_ms: int, reading: Reading
) -> Mapping[int, list[_Part]]:
    """Return what chunks hold, by target."""
    given = {"target_ids": target_ids, "start_ms": start_ms, "end_ms": end_ms}
    rows = sorted(connection.execute(_CHUNKS, given).all(), key=lambda row: int(row.id))
    found: defaultdict[int, list[_Part]] = defaultdict(list)
    for row, part in zip(rows, whole_chunks(rows, reading), strict=True):
        if part is not None:
            found[row.target_id].append(part)
    return found


def _keyframes(
    connection: Connection, marks: Mapping[int, int]
) -> Mapping[int, list[tuple[int, int]]]:
    """Return ids and times of keyframes, by target, in the order in which they were stored."""
    found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for target_id, row_id, at_ms in connection.execute(_KEYFRAMES, {"target_ids": list(marks)}):
        if row_id > marks[target_id]:
            found[target_id].append((row_id, at_ms))
    for begins in found.values():
        begins.sort()
    return found


def _ends(begins: Sequence[tuple[int, int]], start_ms: int, end_ms: int) -> tuple[int, int]:
    """Return the first id to read and the one after the last: all from start to end, and more.

    They are keyframes, for a row can be read only with all before it.
    """
    before = takewhile(lambda one: one[1] <= start_ms, begins)
    after = takewhile(lambda one: one[1] > end_ms, reversed(begins))
    first_id = max((row_id for row_id, _ in before), default=0)
    return first_id, min((row_id for row_id, _ in after), default=_BEYOND_ALL)


def _raw(connection: Connection, target_id: int, first_id: int, end_id: int) -> RawRows:
    given = {"target_id": target_id, "first_id": first_id, "end_id": end_id}
    statement, names = _raw_statement(connection.dialect)
    values = given if names is None else tuple(given[name] for name in names)
    return RawRows.of(connection.exec_driver_sql(statement, values).all())


@lru_cache(maxsize=4)
def _raw_statement(dialect: Dialect) -> tuple[str, Sequence[str] | None]:
    """Return the query for raw scrapes, and the order of its parameters if they have no names."""
    compiled = _RAW.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    return str(compiled), compiled.positiontup


def _raw_parts(target_id: int, rows: RawRows, reading: Reading) -> Iterator[_Part]:
    try:
        yield from runs(rows, reading.schema_of, reading.pick)
    except ValueError as error:
        reading.damaged(f"scrapes of target {target_id} are left out: {error}")


def _frames(
    target: Target, parts: Iterable[_Part], start_ms: int, end_ms: int, pick: Pick
) -> Iterator[StoredFrame]:
    for schema, part in parts:
        frame = _cut(_frame(target, schema, part, pick), start_ms / 1000, end_ms / 1000)
        if len(frame.times) or frame.failures:
            yield frame


def _frame(target: Target, schema: Schema, part: Scrapes, pick: Pick) -> StoredFrame:
    good = part.good
    places = pick(schema)
    times = part.times_ms / 1000
    took_seconds = part.took_ms / 1000
    return StoredFrame(
        target=target,
        schema=schema,
        columns=np.arange(len(schema.series)) if places is None else places,
        times=times[good],
        values=part.values,
        took_seconds=took_seconds[good],
        page_samples=part.page_samples[good],
        failures=tuple(
            FailedScrape(float(times[place]), float(took_seconds[place]), why)
            for place, why in part.failures.items()
        ),
    )


def _cut(frame: StoredFrame, start_at: float, end_at: float) -> StoredFrame:
    inside = (frame.times >= start_at) & (frame.times <= end_at)
    failures = tuple(one for one in frame.failures if start_at <= one.at <= end_at)
    if inside.all() and len(failures) == len(frame.failures):
        return frame
    return StoredFrame(
        target=frame.target,
        schema=frame.schema,
        columns=frame.columns,
        times=frame.times[inside],
        values=frame.values[inside],
        took_seconds=frame.took_seconds[inside],
        page_samples=frame.page_samples[inside],
        failures=failures,
    )
