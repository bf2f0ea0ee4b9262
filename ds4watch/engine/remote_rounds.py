"""Rounds of questions to a remote server, beside the ticks: none of these waits for an answer."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ds4watch.alerting.remote import Answer, Answers, age_question
from ds4watch.model.alert import AlertState
from ds4watch.model.errors import EdgeReason, SourceError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.series import Sample
from ds4watch.promql.storage import Matcher

log = logging.getLogger(__name__)

_WHERE = "the source of rules"
_OK, _PARTIAL, _FAILED = "ok", "partial", "failed"


class Source(Protocol):
    """Who evaluates expressions."""

    async def ask(self, text: str, at: UnixSeconds, until: float) -> Answer:
        """Return an expression's value; give up at `until`, monotonic. Raises SourceError."""
        ...


class Questions(Protocol):
    """Who knows what to ask."""

    def questions(self, alerts: Sequence[AlertState], now: UnixSeconds) -> tuple[str, ...]:
        """Return what to ask in a round that begins now."""
        ...


@dataclass(frozen=True, slots=True)
class RoundSettings:
    """How often to ask. max_age_seconds: of the server's newest sample; 0 is not looked at."""

    interval_seconds: float
    max_age_seconds: float
    only: tuple[Matcher, ...] = ()


class Rounds:
    """One round at a time. All its answers are for the instant at which it began.

    Invariant: a round has ended when its interval is over, with answers or with failures.
    """

    def __init__(
        self,
        source: Source,
        questions: Questions,
        settings: RoundSettings,
        *,
        wake: asyncio.Event,
        clock: Clock,
    ) -> None:
        """Set `wake` when there are answers."""
        self._source = source
        self._questions = questions
        self._settings = settings
        self._wake = wake
        self._clock = clock
        self._task: asyncio.Task[Answers] | None = None
        self._due = 0.0
        self._outcomes: Counter[str] = Counter()
        self._last: Answers | None = None
        self._age_seconds: float | None = None
        self._trouble = ""

    def take(self, alerts: Sequence[AlertState], now: UnixSeconds) -> Answers | None:
        """Return the answers of a round that has ended, once; begin the next when it is due."""
        found = None
        if self._task is not None and self._task.done():
            found, self._task = self._task.result(), None
            self._note(found)
        moment = self._clock.monotonic()
        if self._task is None and moment >= self._due:
            interval = self._settings.interval_seconds
            missed = self._due + interval <= moment
            self._due = (moment if missed else self._due) + interval
            asked = self._questions.questions(alerts, now)
            self._task = asyncio.create_task(self._round(asked, now, moment + interval))
            self._task.add_done_callback(lambda _: self._wake.set())
        return found

    async def close(self) -> None:
        """Give up on what is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def samples(self) -> list[Sample]:
        """Return how the server does; nothing before the first round has ended."""
        if self._last is None:
            return []
        is_good = self._last.error is None and not self._last.stale
        found = [Sample("ds4_source_up", (), float(is_good))]
        if self._age_seconds is not None:
            found.append(Sample("ds4_source_data_age_seconds", (), self._age_seconds))
        return found + [
            Sample("ds4_source_questions_total", (("outcome", it),), float(self._outcomes[it]))
            for it in (_OK, _PARTIAL, _FAILED)
        ]

    async def _round(self, asked: Sequence[str], at: UnixSeconds, until: float) -> Answers:
        """Ask everything. A server that cannot be reached is not asked the rest."""
        if self._settings.max_age_seconds:
            age = await self._one(age_question(self._settings.only), at, until, [])
            if age.error is not None:
                return Answers(at, dict.fromkeys(asked, age), age.error)
            self._age_seconds = float(age.vector.values[0]) if len(age.vector) else None
        gone: list[str] = []
        answers = await asyncio.gather(*(self._one(text, at, until, gone) for text in asked))
        by_text = dict(zip(asked, answers, strict=True))
        return Answers(at, by_text, gone[0] if gone else None, stale=self._is_stale())

    def _is_stale(self) -> bool:
        most, age = self._settings.max_age_seconds, self._age_seconds
        return bool(most) and (age is None or age > most)

    async def _one(self, text: str, at: UnixSeconds, until: float, gone: list[str]) -> Answer:
        if gone:
            return Answer(error=gone[0])
        try:
            answer = await self._source.ask(text, at, until)
        except SourceError as error:
            self._outcomes[_FAILED] += 1
            if error.reason is EdgeReason.CONNECT:
                gone.append(str(error))
            return Answer(error=str(error))
        self._outcomes[_PARTIAL if answer.partial else _OK] += 1
        return answer

    def _note(self, found: Answers) -> None:
        """Log the first of several troubles, and their end."""
        self._last = found
        trouble = f"{_WHERE}: {found.error}" if found.error else ""
        if not trouble and found.stale:
            age = "over 300 s" if self._age_seconds is None else f"{self._age_seconds:.0f} s"
            trouble = f"{_WHERE}: its newest `up` is {age} old, more than source.max_age_seconds"
        if not trouble and any(it.partial for it in found.by_text.values()):
            trouble = f"{_WHERE}: it warns that answers are partial"
        if trouble and not self._trouble:
            log.error("%s; alerts are held as they are", trouble)
        elif self._trouble and not trouble:
            log.warning("%s: all answers are whole and fresh again", _WHERE)
        self._trouble = trouble
