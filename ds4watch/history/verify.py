"""Whether everything stored can still be read, and how much there is of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Table, func, select

from ds4watch.history.chunk_rows import Reading, unpacked_chunk, unpacked_rollup, whole
from ds4watch.history.database import Database
from ds4watch.history.frames import Pick, SchemaOf
from ds4watch.history.sample_models import chunks, rollups, scrapes, targets
from ds4watch.history.sample_rows import known, raw_between, runs, stored_targets
from ds4watch.model.ports import UnixSeconds

Progress = Callable[[int, int], None]
"""Called with how many parts are done, and how many there are."""

_PARTS_PER_SLICE = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """Something stored that cannot be read: readers leave it out."""

    target: str
    message: str


@dataclass(frozen=True, slots=True)
class TargetStats:
    """What is stored of one target. `rows` are scrapes not folded yet, `bytes` counts payloads."""

    target: str
    first_at: UnixSeconds
    last_at: UnixSeconds
    rows: int
    chunks: int
    scrapes: int
    samples: int
    bytes: int
    rollup_bytes: int

    @property
    def bytes_a_sample(self) -> float:
        """Bytes for each stored sample, roll-ups aside."""
        return self.bytes / self.samples if self.samples else 0.0


async def verify(database: Database, schema_of: SchemaOf, progress: Progress) -> list[Finding]:
    """Read everything, in slices; `progress` is called after each."""
    names = {
        number: target.name for number, target in (await database.read(stored_targets)).items()
    }
    total = len(names) + sum([await database.read(_count, table) for table in (chunks, rollups)])
    found: list[Finding] = []
    done = 0
    for target_id, name in names.items():
        found += await database.read(_raw_findings, target_id, name, schema_of)
        done += 1
        progress(done, total)
    for table in (chunks, rollups):
        last_id = -(1 << 62)
        while part := await database.read(_slice, table, last_id, names, schema_of):
            rows, last_id, findings = part
            found += findings
            done += rows
            progress(done, max(done, total))
    return found


def read_stats(connection: Connection, schema_of: SchemaOf) -> list[TargetStats]:
    """Return what is stored of each target, by name."""
    by_name: dict[str, list[TargetStats]] = {}
    for one in (*_raw_stats(connection, schema_of), *_chunk_stats(connection)):
        by_name.setdefault(one.target, []).append(one)
    sizes = func.sum(func.length(rollups.c.payload))
    query = select(targets.c.name, sizes).join(targets).group_by(targets.c.name)
    rollup_bytes = {name: int(size) for name, size in connection.execute(query)}
    return [
        _added(name, parts, rollup_bytes.get(name, 0)) for name, parts in sorted(by_name.items())
    ]


def _count(connection: Connection, table: Table) -> int:
    return connection.execute(select(func.count()).select_from(table)).scalar_one()


def _raw_findings(
    connection: Connection, target_id: int, name: str, schema_of: SchemaOf
) -> list[Finding]:
    try:
        for _ in runs(raw_between(connection, target_id), schema_of, Pick(None)):
            pass
    except ValueError as error:
        return [Finding(name, f"scrapes not folded yet: {error}")]
    return []


def _slice(
    connection: Connection,
    table: Table,
    last_id: int,
    names: dict[int, str],
    schema_of: SchemaOf,
) -> tuple[int, int, list[Finding]] | None:
    query = select(table).where(table.c.id > last_id).order_by(table.c.id)
    rows = connection.execute(query.limit(_PARTS_PER_SLICE)).all()
    if not rows:
        return None
    found = [
        Finding(names.get(row.target_id, f"target {row.target_id}"), message)
        for row in rows
        for message in _damage(table, row, schema_of)
    ]
    return len(rows), rows[-1].id, found


def _damage(table: Table, row: Row[Any], schema_of: SchemaOf) -> list[str]:
    messages: list[str] = []
    reading = Reading(schema_of, Pick(None), messages.append)
    if table is chunks:
        whole("chunk", row, reading, lambda row: unpacked_chunk(row, reading))
    else:
        whole("roll-up", row, reading, lambda row: unpacked_rollup(row, reading))
    return messages


def _raw_stats(connection: Connection, schema_of: SchemaOf) -> Iterator[TargetStats]:
    good = func.count(scrapes.c.payload)
    size = func.sum(func.length(scrapes.c.payload))
    query = select(
        targets.c.name,
        scrapes.c.schema_id,
        *(func.min(scrapes.c.at_ms), func.max(scrapes.c.at_ms), func.count(), good, size),
    )
    query = query.join(targets).where(scrapes.c.id > targets.c.folded_id)
    grouped = query.group_by(targets.c.name, scrapes.c.schema_id)
    for name, schema_id, first_ms, last_ms, rows, with_values, stored in connection.execute(
        grouped
    ):
        columns = len(known(schema_of, schema_id).series) if with_values else 0
        yield TargetStats(
            target=name,
            first_at=first_ms / 1000,
            last_at=last_ms / 1000,
            rows=rows,
            chunks=0,
            scrapes=rows,
            samples=with_values * columns,
            bytes=int(stored or 0),
            rollup_bytes=0,
        )


def _chunk_stats(connection: Connection) -> Iterator[TargetStats]:
    sums = (chunks.c.rows, chunks.c.samples, func.length(chunks.c.payload))
    query = select(
        targets.c.name,
        *(func.min(chunks.c.start_ms), func.max(chunks.c.end_ms), func.count()),
        *(func.sum(column) for column in sums),
    )
    grouped = query.join(targets).group_by(targets.c.name)
    for name, first_ms, last_ms, count, rows, samples, stored in connection.execute(grouped):
        yield TargetStats(
            target=name,
            first_at=first_ms / 1000,
            last_at=last_ms / 1000,
            rows=0,
            chunks=count,
            scrapes=int(rows),
            samples=int(samples),
            bytes=int(stored),
            rollup_bytes=0,
        )


def _added(name: str, parts: Sequence[TargetStats], rollup_bytes: int) -> TargetStats:
    return TargetStats(
        target=name,
        first_at=min(part.first_at for part in parts),
        last_at=max(part.last_at for part in parts),
        rows=sum(part.rows for part in parts),
        chunks=sum(part.chunks for part in parts),
        scrapes=sum(part.scrapes for part in parts),
        samples=sum(part.samples for part in parts),
        bytes=sum(part.bytes for part in parts),
        rollup_bytes=rollup_bytes,
    )
