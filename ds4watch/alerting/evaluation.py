"""What a rule's expression gave at one instant."""

from __future__ import annotations

from dataclasses import dataclass

from ds4watch.model.series import Labels
from ds4watch.promql.doubt import Doubt
from ds4watch.promql.vectors import EMPTY, Vector


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """The elements of the result, or what was wrong.

    error: the expression could not be evaluated; changes no state.
    incomplete: a selector touched a target whose last scrape failed; may start or continue an
        alert, and end none that `doubts` touch. Without any doubt told, all alerts are in doubt.
    no_data: nothing that the expression selects has a live sample.
    """

    vector: Vector = EMPTY
    error: str | None = None
    incomplete: bool = False
    no_data: bool = False
    doubts: tuple[Doubt, ...] = ()

    def may_miss(self, labels: Labels, made: frozenset[str]) -> bool:
        """Return whether an element may be missing for want of a scrape.

        labels: of the alert it would make. made: names of labels that come from the rule.
        """
        if not self.incomplete or not self.doubts:
            return self.incomplete
        shown = dict(labels)
        return any(doubt.touches(shown, made) for doubt in self.doubts)
