"""What chunks hold, many of them at once; what is damaged is left out, and told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Row

from ds4watch.history.chunk_codec import Scrapes, checks_itself, checksum, unpack_chunks
from ds4watch.history.frames import Pick, SchemaOf
from ds4watch.history.sample_rows import known
from ds4watch.history.strip_reading import Payload
from ds4watch.model.series import Schema

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A chunk as it is stored; `payload` may be read when it is asked for."""

    id: int
    target_id: int
    schema_id: int
    end_ms: int
    rows: int
    checksum: int
    payload: Payload


@dataclass(frozen=True, slots=True)
class Reading:
    """How one read goes about: `damaged` is called for each part that had to be left out.

    times_only: how long scrapes took, and how many samples they had, is not read.
    partly: of chunks that check themselves only what is read is looked at.
    """

    schema_of: SchemaOf
    pick: Pick
    damaged: Callable[[str], None]
    times_only: bool = False
    partly: bool = False


def whole(kind: str, row: Row[Any], reading: Reading, unpack: Callable[[Row[Any]], T]) -> T | None:
    """Return what a chunk or roll-up holds, or None, told, where it is damaged."""
    try:
        _check_sum(row)
        return unpack(row)
    except ValueError as error:
        reading.damaged(f"{kind} {row.id} is left out: {error}")
        return None


def whole_chunks(
    rows: Sequence[ChunkRow | Row[Any]], reading: Reading
) -> list[tuple[Schema, Scrapes] | None]:
    """Return what chunks hold, None where one is damaged."""
    found: list[tuple[Schema, Scrapes] | None] = [None] * len(rows)
    by_schema: defaultdict[int, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        try:
            if not (reading.partly and checks_itself(row.payload)):
                _check_sum(row)
            known(reading.schema_of, row.schema_id)
        except ValueError as error:
            reading.damaged(f"chunk {row.id} is left out: {error}")
        else:
            by_schema[row.schema_id].append(place)
    for schema_id, places in by_schema.items():
        schema = known(reading.schema_of, schema_id)
        pick = reading.pick(schema)
        payloads = [rows[place].payload for place in places]
        parts = unpack_chunks(payloads, pick, times_only=reading.times_only)
        width = len(schema.series if pick is None else pick)
        for place, part in zip(places, parts, strict=True):
            row = rows[place]
            try:
                found[place] = schema, _fitting(part, row.rows, width)
            except ValueError as error:
                reading.damaged(f"chunk {row.id} is left out: {error}")
    return found


def _check_sum(row: ChunkRow | Row[Any]) -> None:
    if checksum(row.payload[: len(row.payload)]) != row.checksum:
        message = "its checksum is wrong"
        raise ValueError(message)


def _fitting(part: Scrapes | ValueError, rows: int, width: int) -> Scrapes:
    if isinstance(part, ValueError):
        raise part
    if len(part.times_ms) != rows:
        message = f"{len(part.times_ms)} scrapes where {rows} were"
        raise ValueError(message)
    if part.values.shape[1] != width:
        message = f"{part.values.shape[1]} series where its schema has others"
        raise ValueError(message)
    return part
