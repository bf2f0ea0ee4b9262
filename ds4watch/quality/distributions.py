"""How far a quantized model's next-token distributions lie from its reference's, four ways.

Each token of a prompt is a position; both models give the log-probability of that token and of the
k that they find likeliest. Positions of one prompt are not independent, so intervals come from
drawing whole prompts anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ds4watch.quality.divergence import DivergenceRefusal

_LEAST_TAIL = 1e-9
_DRAWS = 2000
_PERCENT = (2.5, 97.5)

Floats = NDArray[np.float64]


class Metric(StrEnum):
    """What is measured; the `metric` label of ds4_quantization_error. Zero (or 1) for a copy."""

    MEAN_ABS_DELTA_LOGP = "mean_abs_delta_logp"
    MEAN_KL = "mean_kl_nats"
    TAIL_MASS = "kl_tail_mass_ratio"
    TOP1_AGREEMENT = "top1_agreement_ratio"
    PERPLEXITY = "perplexity_ratio"


_IN_ROWS = (
    Metric.MEAN_ABS_DELTA_LOGP,
    Metric.MEAN_KL,
    Metric.TAIL_MASS,
    Metric.TOP1_AGREEMENT,
    Metric.PERPLEXITY,
)
"""As a prompt's sums stand; the last is a ratio of perplexities, which is exp of a mean."""


@dataclass(frozen=True, slots=True)
class Position:
    """What a model says of one token of a prompt: log-probabilities in nats.

    actual: of the prompt's own token. top: of the likeliest, by token, its own perhaps among them.
    """

    actual: float
    top: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Distance:
    """The metrics of one comparison."""

    estimates: Mapping[Metric, Estimate]
    tokens: int
    prompts: int


def distance(
    reference: Sequence[Sequence[Position]], quantized: Sequence[Sequence[Position]], *, seed: int
) -> Distance | DivergenceRefusal:
    """Compare position by position; both hold one list for each prompt, aligned token by token.

    mean_abs_delta_logp: mean |log q(t) - log p(t)| of the prompt's own tokens t.

    mean_kl_nats: mean KL(p ‖ q) = Σ p log(p/q) over the tokens S that both name, all others taken
    together as one. By the log-sum inequality this is never more than the true divergence, and it
    is 0 for a copy (T. M. Cover, J. A. Thomas, "Elements of Information Theory", 2nd ed., theorems
    2.7.1 and 2.6.3). kl_tail_mass_ratio: the mean p outside of S, which bounds what is not seen.

    top1_agreement_ratio: the share of positions where both find the same token likeliest (the
    agreement of compressed models, A. Dutta et al., "Accuracy is Not All You Need", 2024, whose
    "flips" are 1 less it).

    perplexity_ratio: exp(mean log p(t) - mean log q(t)), the quantized perplexity over the
    reference's (F. Jelinek et al., "Perplexity: a measure of the difficulty of speech recognition
    tasks", 1977).

    Intervals are percentiles of 2,000 bootstrap samples of whole prompts (B. Efron, R. Tibshirani,
    "An Introduction to the Bootstrap", 1993, chapters 8 and 13).
    """
    if len(reference) != len(quantized):
        return DivergenceRefusal.PROMPT_COUNT
    pairs = list(zip(reference, quantized, strict=True))
    if any(len(mine) != len(theirs) for mine, theirs in pairs):
        return DivergenceRefusal.TOKEN_COUNT
    rows = [_row(mine, theirs) for mine, theirs in pairs if mine]
    if not rows:
        return DivergenceRefusal.NO_TOKENS
    sums = np.array([row for row, _ in rows], dtype=np.float64)
    counts = np.array([count for _, count in rows], dtype=np.float64)
    if not np.isfinite(sums).all():
        return DivergenceRefusal.NOT_FINITE
    return Distance(_estimates(sums, counts, seed), tokens=int(counts.sum()), prompts=len(rows))


def kl_lumped(
    reference: Mapping[str, float], quantized: Mapping[str, float]
) -> tuple[float, float]:
    """Return KL(p ‖ q) over the common tokens and one for all others, and p's mass of the others.

    Arguments are log-probabilities; terms are summed from the least up, so that a copy gives 0.
    """
    both = [(reference[it], quantized[it]) for it in sorted(reference.keys() & quantized.keys())]
    tail = max(0.0, 1.0 - math.fsum(math.exp(mine) for mine, _ in both))
    theirs = max(0.0, 1.0 - math.fsum(math.exp(other) for _, other in both))
    seen = math.fsum(math.exp(mine) * (mine - other) for mine, other in both)
    if tail <= _LEAST_TAIL:  # what is left of 1 is rounding
        return max(0.0, seen), tail
    return max(0.0, seen + tail * math.log(tail / max(theirs, _LEAST_TAIL))), tail


def _row(mine: Sequence[Position], theirs: Sequence[Position]) -> tuple[list[float], int]:
    """Return the sums of a prompt: |Δ|, KL, tail, agreement, Δ; and its positions."""
    sums = [0.0] * 5
    for a, b in zip(mine, theirs, strict=True):
        kl, tail = kl_lumped(a.top, b.top)
        terms = (abs(b.actual - a.actual), kl, tail, _agrees(a.top, b.top), a.actual - b.actual)
        sums = [total + term for total, term in zip(sums, terms, strict=True)]
    return sums, len(mine)


def _agrees(mine: Mapping[str, float], theirs: Mapping[str, float]) -> float:
    if not mine or not theirs:
        return math.nan
    # Ties are told apart by the token: two copies must agree.
    first, other = (min(top, key=lambda it: (-top[it], it)) for top in (mine, theirs))
    return float(first == other)


def _estimates(sums: Floats, counts: Floats, seed: int) -> dict[Metric, Estimate]:
    draws = np.random.default_rng(seed).multinomial(
        len(counts), np.full(len(counts), 1 / len(counts)), size=_DRAWS
    )
    drawn = _means(draws @ sums, draws @ counts)
    means = _means(sums.sum(axis=0, keepdims=True), counts.sum(keepdims=True))[0]
    low, high = np.percentile(drawn, _PERCENT, axis=0)
    return {
        metric: Estimate(float(means[it]), float(low[it]), float(high[it]))
        for it, metric in enumerate(_IN_ROWS)
    }


def _means(sums: Floats, counts: Floats) -> Floats:
    means = sums / counts[:, None]
    means[:, -1] = np.exp(means[:, -1])
    return means
