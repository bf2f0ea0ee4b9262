"""A server that evaluates expressions on series in memory, and can fail in many ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ds4watch.alerting.remote import Answer, Answers
from ds4watch.model.errors import SourceError
from ds4watch.promql.ast import ValueType
from ds4watch.promql.evaluate import evaluate
from ds4watch.promql.parse import parse
from ds4watch.promql.vectors import one
from tests.unit.promql.memory import WritableMemory


@dataclass
class Server:
    """Implements `Source`. `fails`: what it raises for a question, if anything."""

    storage: WritableMemory = field(default_factory=WritableMemory)
    asked: list[str] = field(default_factory=list)
    partial: bool = False
    fails: Callable[[str], SourceError | None] = lambda _: None

    async def ask(self, text: str, at: float, until: float) -> Answer:
        del until
        return self.answer(text, at)

    def answer(self, text: str, at: float) -> Answer:
        self.asked.append(text)
        error = self.fails(text)
        if error is not None:
            raise error
        result = evaluate(parse(text), self.storage, at)
        is_scalar = result.kind is ValueType.SCALAR
        return Answer(one(result.scalar) if is_scalar else result.vector, partial=self.partial)

    def round(self, questions: tuple[str, ...], at: float) -> Answers:
        """Return the answers to all questions, failures among them."""
        found: dict[str, Answer] = {}
        for text in questions:
            try:
                found[text] = self.answer(text, at)
            except SourceError as error:
                found[text] = Answer(error=str(error))
        return Answers(at, found)

    def stale(self, questions: tuple[str, ...], at: float) -> Answers:
        return replace(self.round(questions, at), stale=True)
