"""The stored samples as a command reads them: nothing is made, brought up or set aside.

A daemon may be at work on the same database. Each call sees one unchanging view of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, select, text

from ds4watch.history import chunk_rows, frame_rows, sample_rows, verify
from ds4watch.history.chunk_reading import Reading
from ds4watch.history.database import home_of
from ds4watch.history.frames import Keep, Pick, RollupFrame, StoredFrame
from ds4watch.history.line import Line, Tuning
from ds4watch.history.migrate import Which, check_current
from ds4watch.history.place import Place
from ds4watch.history.sample_models import schemas
from ds4watch.history.sample_rows import milliseconds
from ds4watch.history.schemas import series_from
from ds4watch.history.verify import Finding, Progress, TargetStats
from ds4watch.model.errors import ConfigError, Located, StoreError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.scrape import Target
from ds4watch.model.series import Schema

T = TypeVar("T")

_TUNING = Tuning(durable=False, busy_timeout_seconds=10.0)
_OTHERS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = 'ds4watch' AND pid <> pg_backend_pid()"
)


class StoreReader:
    """Made by `reading`. What is damaged is left out, and named in `damaged`."""

    def __init__(self, line: Line, label: str) -> None:
        self.damaged: list[str] = []
        self._line = line
        self._label = label
        self._schemas: dict[int, tuple[str, Schema]] = {}

    async def read(self, work: Callable[..., T], *arguments: Any) -> T:
        """Return what `work(connection, *arguments)` does. Raises StoreError, with its name."""
        try:
            with self._line.begin() as connection:
                self._learn(connection)
                return work(connection, *arguments)
        except StoreError as error:
            raise StoreError(f"{self._label}: {error}", reason=error.reason) from error

    async def targets(self) -> list[Target]:
        """Return all targets that have anything stored."""
        return list((await self.read(sample_rows.stored_targets)).values())

    async def stats(self) -> list[TargetStats]:
        """Return what is stored of each target."""
        return await verify.read_stats(self, self._schema)

    async def verify(self, progress: Progress) -> list[Finding]:
        """Check that all that is stored can be read; `progress` gets (done, total) parts."""
        return await verify.verify(self, self._schema, progress)

    async def frames(
        self, target: str, start_at: UnixSeconds, end_at: UnixSeconds, keep: Keep
    ) -> Sequence[StoredFrame]:
        """Return the scrapes of a target with start_at <= at <= end_at, of some series."""
        span = milliseconds(start_at), milliseconds(end_at)
        found = await self.read(frame_rows.read_frames, [target], *span, self._reading(keep))
        return [frame for frames in found.values() for frame in frames]

    async def rollups(
        self,
        target: str,
        resolution_seconds: int,
        start_at: UnixSeconds,
        end_at: UnixSeconds,
        keep: Keep,
    ) -> Sequence[RollupFrame]:
        """Return the buckets of 60 or 3600 s that begin in start_at <= … <= end_at."""
        span = resolution_seconds, milliseconds(start_at), milliseconds(end_at)
        return await self.read(chunk_rows.read_rollups, target, *span, self._reading(keep))

    async def other_clients(self) -> int:
        """Return how many other connections ds4watch has to the server; 0 for a file."""
        return await self.read(_other_clients)

    def _reading(self, keep: Keep) -> Reading:
        return Reading(self._schema, Pick(keep), self._note_damage)

    def _note_damage(self, what: str) -> None:
        # A chunk at the edge of two spans is read twice.
        if what not in self.damaged:
            self.damaged.append(what)

    def _schema(self, schema_id: int) -> Schema:
        return self._schemas[schema_id][1]

    def _learn(self, connection: Connection) -> None:
        """Know every schema that this view of the database has; a daemon may have added some."""
        stored = connection.execute(select(schemas.c.id, schemas.c.digest)).all()
        fresh = [
            row.id
            for row in stored
            if row.id not in self._schemas or self._schemas[row.id][0] != row.digest
        ]
        if not fresh:
            return
        query = select(schemas)
        if len(fresh) < len(stored):
            query = query.where(schemas.c.id.in_(fresh))
        for row in connection.execute(query):
            self._schemas[row.id] = row.digest, Schema(row.id, series_from(row.series))


@contextmanager
def reading(place: Place) -> Iterator[StoreReader]:
    """Open a database to read from. Raises ConfigError where there is none of this version."""
    if isinstance(place, Path) and not place.is_file():
        raise ConfigError(
            Located("nothing is stored yet: there is no such file", str(place), mend=_MEND)
        )
    home = home_of(place, Which.SAMPLES, _TUNING)
    line = home.line(read_only=True)
    try:
        with home.starting():
            _check(line, home.label)
        yield StoreReader(line, home.label)
    finally:
        line.dispose()


_MEND = "run `ds4watch up`, or name the daemon's settings with --config or its folder with --state"


def _check(line: Line, label: str) -> None:
    try:
        with line.begin() as connection:
            check_current(connection, Which.SAMPLES, name=label)
    except StoreError as error:
        raise StoreError(f"{label}: {error}", reason=error.reason) from error


def _other_clients(connection: Connection) -> int:
    if connection.dialect.name != "postgresql":
        return 0
    return int(connection.execute(_OTHERS).scalar_one())
