"""Golden runs as rows: what is kept of them, what is left to ask, how they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Protocol

from ds4watch.engine.golden_asking import Asked
from ds4watch.history.quality_values import GoldenAnswer, GoldenRun, GoldenStatus, QualityRun
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.model.money import Nanos
from ds4watch.quality.golden import Question

SHOWN_RUNS = 20


class GoldenStore(Protocol):
    """Where runs and answers are kept."""

    async def begin_golden(self, run: GoldenRun, entry: AuditEntry) -> int:
        """Store a new run and return its id. Raises StoreError, as all of these."""

    async def save_golden(self, run: GoldenRun, *entries: AuditEntry) -> None:
        """Store how far a run is."""

    async def add_golden_answer(self, answer: GoldenAnswer) -> None:
        """Store an answer."""

    async def add_golden_cost(self, run: int, nanos: Nanos) -> None:
        """Store what a run cost beside its answers."""

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


def entry_of(run: GoldenRun, told: str) -> AuditEntry:
    """Return the audit row of a run that begins."""
    return AuditEntry(run.at, AuditKind.QUALITY, run.profile, told, who=run.who)


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


def left_of(
    run: GoldenRun, asked: Sequence[Question], judged: Mapping[str, Mapping[str, bool]]
) -> Iterator[tuple[Question, str]]:
    """Return what is still to be asked of whom: both of a pair, question by question."""
    profiles = (run.profile, run.reference) if run.reference else (run.profile,)
    for question in asked:
        for profile in profiles:
            if question.id not in judged.get(profile, {}):
                yield question, profile


def judged_answer(run: GoldenRun, profile: str, question: Question, asked: Asked) -> GoldenAnswer:
    """Return an answer as it is kept."""
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


def resumable(
    runs: Sequence[GoldenRun], profile: str, reference: str, questions: int
) -> GoldenRun | None:
    """Return the last run of a pair if it was broken off with the same questions to go."""
    mine = next((it for it in runs if (it.profile, it.reference) == (profile, reference)), None)
    is_over = mine is None or mine.status is GoldenStatus.DONE or mine.questions != questions
    return None if is_over else mine
