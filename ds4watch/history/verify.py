"""Whether everything stored can still be read, and how much there is of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Row, Table, case, func, select

from ds4watch.history.chunk_reading import Reading, whole, whole_chunks
from ds4watch.history.chunk_rows import unpacked_rollup
from ds4watch.history.frames import Pick, SchemaOf
from ds4watch.history.sample_models import chunks, rollups, scrapes, targets
from ds4watch.history.sample_rows import Span, known, raw_slice, runs, spans, stored_targets
from ds4watch.model.ports import UnixSeconds

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Called with how many parts are done, and how many there are."""

_PARTS_PER_SLICE = 20


class Reads(Protocol):
    """A database to read from, a transaction a call."""

    async def read(self, work: Callable[..., T], *arguments: Any) -> T:
        """Return what `work(connection, *arguments)` does. Raises StoreError."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something stored that cannot be read: readers leave it out."""

    target: str
    message: str


@dataclass(frozen=True, slots=True)
class TargetStats:
    """What is stored of one target. `rows` are scrapes not folded yet, `bytes` counts payloads.

    `first_at` and `last_at` are of scrapes: None where only roll-ups are left.
    """

    target: str
    first_at: UnixSeconds | None = None
    last_at: UnixSeconds | None = None
    rows: int = 0
    chunks: int = 0
    scrapes: int = 0
    samples: int = 0
    bytes: int = 0
    rollup_bytes: int = 0
    rollups_first_at: UnixSeconds | None = None
    rollups_end_at: UnixSeconds | None = None

    @property
    def bytes_a_sample(self) -> float:
        """Bytes for each stored sample, roll-ups aside."""
        return self.bytes / self.samples if self.samples else 0.0


async def verify(database: Reads, schema_of: SchemaOf, progress: Progress) -> list[Finding]:
    """Read everything, in slices; `progress` is called after each."""
    names = {
        number: target.name for number, target in (await database.read(stored_targets)).items()
    }
    total = len(names) + sum([await database.read(_count, table) for table in (chunks, rollups)])
    found: list[Finding] = []
    done = 0
    for target_id, name in names.items():
        first_id: int | None = 0
        while first_id is not None:
            first_id, findings = await database.read(
                _raw_findings, target_id, name, first_id, schema_of
            )
            found += findings
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


async def read_stats(database: Reads, schema_of: SchemaOf) -> list[TargetStats]:
    """Return what is stored of each target, by name; read in slices."""
    by_name: dict[str, list[TargetStats]] = {}
    for span in await database.read(spans):
        for one in await database.read(_stats, span, schema_of):
            by_name.setdefault(one.target, []).append(one)
    return [_added(name, parts) for name, parts in sorted(by_name.items())]


def _count(connection: Connection, table: Table) -> int:
    return connection.execute(select(func.count()).select_from(table)).scalar_one()


def _raw_findings(
    connection: Connection, target_id: int, name: str, first_id: int, schema_of: SchemaOf
) -> tuple[int | None, list[Finding]]:
    """Return where to go on, None at the end, and what cannot be read up to there."""
    rows = raw_slice(connection, target_id, first_id)
    if not rows.ids:
        return None, []
    try:
        for _ in runs(rows, schema_of, Pick(None)):
            pass
    except ValueError as error:
        return rows.ids[-1] + 1, [Finding(name, f"scrapes not folded yet: {error}")]
    return rows.ids[-1] + 1, []


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
        whole_chunks([row], reading)
    else:
        whole("roll-up", row, reading, lambda row: unpacked_rollup(row, reading))
    return messages


def _stats(connection: Connection, span: Span, schema_of: SchemaOf) -> list[TargetStats]:
    """Return parts of what is stored of some targets. All of it stands in the indices."""
    return [
        *_raw_stats(connection, span, schema_of),
        *_chunk_stats(connection, span),
        *_rollup_stats(connection, span),
    ]


def _raw_stats(connection: Connection, span: Span, schema_of: SchemaOf) -> Iterator[TargetStats]:
    good = func.sum(case((scrapes.c.payload_bytes > 0, 1), else_=0))
    query = select(
        targets.c.name,
        scrapes.c.schema_id,
        *(func.min(scrapes.c.at_ms), func.max(scrapes.c.at_ms), func.count(), good),
        func.sum(scrapes.c.payload_bytes),
    ).join(targets)
    query = query.where(scrapes.c.target_id.between(*span), scrapes.c.id > targets.c.folded_id)
    grouped = query.group_by(targets.c.id, scrapes.c.schema_id)
    for name, schema_id, *numbers in connection.execute(grouped):
        first_ms, last_ms, rows, with_values, size = map(int, numbers)
        columns = _width(schema_of, schema_id) if with_values else 0
        yield TargetStats(
            target=name,
            first_at=first_ms / 1000,
            last_at=last_ms / 1000,
            rows=rows,
            scrapes=rows,
            samples=with_values * columns,
            bytes=size,
        )


def _chunk_stats(connection: Connection, span: Span) -> Iterator[TargetStats]:
    sums = (chunks.c.rows, chunks.c.samples, chunks.c.payload_bytes)
    query = select(
        targets.c.name,
        *(func.min(chunks.c.start_ms), func.max(chunks.c.end_ms), func.count()),
        *(func.sum(column) for column in sums),
    ).join(targets)
    grouped = query.where(chunks.c.target_id.between(*span)).group_by(targets.c.id)
    for name, *numbers in connection.execute(grouped):
        first_ms, last_ms, count, rows, samples, size = map(int, numbers)
        yield TargetStats(
            target=name,
            first_at=first_ms / 1000,
            last_at=last_ms / 1000,
            chunks=count,
            scrapes=rows,
            samples=samples,
            bytes=size,
        )


def _rollup_stats(connection: Connection, span: Span) -> Iterator[TargetStats]:
    query = select(
        targets.c.name,
        func.min(rollups.c.start_ms),
        func.max(rollups.c.end_ms),
        func.sum(rollups.c.payload_bytes),
    ).join(targets)
    grouped = query.where(rollups.c.target_id.between(*span)).group_by(targets.c.id)
    for name, first_ms, end_ms, size in connection.execute(grouped):
        yield TargetStats(
            target=name,
            rollup_bytes=int(size),
            rollups_first_at=first_ms / 1000,
            rollups_end_at=end_ms / 1000,
        )


def _width(schema_of: SchemaOf, schema_id: int) -> int:
    try:
        return len(known(schema_of, schema_id).series)
    except ValueError:
        return 0  # `verify` tells of it


def _added(name: str, parts: Sequence[TargetStats]) -> TargetStats:
    return TargetStats(
        target=name,
        first_at=_least(part.first_at for part in parts),
        last_at=_most(part.last_at for part in parts),
        rows=sum(part.rows for part in parts),
        chunks=sum(part.chunks for part in parts),
        scrapes=sum(part.scrapes for part in parts),
        samples=sum(part.samples for part in parts),
        bytes=sum(part.bytes for part in parts),
        rollup_bytes=sum(part.rollup_bytes for part in parts),
        rollups_first_at=_least(part.rollups_first_at for part in parts),
        rollups_end_at=_most(part.rollups_end_at for part in parts),
    )


def _least(instants: Iterable[UnixSeconds | None]) -> UnixSeconds | None:
    return min((at for at in instants if at is not None), default=None)


def _most(instants: Iterable[UnixSeconds | None]) -> UnixSeconds | None:
    return max((at for at in instants if at is not None), default=None)
