"""Whether another worker would have answered sooner: the regret of a choice, in hindsight.

What a worker would have taken for a request follows from what it took for others at about the same
time: its wait, the prompt's tokens that it would have had to compute, its decoding. Only the one
that was chosen is known to have had something cached, so others are reckoned without: no regret is
overstated for a cache, and a hit missed elsewhere is not seen.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ds4watch.model.ports import UnixSeconds


@dataclass(frozen=True, slots=True)
class Served:
    """One answered request, at its worker: times in seconds from when it was sent there."""

    worker: str
    sent_at: UnixSeconds
    first_seconds: float
    decode_seconds: float
    computed_tokens: int
    """Of the prompt, without what was cached."""
    prompt_tokens: int
    completion_tokens: int

    @property
    def took_seconds(self) -> float:
        """From sent to the end."""
        return self.first_seconds + self.decode_seconds


def prefill_seconds_per_token(requests: Sequence[Served]) -> float:
    """Return what a computed token of a prompt takes: the median slope over pairs; 0 if unknown.

    H. Theil (1950) and P. K. Sen (1968): outliers that stood in a queue do not move it. Pairs are
    neighbours half the list apart, once ordered by length.
    """
    ordered = sorted(requests, key=lambda it: it.computed_tokens)
    half = len(ordered) // 2
    slopes = [
        (b.first_seconds - a.first_seconds) / (b.computed_tokens - a.computed_tokens)
        for a, b in zip(ordered, ordered[half:], strict=False)
        if b.computed_tokens > a.computed_tokens
    ]
    return max(0.0, statistics.median(slopes)) if slopes else 0.0


def regret_seconds(
    request: Served, others: Mapping[str, Sequence[Served]], *, per_token: float
) -> float | None:
    """Return by how much the best other worker would have been sooner; 0 if none would have been.

    others: of each other worker that could have served it, what it answered at about that time.
    None if nothing is known of any of them.
    """
    would = [_would_take(request, answered, per_token) for answered in others.values() if answered]
    return max(0.0, request.took_seconds - min(would)) if would else None


def _would_take(request: Served, answered: Sequence[Served], per_token: float) -> float:
    waits = [max(0.0, it.first_seconds - per_token * it.computed_tokens) for it in answered]
    tokens = sum(it.completion_tokens for it in answered)
    decode = sum(it.decode_seconds for it in answered) / tokens if tokens else 0.0
    prefill = per_token * request.prompt_tokens
    return statistics.median(waits) + prefill + decode * request.completion_tokens
