"""Golden runs as people and the calendar ask for them: begun, stopped, shown; one at a time.

A run is a row and its answers are rows: after a restart it goes on with the next question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from ds4watch.engine.golden_asking import Asker
from ds4watch.engine.golden_book import (
    SHOWN_RUNS,
    GoldenStore,
    chosen,
    entry_of,
    resumable,
    run_json,
)
from ds4watch.engine.golden_result import GoldenResults
from ds4watch.engine.golden_work import GoldenWork
from ds4watch.engine.parts import Known
from ds4watch.engine.signals import ACCURACY_DROP
from ds4watch.history.quality_values import GoldenRun, GoldenStatus
from ds4watch.model.errors import RefusedError
from ds4watch.model.money import Nanos
from ds4watch.model.ports import Clock
from ds4watch.quality.golden import Question

_WAIT_SECONDS = 2.0


class GoldenRuns:
    """One run at a time. Use as an async context manager: leaving it breaks off, not ends, a run.

    questions: reads the golden sets; raises ConfigError. at_once: see GoldenWork.
    """

    def __init__(
        self,
        known: Known,
        store: GoldenStore,
        asker: Asker,
        *,
        profiles: Callable[[], Mapping[str, str | None]],
        questions: Callable[[], tuple[Question, ...]],
        clock: Clock,
        wait_seconds: float = _WAIT_SECONDS,
        at_once: int = 1,
    ) -> None:
        self._known = known
        self._store = store
        self._asker = asker
        self._profiles = profiles
        self._questions = questions
        self._clock = clock
        self._work = GoldenWork(
            store,
            asker,
            GoldenResults(known, store, clock),
            questions=questions,
            clock=clock,
            wait_seconds=wait_seconds,
            at_once=at_once,
        )

    async def __aenter__(self) -> Self:
        await self._work.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._work.__aexit__(kind, error, trace)

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
        """Store a run, or let a stopped one of the same kind go on; return its id.

        questions: of each profile at most; 0 is all. Raises RefusedError, ConfigError, StoreError.
        """
        self._check(profile, reference)
        asked = chosen(await asyncio.to_thread(self._questions), questions)
        run = GoldenRun(
            id=0,
            at=self._clock.now(),
            profile=profile,
            reference=reference,
            questions=len(asked),
            budget_nanos=budget,
            spent_nanos=0,
            who=who,
            why=why,
            status=GoldenStatus.RUNNING,
        )
        async with self._work.turn:
            run_id = await self._begin(run)
        self._work.wake()
        return run_id

    def _check(self, profile: str, reference: str) -> None:
        names = self._profiles()
        for name in (profile, reference):
            if name and name not in names:
                message = f"there is no profile {name} in the fleet; there are {', '.join(names)}"
                raise RefusedError(message)
        if profile == reference:
            message = f"{profile} cannot be compared with itself"
            raise RefusedError(message)

    async def _begin(self, run: GoldenRun) -> int:
        runs = await self._store.golden_runs(SHOWN_RUNS)
        if any(it.status is GoldenStatus.RUNNING for it in runs):
            message = "a run is under way: let it end, or `ds4watch quality stop`"
            raise RefusedError(message)
        pair = f"{run.profile} against {run.reference}" if run.reference else run.profile
        stopped = resumable(runs, run.profile, run.reference, run.questions)
        told = f"golden questions to {pair}: {run.questions} to each ({run.why})"
        if stopped is None:
            return await self._store.begin_golden(run, entry_of(run, told))
        again = replace(
            stopped,
            status=GoldenStatus.RUNNING,
            told="",
            ended_at=None,
            budget_nanos=run.budget_nanos,
        )
        await self._store.save_golden(again, entry_of(run, f"{told}, going on"))
        return again.id

    async def stop(self, who: str) -> int | None:
        """Stop the run under way, which can go on later; return its id, None if there is none."""
        async with self._work.turn:
            run = await self._work.current()
            if run is None:
                return None
            await self._work.end(run, GoldenStatus.STOPPED, f"stopped by {who}", who=who)
            return run.id

    async def shown(self) -> list[dict[str, Any]]:
        """Return the newest runs with how far they are, JSON-ready."""
        found = []
        for run in await self._store.golden_runs(SHOWN_RUNS):
            judged = await self._store.golden_answered(run.id)
            found.append(run_json(run, judged))
        return found

    async def nightly(self, questions: int) -> str:
        """Begin a run for the quantized profile that was compared longest ago."""
        pairs = {name: reference for name, reference in self._profiles().items() if reference}
        ready = {view.profile for view in self._asker.ready()}
        due = [name for name, other in pairs.items() if {name, other} <= ready]
        if not due:
            return "no quantized profile is ready together with its reference"
        compared_at = {
            it.profile: it.at for it in self._known.quality if it.metric == ACCURACY_DROP
        }
        name = min(due, key=lambda it: (compared_at.get(it, 0.0), it))
        await self.begin(
            name,
            reference=pairs[name] or "",
            questions=questions,
            budget=None,
            who="",
            why="scheduled",
        )
        return f"begun for {name}"
