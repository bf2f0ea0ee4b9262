"""Golden runs: questions asked of a profile and its reference, one at a time, behind all users.

A run is a row and its answers are rows: after a restart it goes on with the next question.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from types import TracebackType
from typing import Any, Protocol, Self

from ds4watch.engine.golden_asking import Asked, Asker, BusyError
from ds4watch.engine.parts import Known
from ds4watch.engine.signals import (
    ACCURACY_DROP,
    CLASS_LOSS,
    CLASS_LOSS_AT_LEAST,
    CLASS_SIGN,
    QualityReading,
    with_reading,
)
from ds4watch.history.quality_values import GoldenAnswer, GoldenRun, GoldenStatus, QualityRun
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.model.errors import ConfigError, RefusedError, StoreError, WorkerError
from ds4watch.model.money import Nanos
from ds4watch.model.ports import Clock
from ds4watch.quality.golden import Question
from ds4watch.quality.paired import compared

log = logging.getLogger(__name__)

_SHOWN_RUNS = 20
_FAILURES_ALLOWED = 20
_WAIT_SECONDS = 2.0
_STORE_SECONDS = 10.0


class GoldenStore(Protocol):
    """Where runs and answers are kept."""

    async def begin_golden(self, run: GoldenRun, entry: AuditEntry) -> int:
        """Store a new run and return its id. Raises StoreError, as all of these."""

    async def save_golden(self, run: GoldenRun, *entries: AuditEntry) -> None:
        """Store how far a run is."""

    async def add_golden_answer(self, answer: GoldenAnswer) -> None:
        """Store an answer."""

    async def golden_runs(self, limit: int) -> list[GoldenRun]:
        """Return the newest runs, newest first."""

    async def golden_answered(self, run: int) -> dict[str, dict[str, bool]]:
        """Return whether each answer was right, by profile and question."""

    async def add_quality(self, run: QualityRun) -> None:
        """Store a result."""


def chosen(questions: Sequence[Question], limit: int) -> tuple[Question, ...]:
    """Return the first so many in an order that is the same for ever: answers pair up by it."""
    ordered = sorted(questions, key=lambda it: sha256(it.id.encode()).digest())
    return tuple(ordered[:limit] if limit else ordered)


class GoldenRuns:
    """One run at a time. Use as an async context manager: leaving it breaks off, not ends, a run.

    questions: reads the golden sets; raises ConfigError.
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
    ) -> None:
        self._known = known
        self._store = store
        self._asker = asker
        self._profiles = profiles
        self._questions = questions
        self._clock = clock
        self._wait_seconds = wait_seconds
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self._asked: tuple[int, tuple[Question, ...]] | None = None
        """The questions of the run under way."""

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
        async with self._turn:
            run_id = await self._begin(run)
        self._wake.set()
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
        runs = await self._store.golden_runs(_SHOWN_RUNS)
        if any(it.status is GoldenStatus.RUNNING for it in runs):
            message = "a run is under way: let it end, or `ds4watch quality stop`"
            raise RefusedError(message)
        pair = f"{run.profile} against {run.reference}" if run.reference else run.profile
        stopped = _resumable(runs, run.profile, run.reference, run.questions)
        told = f"golden questions to {pair}: {run.questions} to each ({run.why})"
        if stopped is None:
            return await self._store.begin_golden(run, _entry(run, told))
        again = replace(
            stopped,
            status=GoldenStatus.RUNNING,
            told="",
            ended_at=None,
            budget_nanos=run.budget_nanos,
        )
        await self._store.save_golden(again, _entry(run, f"{told}, going on"))
        return again.id

    async def stop(self, who: str) -> int | None:
        """Stop the run under way, which can go on later; return its id, None if there is none."""
        async with self._turn:
            run = await self._current()
            if run is None:
                return None
            await self._end(run, GoldenStatus.STOPPED, f"stopped by {who}", who=who)
            return run.id

    async def shown(self) -> list[dict[str, Any]]:
        """Return the newest runs with how far they are, JSON-ready."""
        found = []
        for run in await self._store.golden_runs(_SHOWN_RUNS):
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
            run = await self._current()
            if run is not None:
                await self._end(run, GoldenStatus.FAILED, "a fault of ds4watch: see its log")
        except StoreError as error:
            log.warning("golden questions wait for the database: %s", error)
            return _STORE_SECONDS
        return 0.0

    async def _current(self) -> GoldenRun | None:
        runs = await self._store.golden_runs(_SHOWN_RUNS)
        return next((it for it in runs if it.status is GoldenStatus.RUNNING), None)

    async def _step(self) -> float | None:
        """Ask the next question of the run under way; return how long to wait, None: no run."""
        run = await self._current()
        if run is None:
            return None
        try:
            asked = await self._asked_in(run)
        except ConfigError as error:
            await self._end(run, GoldenStatus.FAILED, str(error.findings[0]))
            return 0.0
        judged = await self._store.golden_answered(run.id)
        left = next(_left(run, asked, judged), None)
        if left is None:
            await self._finish(run, judged)
        elif run.budget_nanos is not None and run.spent_nanos >= run.budget_nanos:
            await self._end(run, GoldenStatus.STOPPED, "what it may cost is spent")
        else:
            return await self._ask(run, *left)
        return 0.0

    async def _asked_in(self, run: GoldenRun) -> tuple[Question, ...]:
        if self._asked is None or self._asked[0] != run.id:
            questions = await asyncio.to_thread(self._questions)
            self._asked = (run.id, chosen(questions, run.questions))
        return self._asked[1]

    async def _ask(self, run: GoldenRun, question: Question, profile: str) -> float:
        try:
            asked = await self._asker.ask(profile, question)
        except BusyError as busy:
            return await self._wait(run, str(busy))
        except WorkerError as error:
            self._failures += 1
            if not error.retryable or self._failures >= _FAILURES_ALLOWED:
                await self._end(run, GoldenStatus.FAILED, f"{profile}: {error}")
                return 0.0
            return await self._wait(run, str(error))
        self._failures = 0
        await self._store.add_golden_answer(_judged(run, profile, question, asked))
        await self._tell(run, "")
        return 0.0

    async def _wait(self, run: GoldenRun, why: str) -> float:
        await self._tell(run, f"waits: {why}")
        return self._wait_seconds

    async def _tell(self, run: GoldenRun, told: str) -> None:
        """Store why a run waits, if that is new; a run that was stopped meanwhile stays so."""
        async with self._turn:
            now = await self._current()
            if now is not None and now.id == run.id and now.told != told:
                await self._store.save_golden(replace(now, told=told))

    async def _end(self, run: GoldenRun, status: GoldenStatus, told: str, who: str = "") -> None:
        now = self._clock.now()
        self._failures = 0
        self._asked = None
        entry = AuditEntry(now, AuditKind.QUALITY, run.profile, f"golden run: {told}", who=who)
        await self._store.save_golden(replace(run, status=status, told=told, ended_at=now), entry)

    async def _finish(self, run: GoldenRun, judged: Mapping[str, Mapping[str, bool]]) -> None:
        mine = judged.get(run.profile, {})
        told = f"{run.profile} answered {sum(mine.values())} of {len(mine)} right"
        if run.reference:
            theirs = judged.get(run.reference, {})
            loss = compared(theirs, mine)
            told += f", {loss.points:+.2f} points lost against {run.reference}: "
            told += loss.verdict.replace("_", " ")
            await self._book(run, {ACCURACY_DROP: loss.points}, loss.questions)
            for work_class, names in (await self._classes(run)).items():
                one = compared(_only(theirs, names), _only(mine, names))
                values = {CLASS_LOSS: one.points, CLASS_LOSS_AT_LEAST: one.lower_points}
                named = {f"{it}{CLASS_SIGN}{work_class}": value for it, value in values.items()}
                await self._book(run, named, one.questions)
        await self._end(run, GoldenStatus.DONE, told)

    async def _classes(self, run: GoldenRun) -> dict[str, set[str]]:
        classes: dict[str, set[str]] = {}
        for question in await self._asked_in(run):
            classes.setdefault(question.work_class, set()).add(question.id)
        return classes

    async def _book(self, run: GoldenRun, values: Mapping[str, float], questions: int) -> None:
        """Make values the pair's latest."""
        now, pair = self._clock.now(), (run.profile, run.reference)
        took_seconds = max(0.0, now - run.at)
        for metric, value in values.items():
            await self._store.add_quality(
                QualityRun(now, *pair, metric, value, questions, 0, took_seconds)
            )
            reading = QualityReading(*pair, metric, value, now)
            self._known.quality = with_reading(self._known.quality, reading)


