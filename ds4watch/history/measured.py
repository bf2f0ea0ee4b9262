"""What was measured of quality: comparisons, golden runs and their answers."""

from __future__ import annotations

from ds4watch.history import golden_rows, meta_rows
from ds4watch.history.loss import Mended
from ds4watch.history.quality_values import GoldenAnswer, GoldenRun, QualityRun
from ds4watch.history.rows import AuditEntry
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds


class Measured:
    """Measurements as they are stored. Raises StoreError."""

    def __init__(self, database: Mended) -> None:
        self._database = database

    async def add_quality(self, run: QualityRun) -> None:
        """Store a quality run."""
        await self._database.write(meta_rows.insert_quality, run)

    async def begin_golden(self, run: GoldenRun, entry: AuditEntry) -> int:
        """Store a new golden run, with its audit row, and return its id."""
        return await self._database.write(golden_rows.begin, run, entry)

    async def save_golden(self, run: GoldenRun, *entries: AuditEntry) -> None:
        """Store how far a golden run is, with its audit rows."""
        await self._database.write(golden_rows.save, run, entries)

    async def add_golden_answer(self, answer: GoldenAnswer) -> None:
        """Store an answer, and what it cost with its run; a second one changes nothing."""
        await self._database.write(golden_rows.add_answer, answer)

    async def add_golden_cost(self, run: int, nanos: Nanos) -> None:
        """Store what a golden run cost beside its answers."""
        await self._database.write(golden_rows.add_cost, run, nanos)

    async def golden_runs(self, limit: int) -> list[GoldenRun]:
        """Return the newest golden runs, newest first."""
        return await self._database.read(golden_rows.newest, limit)

    async def golden_answered(self, run: int) -> dict[str, dict[str, bool]]:
        """Return whether each question of a run was answered right, by profile and question."""
        return await self._database.read(golden_rows.answered, run)

    async def golden_answers(self, since_at: UnixSeconds) -> list[GoldenAnswer]:
        """Return the newest answer of each profile to each question since then."""
        return await self._database.read(golden_rows.newest_answers, since_at)

    async def latest_quality(self) -> list[QualityRun]:
        """Return the newest run of each profile, reference and metric."""
        return await self._database.read(meta_rows.latest_quality)
