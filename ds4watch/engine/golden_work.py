"""Asks the questions of the golden run under way, behind all users: one at a time of a worker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from ds4watch.engine.golden_asking import Asker, BusyError, DearError
from ds4watch.engine.golden_book import (
    SHOWN_RUNS,
    GoldenStore,
    chosen,
    judged_answer,
    left_of,
)
from ds4watch.engine.golden_budget import BROKEN_OFF, Budget, budget_of
from ds4watch.engine.golden_result import GoldenResults
from ds4watch.history.quality_values import GoldenRun, GoldenStatus
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.model.errors import ConfigError, StoreError, WorkerError
from ds4watch.model.money import Nanos
from ds4watch.model.ports import Clock
from ds4watch.quality.golden import Question

log = logging.getLogger(__name__)

_FAILURES_ALLOWED = 20
_STORE_SECONDS = 10.0


class GoldenWork:
    """The loop over all runs. Use as an async context manager: leaving breaks a run off.

    at_once: so many questions at most are asked at the same time, each of a worker of its own, so
    that times and costs of answers are those of one at a time.
    """

    def __init__(
        self,
        store: GoldenStore,
        asker: Asker,
        results: GoldenResults,
        *,
        questions: Callable[[], tuple[Question, ...]],
        clock: Clock,
        wait_seconds: float,
        at_once: int,
    ) -> None:
        self.turn = asyncio.Lock()
        """Held by who changes whether a run is under way."""
        self._store = store
        self._asker = asker
        self._results = results
        self._questions = questions
        self._clock = clock
        self._wait_seconds = wait_seconds
        self._at_once = at_once
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self._asked: tuple[int, tuple[Question, ...]] | None = None
        """The questions of the run under way."""
        self._dearest: tuple[int, Nanos] | None = None
        """A run, and what the dearest of its answers cost since the daemon's start."""

    async def __aenter__(self) -> Self:
        self._wake.set()
        self._task = asyncio.create_task(self._run(), name="golden questions")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def wake(self) -> None:
        """Look for a run that has begun."""
        self._wake.set()

    async def current(self) -> GoldenRun | None:
        """Return the run under way. Raises StoreError."""
        runs = await self._store.golden_runs(SHOWN_RUNS)
        return next((it for it in runs if it.status is GoldenStatus.RUNNING), None)

    async def end(self, run: GoldenRun, status: GoldenStatus, told: str, who: str = "") -> None:
        """End a run: it is over, or can go on later. Raises StoreError."""
        now = self._clock.now()
        self._failures = 0
        self._asked = None
        entry = AuditEntry(now, AuditKind.QUALITY, run.profile, f"golden run: {told}", who=who)
        await self._store.save_golden(replace(run, status=status, told=told, ended_at=now), entry)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            try:
                waits = await self._step()
            except StoreError as error:
                log.warning("golden questions wait for the database: %s", error)
                waits = _STORE_SECONDS
            except Exception:  # the loop is for all runs: it outlives a fault in one
                log.exception("a golden run met a fault of ours")
                waits = await self._give_up()
            if waits is None:
                self._wake.clear()
            elif waits:
                await asyncio.sleep(waits)

    async def _give_up(self) -> float:
        """End the run under way, which would meet the same fault again."""
        try:
            run = await self.current()
            if run is not None:
                await self.end(run, GoldenStatus.FAILED, "a fault of ds4watch: see its log")
        except StoreError as error:
            log.warning("golden questions wait for the database: %s", error)
            return _STORE_SECONDS
        return 0.0

    async def _step(self) -> float | None:
        """Ask the next questions of the run under way; return how long to wait, None: no run."""
        run = await self.current()
        if run is None:
            return None
        try:
            asked = await self._asked_in(run)
        except ConfigError as error:
            await self.end(run, GoldenStatus.FAILED, str(error.findings[0]))
            return 0.0
        judged = await self._store.golden_answered(run.id)
        budget = budget_of(run.budget_nanos, run.spent_nanos, self._dearest_of(run))
        batch = list(self._next(run, asked, judged, budget.fits(self._at_once)))
        if not batch:
            told = await self._results.book(run, judged, asked)
            await self.end(run, GoldenStatus.DONE, told)
        elif budget.over:
            await self.end(run, GoldenStatus.STOPPED, budget.over)
        else:
            return await self._ask(run, batch, budget)
        return 0.0

    def _dearest_of(self, run: GoldenRun) -> Nanos | None:
        known = self._dearest
        return known[1] if known is not None and known[0] == run.id else None

    def _next(
        self,
        run: GoldenRun,
        asked: Sequence[Question],
        judged: Mapping[str, Mapping[str, bool]],
        left: int,
    ) -> Iterator[tuple[Question, str]]:
        """Yield what to ask now: of a profile as many as it has workers with time, one at least."""
        profiles = {run.profile, run.reference} - {""}
        room = {name: max(1, self._asker.free(name)) for name in profiles}
        for question, profile in left_of(run, asked, judged):
            if not left or not any(room.values()):
                return
            if room[profile]:
                room[profile] -= 1
                left -= 1
                yield question, profile

    async def _asked_in(self, run: GoldenRun) -> tuple[Question, ...]:
        if self._asked is None or self._asked[0] != run.id:
            questions = await asyncio.to_thread(self._questions)
            self._asked = (run.id, chosen(questions, run.questions))
        return self._asked[1]

    async def _ask(
        self, run: GoldenRun, batch: Sequence[tuple[Question, str]], budget: Budget
    ) -> float:
        """Ask questions at the same time; every answer that comes is kept, whatever others meet."""
        most = budget.each(len(batch))
        done = await asyncio.gather(
            *(self._answer(run, *it, most) for it in batch), return_exceptions=True
        )
        met = [
            (profile, error)
            for (_, profile), error in zip(batch, done, strict=True)
            if error is not None
        ]
        for _, error in met:
            if not isinstance(error, BusyError | WorkerError | DearError):
                raise error
        if any(isinstance(error, DearError) for _, error in met):
            await self._end_if_under_way(run, GoldenStatus.STOPPED, BROKEN_OFF)
            return 0.0
        failed = [(name, error) for name, error in met if isinstance(error, WorkerError)]
        if failed:
            return await self._note_failures(run, failed)
        self._failures = 0
        if met:
            return await self._wait(run, str(met[0][1]))
        await self._tell(run, "")
        return 0.0

    async def _answer(
        self, run: GoldenRun, question: Question, profile: str, most: Nanos | None
    ) -> None:
        try:
            asked = await self._asker.ask(profile, question, most)
        except DearError as error:
            await self._store.add_golden_cost(run.id, error.nanos)
            raise
        self._dearest = (run.id, max(asked.nanos, self._dearest_of(run) or 0))
        await self._store.add_golden_answer(judged_answer(run, profile, question, asked))

    async def _note_failures(
        self, run: GoldenRun, failed: Sequence[tuple[str, WorkerError]]
    ) -> float:
        self._failures += 1
        profile, error = min(failed, key=lambda it: it[1].retryable)
        if not error.retryable or self._failures >= _FAILURES_ALLOWED:
            await self._end_if_under_way(run, GoldenStatus.FAILED, f"{profile}: {error}")
            return 0.0
        return await self._wait(run, str(error))

    async def _end_if_under_way(self, run: GoldenRun, status: GoldenStatus, told: str) -> None:
        async with self.turn:
            if await self.current() is not None:  # it may have been stopped meanwhile
                await self.end(run, status, told)

    async def _wait(self, run: GoldenRun, why: str) -> float:
        await self._tell(run, f"waits: {why}")
        return self._wait_seconds

    async def _tell(self, run: GoldenRun, told: str) -> None:
        """Store why a run waits, if that is new; a run that was stopped meanwhile stays so."""
        async with self.turn:
            now = await self.current()
            if now is not None and now.id == run.id and now.told != told:
                await self._store.save_golden(replace(now, told=told))
