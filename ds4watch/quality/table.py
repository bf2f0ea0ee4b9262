"""The choice table: profiles side by side, which no other beats, the cheapest that will do.

Answers are compared question by question, by class of work: what a profile loses in mathematics is
not made up for by what it gains elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ds4watch.quality.paired import Allowed, Loss, Verdict, compared, wilson

Answers = Mapping[str, Mapping[str, bool]]
"""Whether each question was answered right, by class of work and question."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known of a profile; None is not known, and is no reason for or against it.

    cost_per_million: money for a million tokens, prompt and answer, one request at a time.
    divergence: mean |Δ log p| from its reference, in nats.
    """

    profile: str
    answers: Answers = field(default_factory=dict)
    divergence: float | None = None
    divergence_age_seconds: float | None = None
    weights_bytes: float | None = None
    tokens_per_second: float | None = None
    first_token_seconds: float | None = None
    cost_per_million: float | None = None


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A share of right answers with its 95 % interval."""

    right: int
    asked: int

    @property
    def ratio(self) -> float | None:
        """The share; None if nothing was asked."""
        return self.right / self.asked if self.asked else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval."""
        return wilson(self.right, self.asked)


@dataclass(frozen=True, slots=True)
class Advice:
    """The cheapest profile within the loss allowed, for one class of work."""

    work_class: str
    profile: str
    losses: Mapping[str, Loss]
    """Of the others against the reference."""


def accuracy(measured: Measured, work_class: str | None = None) -> Accuracy:
    """Return how many questions of a class, or of all, were answered right."""
    judged = [
        right
        for name, answers in measured.answers.items()
        if work_class in (None, name)
        for right in answers.values()
    ]
    return Accuracy(sum(judged), len(judged))


def classes_of(rows: Iterable[Measured]) -> tuple[str, ...]:
    """Return the classes that anything was asked of."""
    return tuple(sorted({name for row in rows for name, asked in row.answers.items() if asked}))


def unbeaten(rows: Sequence[Measured]) -> frozenset[str]:
    """Return the profiles that no other beats: as good in all that is known, better in something.

    Only what both have is compared; accuracy as measured, over the questions that both answered.
    One that was asked nothing is not among them: nobody knows.
    """
    asked = [row for row in rows if classes_of((row,))]
    return frozenset(
        row.profile for row in asked if not any(_beats(it, row) for it in rows if it is not row)
    )


def _beats(mine: Measured, theirs: Measured) -> bool:
    pairs = [
        (-a, -b) if is_more_better else (a, b)
        for a, b, is_more_better in _compared(mine, theirs)
        if a is not None and b is not None
    ]
    return bool(pairs) and all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _compared(
    mine: Measured, theirs: Measured
) -> Iterable[tuple[float | None, float | None, bool]]:
    for name in classes_of((mine, theirs)):
        a, b = mine.answers.get(name, {}), theirs.answers.get(name, {})
        both = a.keys() & b.keys()
        if both:
            yield sum(a[it] for it in both), sum(b[it] for it in both), True
        else:
            yield 1.0, 0.0, False  # not known to be as good: it cannot beat it
    yield mine.cost_per_million, theirs.cost_per_million, False
    yield mine.weights_bytes, theirs.weights_bytes, False
    yield mine.tokens_per_second, theirs.tokens_per_second, True
    yield mine.first_token_seconds, theirs.first_token_seconds, False


def advise(
    rows: Sequence[Measured], reference: str, allowed: Allowed | None = None
) -> tuple[Advice, ...]:
    """Return for each class the cheapest profile whose loss is within `allowed`.

    The reference itself always is. One whose cost is not known is not recommended.
    """
    by_name = {row.profile: row for row in rows}
    standard = by_name.get(reference)
    if standard is None:
        return ()
    limit = allowed or Allowed()
    return tuple(
        _advice(rows, standard, work_class, limit) for work_class in classes_of((standard,))
    )


def _advice(
    rows: Sequence[Measured], standard: Measured, work_class: str, allowed: Allowed
) -> Advice:
    right = standard.answers[work_class]
    losses = {
        row.profile: compared(right, row.answers.get(work_class, {}), allowed)
        for row in rows
        if row is not standard
    }
    fit = [
        row for row in rows if row is standard or losses[row.profile].verdict is Verdict.RECOMMENDED
    ]
    cheapest = min(fit, key=lambda it: (_cost(it), it is not standard, it.profile))
    is_cheaper = _cost(cheapest) < _cost(standard)
    return Advice(work_class, cheapest.profile if is_cheaper else standard.profile, losses)


def _cost(row: Measured) -> float:
    return row.cost_per_million if row.cost_per_million is not None else float("inf")
