"""The store of scrapes: every bit of every value, and roll-ups of it."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from ds4watch.history import frame_rows, sample_rows
from ds4watch.history.appender import Appender
from ds4watch.history.chunk_reading import Reading
from ds4watch.history.database import Database
from ds4watch.history.frames import Keep, Pick, StoredFrame, results_of
from ds4watch.history.lease import VANISHED_SECONDS
from ds4watch.history.line import Fence, SetAside, Tuning
from ds4watch.history.migrate import Which
from ds4watch.history.pace import Pace, Pause
from ds4watch.history.place import Place
from ds4watch.history.sample_rows import milliseconds
from ds4watch.history.schemas import SchemaTable
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.scrape import ScrapeResult, Target
from ds4watch.model.series import Schema, SeriesKey

if TYPE_CHECKING:
    from ds4watch.history.fold import FoldReport
    from ds4watch.history.upkeep import Upkeep

_log = logging.getLogger(__name__)

BUSY_TIMEOUT_SECONDS = 0.4
"""Under the scrape interval: a locked file makes samples wait, not the scrape loop."""
ANSWER_TIMEOUT_SECONDS = 1.0
WAITING_RESULTS = 20_000


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the file knew when it was opened."""

    schemas: list[tuple[str, Schema]]
    target_ids: dict[Target, int]


