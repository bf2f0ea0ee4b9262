"""What a golden run may still cost, and how many questions that is enough for."""

from __future__ import annotations

from dataclasses import dataclass

from ds4watch.model.money import Nanos

SPENT = "what it may cost is spent"
ALL_BUT_SPENT = f"{SPENT} but for less than an answer took"
BROKEN_OFF = f"{SPENT}: an answer was broken off for it"


@dataclass(frozen=True, slots=True)
class Budget:
    """What is left, and the dearest answer of the run so far; None: nobody knows.

    Answers under way are counted before they are given: none may take more than its part of what
    is left, and none is asked for whose part is less than the dearest took. So their sum stays
    within it.
    """

    left: Nanos | None
    dearest: Nanos | None = None

    @property
    def over(self) -> str:
        """Why nothing more is asked; empty if something is."""
        if self.left is None or (self.left > 0 and self.left >= (self.dearest or 0)):
            return ""
        return SPENT if self.left <= 0 else ALL_BUT_SPENT

    def fits(self, at_once: int) -> int:
        """Return how many questions may be asked at the same time; the first one is alone."""
        if self.left is None:
            return at_once
        if self.dearest is None:
            return 1
        return max(1, min(at_once, self.left // max(1, self.dearest)))

    def each(self, questions: int) -> Nanos | None:
        """Return what each of so many at the same time may cost; None is anything."""
        return None if self.left is None else self.left // questions


def budget_of(most: Nanos | None, spent: Nanos, dearest: Nanos | None) -> Budget:
    """Return what is left of what a run may cost."""
    return Budget(None if most is None else most - spent, dearest)
