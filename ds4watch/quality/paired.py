"""Two profiles on the same questions: what the cheaper one loses, and whether that is settled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

_Z_ONE_SIDED_95 = 1.6448536269514722
_Z_TWO_SIDED_95 = 1.959963984540054
_MOST_QUESTIONS = 1_000_000
_HALVINGS = 80


class Verdict(StrEnum):
    """What follows from a loss."""

    RECOMMENDED = "recommended"
    UNDECIDED = "undecided"
    TOO_LOSSY = "too_lossy"


@dataclass(frozen=True, slots=True)
class Allowed:
    """How much may be lost, in percentage points: as measured, and at most with 95 % certainty."""

    loss_points: float = 0.9
    bound_points: float = 2.0


@dataclass(frozen=True, slots=True)
class Loss:
    """What a candidate loses on `questions` questions that both answered.

    worse: right in the reference and wrong in the candidate; better: the other way round.
    points: the loss; upper_points, lower_points: its one-sided 95 % bounds. p_value: McNemar's.
    more_questions: about how many more decide it, if it is undecided.
    """

    questions: int
    worse: int
    better: int
    points: float
    lower_points: float
    upper_points: float
    p_value: float
    verdict: Verdict
    more_questions: int = 0


def wilson(right: int, asked: int, z: float = _Z_TWO_SIDED_95) -> tuple[float, float]:
    """Return the 95 % interval of a share of right answers; (0, 1) if nothing was asked.

        (p + z²/2n ± z·√(p(1-p)/n + z²/4n²)) / (1 + z²/n)

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
    J. Am. Stat. Assoc. 22 (1927) 209-212.
    """
    if asked <= 0:
        return 0.0, 1.0
    share, weight = right / asked, z * z / asked
    middle = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / asked + weight / (4 * asked)) / (1 + weight)
    return max(0.0, middle - half), min(1.0, middle + half)


def mcnemar(worse: int, better: int) -> float:
    """Return the exact two-sided p-value for "neither profile is the better one".

        min(1, 2 · Σ_{i ≤ min(b, c)} C(b+c, i) / 2^(b+c))

    Q. McNemar, "Note on the sampling error of the difference between correlated proportions or
    percentages", Psychometrika 12 (1947) 153-157; exact by the binomial distribution.
    """
    total = worse + better
    tail = sum(math.comb(total, it) for it in range(min(worse, better) + 1))
    return float(min(1.0, 2 * tail / 2**total)) if total < 1000 else _normal_tail(worse, better)


def _normal_tail(worse: int, better: int) -> float:
    """Return the same for many pairs, by the normal distribution, continuity corrected."""
    z = max(0.0, abs(worse - better) - 1) / math.sqrt(worse + better)
    return math.erfc(z / math.sqrt(2))


def loss_bound(worse: float, better: float, questions: float, *, z: float) -> float:
    """Return the score bound of the loss (worse - better) / questions; the lower one for z < 0.

    The Δ for which (b - c - nΔ) / √(n(2q + Δ(1-Δ))) = -z, where q is the likeliest rate of
    "better" under Δ: the larger root of 2nq² - (b + c - (2n - b + c)Δ)q - cΔ(1-Δ) = 0, with
    the signs as below. It holds where b and c are few or none, unlike the bound of Wald.

    T. Tango, "Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design", Statistics in Medicine 17 (1998) 891-908.
    """
    if questions <= 0:
        return math.copysign(1.0, z)
    loss = (worse - better) / questions
    inside, outside = loss, math.copysign(1.0, z)
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if abs(_score(worse, better, questions, middle)) <= abs(z):
            inside = middle
        else:
            outside = middle
    return inside


def _score(worse: float, better: float, questions: float, loss: float) -> float:
    """Return how many standard deviations the measured loss is from a supposed one."""
    a = 2 * questions
    b = -worse - better + (2 * questions - worse + better) * loss
    c = -better * loss * (1 - loss)
    rate = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = questions * (2 * rate + loss * (1 - loss))
    distance = worse - better - questions * loss
    if variance <= 0:
        return 0.0 if distance == 0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)


def compared(
    reference: Mapping[str, bool], candidate: Mapping[str, bool], allowed: Allowed | None = None
) -> Loss:
    """Compare two profiles by whether each answered a question right; questions are keys."""
    both = reference.keys() & candidate.keys()
    worse = sum(reference[it] and not candidate[it] for it in both)
    better = sum(candidate[it] and not reference[it] for it in both)
    return loss_of(worse, better, len(both), allowed or Allowed())


def loss_of(worse: int, better: int, questions: int, allowed: Allowed) -> Loss:
    """Return the loss that so many unlike answers make, and what follows.

    Recommended: it is within `allowed`, as measured and by its upper bound. Too lossy: even its
    lower bound is over what may be measured. Else undecided.
    """
    upper = 100 * loss_bound(worse, better, questions, z=_Z_ONE_SIDED_95)
    lower = 100 * loss_bound(worse, better, questions, z=-_Z_ONE_SIDED_95)
    points = 100 * (worse - better) / questions if questions else 0.0
    verdict = Verdict.UNDECIDED
    if questions and points <= allowed.loss_points and upper <= allowed.bound_points:
        verdict = Verdict.RECOMMENDED
    elif lower > allowed.loss_points:
        verdict = Verdict.TOO_LOSSY
    more = _more(worse, better, questions, allowed) if verdict is Verdict.UNDECIDED else 0
    p_value = mcnemar(worse, better)
    return Loss(questions, worse, better, points, lower, upper, p_value, verdict, more)


def _more(worse: int, better: int, questions: int, allowed: Allowed) -> int:
    """Return how many more questions would decide it if answers went on as they did."""
    rates = (worse / questions, better / questions) if questions else (0.0, 0.0)
    low, high = questions, _MOST_QUESTIONS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_settled(rates, middle, allowed) else (middle, high)
    return high - questions


def _is_settled(rates: tuple[float, float], questions: int, allowed: Allowed) -> bool:
    worse, better = (rate * questions for rate in rates)
    if 100 * (worse - better) / questions <= allowed.loss_points:
        upper = loss_bound(worse, better, questions, z=_Z_ONE_SIDED_95)
        return 100 * upper <= allowed.bound_points
    lower = loss_bound(worse, better, questions, z=-_Z_ONE_SIDED_95)
    return 100 * lower > allowed.loss_points