class SampleStore:
    """Scrapes on disk. Open it with `open`; every method may be called from the event loop.

    While the file cannot be written, up to `waiting_results` scrapes wait in memory; then the
    oldest are dropped and counted in `lost_rows`. What is damaged on disk is left out when it is
    read, and counted in `damaged_parts`.
    """

    def __init__(
        self,
        database: Database,
        *,
        stored: _Stored,
        pace: Pace,
        waiting_results: int = WAITING_RESULTS,
    ) -> None:
        self.damaged_parts = 0
        self._database = database
        self._schemas = SchemaTable(stored.schemas)
        self._appender = Appender(
            database,
            self._schemas,
            target_ids=stored.target_ids,
            waiting_results=waiting_results,
            started_anew=self._start_anew,
        )
        self._pace = pace
        self._upkept: Upkeep | None = None
        self._keep: Keep | None = None
        self._pick = Pick(None)

    @classmethod
    def open(
        cls,
        place: Place,
        clock: Clock,
        *,
        busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS,
        waiting_results: int = WAITING_RESULTS,
        pause: Pause = asyncio.sleep,
        fence: Fence | None = None,
    ) -> SampleStore:
        """Open or make the database; a corrupt file is set aside with a warning.

        fence: what every transaction that writes has to pass.
        pause: how upkeep waits between its steps. Raises what Database does.
        """
        tuning = Tuning(
            durable=False,
            busy_timeout_seconds=busy_timeout_seconds,
            answer_timeout_seconds=ANSWER_TIMEOUT_SECONDS,
            vanished_seconds=VANISHED_SECONDS if fence is not None else 60.0,
        )
        database = Database(place, Which.SAMPLES, tuning, clock, fence=fence)
        stored = database.first_read(_stored)
        pace = Pace(database, clock, pause)
        return cls(database, stored=stored, pace=pace, waiting_results=waiting_results)

    def intern(self, series: tuple[SeriesKey, ...]) -> Schema:
        """Return the schema of a page. Its number outlives restarts once it was appended."""
        return self._schemas.intern(series)

    def schema(self, schema_id: int) -> Schema:
        """Return a schema by its number. Raises KeyError if there is none."""
        return self._schemas.get(schema_id)

    @property
    def waiting_rows(self) -> int:
        """Scrapes that wait for the file to be writable again."""
        return self._appender.waiting_rows

    @property
    def lost_rows(self) -> int:
        """Scrapes that were dropped, because too many waited."""
        return self._appender.lost_rows

    @property
    def set_aside(self) -> SetAside | None:
        """The corrupt file that was set aside last, if any was."""
        return self._database.set_aside

    async def append(self, results: Sequence[ScrapeResult]) -> None:
        """Store scrapes; on disk when this returns, or waiting if the database fails."""
        await self._database.in_writer(self._appender.append, tuple(results))

    async def fold(self, now: UnixSeconds, *, spread_seconds: float = 0.0) -> FoldReport:
        """Fold the scrapes of complete slots of ten minutes to chunks and roll-ups.

        spread_seconds: how long after a slot the last target falls due; under ten minutes.
        """
        return await self._upkeep().fold(now, spread_seconds=spread_seconds)

    async def read(
        self, target: str, start_at: UnixSeconds, end_at: UnixSeconds
    ) -> list[ScrapeResult]:
        """Return the scrapes of a target with start_at <= at <= end_at, oldest first."""
        frames = await self.frames(target, start_at, end_at)
        found = [result for frame in frames for result in results_of(frame)]
        return sorted(found, key=lambda result: result.at)

    async def frames(
        self,
        target: str,
        start_at: UnixSeconds,
        end_at: UnixSeconds,
        *,
        keep: Keep | None = None,
    ) -> list[StoredFrame]:
        """Return the same as columns, of the series that `keep` wants only; oldest first."""
        found = await self.frames_of([target], start_at, end_at, keep=keep)
        return [frame for frames in found.values() for frame in frames]

    async def frames_of(
        self,
        targets: Sequence[str],
        start_at: UnixSeconds,
        end_at: UnixSeconds,
        *,
        keep: Keep | None = None,
    ) -> dict[str, list[StoredFrame]]:
        """Return those of several targets, which takes less time than one after the other."""
        return await self._database.read(
            frame_rows.read_frames,
            targets,
            milliseconds(start_at),
            milliseconds(end_at),
            self._reading(keep),
        )

    async def last(self, target: str) -> ScrapeResult | None:
        """Return the newest scrape of a target, failed ones included."""
        at_ms = await self._database.read(sample_rows.last_at_ms, target)
        if at_ms is None:
            return None
        found = await self.read(target, at_ms / 1000, at_ms / 1000)
        return found[-1] if found else None

    async def targets(self) -> list[str]:
        """Return the names of all targets that have anything stored."""
        found = await self._database.read(sample_rows.stored_targets)
        return sorted({target.name for target in found.values()})

    async def prune(self, before_at: UnixSeconds) -> int:
        """Delete scrapes older than `before_at` and return how many.

        In slices, so that appends go between. A chunk goes once all of it is older. Up to a minute
        of older rows stays, where younger ones are told apart from them.
        """
        return await self._upkeep().prune(before_at)

    async def prune_rollups(self, resolution_seconds: int, before_at: UnixSeconds) -> int:
        """Delete roll-ups of one resolution older than `before_at`; return how many buckets."""
        return await self._upkeep().prune_rollups(resolution_seconds, before_at)

    async def close(self) -> None:
        """Store what waits, if it can be, and close the file."""
        if self.waiting_rows:
            await self.append(())
        await self._database.close()

    def _reading(self, keep: Keep | None) -> Reading:
        if keep != self._keep:
            # Many targets are read for the same series one after the other.
            self._keep, self._pick = keep, Pick(keep)
        return Reading(self._schemas.get, self._pick, self._note_damage)

    def _upkeep(self) -> Upkeep:
        if self._upkept is None:
            module: Any = importlib.import_module("ds4watch.history.upkeep")
            upkeep: type[Upkeep] = module.Upkeep
            self._upkept = upkeep(
                self._database,
                self._pace,
                self._appender,
                self._schemas,
                damaged=self._note_damage,
            )
        return self._upkept

    def _note_damage(self, what: str) -> None:
        if not self.damaged_parts:
            _log.warning("%s: %s; `ds4watch history verify` lists all", self._database.label, what)
        self.damaged_parts += 1

    def _start_anew(self) -> None:
        if self._upkept is not None:
            self._upkept.start_anew()


def _stored(connection: Connection) -> _Stored:
    schemas = sample_rows.stored_schemas(connection)
    targets = sample_rows.stored_targets(connection)
    return _Stored(schemas, {target: number for number, target in targets.items()})
