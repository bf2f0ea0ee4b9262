"""Sums of money cut up exactly."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from ds4watch.model.money import Nanos

Part = TypeVar("Part", bound=Hashable)


def split(nanos: Nanos, weights: Mapping[Part, int]) -> dict[Part, Nanos]:
    """Return the shares of an amount by weight; they sum to exactly it.

    By largest remainder: each gets its share rounded down, and the rest goes, one each, to those
    with the largest remainders (of equal ones the first). Empty if no weight is above 0. Weights
    are not negative; the amount may be.
    """
    total = sum(weights.values())
    if total <= 0:
        return {}
    sign = -1 if nanos < 0 else 1
    whole = {part: divmod(abs(nanos) * weight, total) for part, weight in weights.items()}
    left = abs(nanos) - sum(share for share, _ in whole.values())
    largest = sorted(whole, key=lambda part: -whole[part][1])[:left]
    shares = {part: share for part, (share, _) in whole.items()}
    for part in largest:
        shares[part] += 1
    return {part: sign * share for part, share in shares.items()}
