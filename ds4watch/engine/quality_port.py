"""What the admin API may ask of quality (web.ports.QualityPort)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ds4watch.engine.golden_runs import GoldenRuns
from ds4watch.engine.quality_table import QualityTable
from ds4watch.engine.start_check import StartCheck
from ds4watch.model.money import Nanos
from ds4watch.quality.paired import Allowed


class Quality:
    """Hands on to runs, table and start check."""

    def __init__(self, golden: GoldenRuns, table: QualityTable, starts: StartCheck) -> None:
        self._golden = golden
        self._table = table
        self._starts = starts

    async def runs(self) -> list[dict[str, Any]]:
        """Return the newest runs."""
        return await self._golden.shown()

    async def table(
        self,
        profiles: Sequence[str],
        *,
        reference: str | None,
        loss_points: float,
        bound_points: float,
    ) -> dict[str, Any]:
        """Return profiles side by side."""
        allowed = Allowed(loss_points, bound_points)
        return await self._table.shown(profiles, reference=reference, allowed=allowed)

    async def begin(
        self,
        profile: str,
        *,
        reference: str,
        questions: int,
        budget: Nanos | None,
        who: str,
        why: str,
    ) -> int:
        """Begin a run, or let a stopped one go on."""
        return await self._golden.begin(
            profile, reference=reference, questions=questions, budget=budget, who=who, why=why
        )

    async def stop(self, who: str) -> int | None:
        """Stop the run under way."""
        return await self._golden.stop(who)

    async def accept(self, profile: str, *, who: str, why: str) -> bool:
        """Forget what a profile gave at its starts before."""
        return await self._starts.forget(profile, who=who, why=why)
