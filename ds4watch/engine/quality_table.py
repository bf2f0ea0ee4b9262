"""The choice table of the fleet's profiles, from the newest golden answers and readings."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from ds4watch.engine.parts import Known
from ds4watch.engine.quality_run import METRIC
from ds4watch.engine.signals import QualityReading
from ds4watch.history.quality_values import GoldenAnswer
from ds4watch.model.money import NANOS_PER_UNIT
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.quality.paired import Allowed, Loss
from ds4watch.quality.table import Accuracy, Measured, accuracy, advise, classes_of, unbeaten

ANSWERS_SECONDS = 30 * 86_400.0
"""Older answers are not compared: the profile may have changed since."""


class AnswerSource(Protocol):
    """Where answers are kept."""

    async def golden_answers(self, since_at: UnixSeconds) -> list[GoldenAnswer]:
        """Return the newest answer of each profile to each question since then."""


class QualityTable:
    """Sets profiles side by side."""

    def __init__(
        self,
        known: Known,
        source: AnswerSource,
        *,
        references: Callable[[], Mapping[str, str | None]],
        weights: Callable[[str], float | None],
        currency: str,
        clock: Clock,
        max_age_seconds: float,
    ) -> None:
        """Ask `references` for each profile's reference, `weights` for the bytes of its weights.

        max_age_seconds: an older divergence is absent.
        """
        self._known = known
        self._source = source
        self._references = references
        self._weights = weights
        self._currency = currency
        self._clock = clock
        self._max_age_seconds = max_age_seconds

    async def shown(
        self, profiles: Sequence[str], *, reference: str | None, allowed: Allowed
    ) -> dict[str, Any]:
        """Return the table of some profiles, or of all that were asked; JSON-ready.

        reference: what they are compared with; the one that most of them name if not given.
        """
        answers = await self._source.golden_answers(self._clock.now() - ANSWERS_SECONDS)
        by_profile: dict[str, list[GoldenAnswer]] = {}
        for answer in answers:
            by_profile.setdefault(answer.profile, []).append(answer)
        names = list(profiles) or sorted(by_profile.keys() | self._references().keys())
        standard = reference or self._standard(names)
        if standard and standard not in names:
            names.append(standard)
        rows = [self._measured(name, by_profile.get(name, ()), standard) for name in names]
        return {
            "currency": self._currency,
            "reference": standard,
            "allowed": asdict(allowed),
            "profiles": _rows_json(rows, self._known.routes.costs),
            "route_regret": self._known.routes.regret().as_json(),
            "advice": [
                {
                    "class": it.work_class,
                    "profile": it.profile,
                    "losses": {name: _loss_json(loss) for name, loss in it.losses.items()},
                }
                for it in advise(rows, standard or "", allowed)
            ],
        }

    def _standard(self, names: Sequence[str]) -> str | None:
        named = [self._references().get(name) for name in names]
        told = sorted(it for it in named if it)
        return statistics.mode(told) if told else None

    def _measured(
        self, name: str, answers: Sequence[GoldenAnswer], standard: str | None
    ) -> Measured:
        classes: dict[str, dict[str, bool]] = {}
        for it in answers:
            classes.setdefault(it.work_class, {})[it.question] = it.is_right
        tokens = sum(it.prompt_tokens + it.completion_tokens for it in answers)
        nanos = sum(it.nanos for it in answers)
        divergence = self._divergence(name, standard)
        return Measured(
            name,
            classes,
            divergence=divergence.value if divergence is not None else None,
            divergence_age_seconds=(
                max(0.0, self._clock.now() - divergence.at) if divergence is not None else None
            ),
            weights_bytes=self._weights(name),
            tokens_per_second=_rate(answers),
            first_token_seconds=_median(it.first_token_seconds for it in answers),
            cost_per_million=nanos / NANOS_PER_UNIT / tokens * 1e6 if tokens else None,
        )

    def _divergence(self, name: str, standard: str | None) -> QualityReading | None:
        """Return the latest from the reference of the table, unless it is stale."""
        since_at = self._clock.now() - self._max_age_seconds
        found = [
            it
            for it in self._known.quality
            if (it.profile, it.metric) == (name, METRIC)
            and it.at >= since_at
            and standard in (None, it.reference)
        ]
        return max(found, key=lambda it: it.at, default=None)


def _rate(answers: Sequence[GoldenAnswer]) -> float | None:
    """Return generated tokens a second after the first, over all answers."""
    timed = [
        (it.completion_tokens - 1, it.took_seconds - it.first_token_seconds)
        for it in answers
        if it.first_token_seconds is not None and it.completion_tokens > 1
    ]
    seconds = sum(spent for _, spent in timed)
    return sum(tokens for tokens, _ in timed) / seconds if seconds > 0 else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [it for it in values if it is not None]
    return statistics.median(known) if known else None


def _rows_json(rows: Sequence[Measured], costs: Mapping[str, float]) -> list[dict[str, Any]]:
    best = unbeaten(rows)
    return [
        {
            "profile": row.profile,
            "unbeaten": row.profile in best,
            "accuracy": _accuracy_json(accuracy(row)),
            "classes": {name: _accuracy_json(accuracy(row, name)) for name in classes_of((row,))},
            "divergence_nats": row.divergence,
            "divergence_age_seconds": row.divergence_age_seconds,
            "weights_bytes": row.weights_bytes,
            "tokens_per_second": row.tokens_per_second,
            "first_token_seconds": row.first_token_seconds,
            "cost_per_million_tokens": row.cost_per_million,
            "slo_cost_per_thousand_tokens": costs.get(row.profile),
        }
        for row in rows
    ]


def _accuracy_json(it: Accuracy) -> dict[str, Any]:
    low, high = it.interval
    return {"right": it.right, "asked": it.asked, "ratio": it.ratio, "low": low, "high": high}


def _loss_json(loss: Loss) -> dict[str, Any]:
    return {
        "questions": loss.questions,
        "worse": loss.worse,
        "better": loss.better,
        "points": loss.points,
        "lower_points": loss.lower_points,
        "upper_points": loss.upper_points,
        "p_value": loss.p_value,
        "verdict": loss.verdict.value,
        "more_questions": loss.more_questions,
    }
