"""The quantization error: how far a model's log-probabilities lie from its reference's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class DivergenceRefusal(StrEnum):
    """Why two sets of log-probabilities cannot be compared."""

    NO_TOKENS = "no_tokens"
    PROMPT_COUNT = "prompt_count"
    TOKEN_COUNT = "token_count"  # noqa: S105 - a count of tokens, not a password
    NOT_FINITE = "not_finite"


@dataclass(frozen=True, slots=True)
class Divergence:
    """Mean |Δ log p| in nats over `tokens` tokens of `prompts` prompts."""

    mean_abs_delta_logp: float
    tokens: int
    prompts: int


def divergence(
    reference: Sequence[Sequence[float]], quantized: Sequence[Sequence[float]]
) -> Divergence | DivergenceRefusal:
    """Return the mean absolute difference of log-probabilities over all tokens of all prompts.

        D = (1 / N) · Σ_p Σ_i | log P_quantized(t_pi | t_p<i) - log P_reference(t_pi | t_p<i) |

    where t_pi is token i of prompt p and N the number of terms: each token weighs the same,
    whichever prompt it stands in. Both arguments hold one list for each prompt, aligned token by
    token; lists of different length mean that the two models do not split the text alike, and
    such are refused, as is a set without a token or with a value that is not finite.
    """
    if len(reference) != len(quantized):
        return DivergenceRefusal.PROMPT_COUNT
    pairs = list(zip(reference, quantized, strict=True))
    if any(len(mine) != len(theirs) for mine, theirs in pairs):
        return DivergenceRefusal.TOKEN_COUNT
    deltas = [abs(b - a) for mine, theirs in pairs for a, b in zip(mine, theirs, strict=True)]
    if not deltas:
        return DivergenceRefusal.NO_TOKENS
    if not all(math.isfinite(delta) for delta in deltas):
        return DivergenceRefusal.NOT_FINITE
    return Divergence(math.fsum(deltas) / len(deltas), tokens=len(deltas), prompts=len(pairs))