def _entry(run: GoldenRun, told: str) -> AuditEntry:
    return AuditEntry(run.at, AuditKind.QUALITY, run.profile, told, who=run.who)


def _only(judged: Mapping[str, bool], names: set[str]) -> dict[str, bool]:
    return {name: is_right for name, is_right in judged.items() if name in names}


def run_json(run: GoldenRun, judged: Mapping[str, Mapping[str, bool]]) -> dict[str, Any]:
    """Return a run as the API shows it."""
    return {
        "id": run.id,
        "at": run.at,
        "profile": run.profile,
        "reference": run.reference or None,
        "status": run.status.value,
        "told": run.told,
        "who": run.who or "ds4watch",
        "why": run.why,
        "questions": run.questions * (2 if run.reference else 1),
        "answered": sum(map(len, judged.values())),
        "right": {name: sum(answers.values()) for name, answers in judged.items()},
        "asked": {name: len(answers) for name, answers in judged.items()},
        "spent_nanos": run.spent_nanos,
        "budget_nanos": run.budget_nanos,
        "ended_at": run.ended_at,
    }


def _left(
    run: GoldenRun, asked: Sequence[Question], judged: Mapping[str, Mapping[str, bool]]
) -> Iterator[tuple[Question, str]]:
    """Return what is still to be asked of whom: both of a pair, question by question."""
    profiles = (run.profile, run.reference) if run.reference else (run.profile,)
    for question in asked:
        for profile in profiles:
            if question.id not in judged.get(profile, {}):
                yield question, profile


def _judged(run: GoldenRun, profile: str, question: Question, asked: Asked) -> GoldenAnswer:
    return GoldenAnswer(
        run=run.id,
        profile=profile,
        question=question.id,
        at=asked.at,
        work_class=question.work_class,
        is_right=question.judge.is_right(asked.answer.text),
        answer=asked.answer.text,
        prompt_tokens=asked.answer.usage.prompt,
        completion_tokens=asked.answer.usage.completion,
        first_token_seconds=asked.answer.first_token_seconds,
        took_seconds=asked.answer.took_seconds,
        nanos=asked.nanos,
    )


def _resumable(
    runs: Sequence[GoldenRun], profile: str, reference: str, questions: int
) -> GoldenRun | None:
    """Return the last run of a pair if it was broken off with the same questions to go."""
    mine = next((it for it in runs if (it.profile, it.reference) == (profile, reference)), None)
    is_over = mine is None or mine.status is GoldenStatus.DONE or mine.questions != questions
    return None if is_over else mine
