"""What a golden run came to: told, and made the pair's latest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ds4watch.engine.golden_book import GoldenStore
from ds4watch.engine.parts import Known
from ds4watch.engine.signals import (
    ACCURACY_DROP,
    CLASS_LOSS,
    CLASS_LOSS_AT_LEAST,
    CLASS_SIGN,
    QualityReading,
    with_reading,
)
from ds4watch.history.quality_values import GoldenRun, QualityRun
from ds4watch.model.ports import Clock
from ds4watch.quality.golden import Question
from ds4watch.quality.paired import compared


class GoldenResults:
    """Books the losses of runs that have come to their end."""

    def __init__(self, known: Known, store: GoldenStore, clock: Clock) -> None:
        self._known = known
        self._store = store
        self._clock = clock

    async def book(
        self,
        run: GoldenRun,
        judged: Mapping[str, Mapping[str, bool]],
        asked: Sequence[Question],
    ) -> str:
        """Book what a run came to, of its profile and by class, and return it in words."""
        mine = judged.get(run.profile, {})
        told = f"{run.profile} answered {sum(mine.values())} of {len(mine)} right"
        if not run.reference:
            return told
        theirs = judged.get(run.reference, {})
        loss = compared(theirs, mine)
        await self._book(run, {ACCURACY_DROP: loss.points}, loss.questions)
        for work_class, names in _classes(asked).items():
            one = compared(_only(theirs, names), _only(mine, names))
            values = {CLASS_LOSS: one.points, CLASS_LOSS_AT_LEAST: one.lower_points}
            named = {f"{it}{CLASS_SIGN}{work_class}": value for it, value in values.items()}
            await self._book(run, named, one.questions)
        verdict = loss.verdict.replace("_", " ")
        return f"{told}, {loss.points:+.2f} points lost against {run.reference}: {verdict}"

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


def _classes(asked: Sequence[Question]) -> dict[str, set[str]]:
    classes: dict[str, set[str]] = {}
    for question in asked:
        classes.setdefault(question.work_class, set()).add(question.id)
    return classes


def _only(judged: Mapping[str, bool], names: set[str]) -> dict[str, bool]:
    return {name: is_right for name, is_right in judged.items() if name in names}
