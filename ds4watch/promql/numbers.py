"""Numerics shared by aggregations and functions over time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ds4watch.model.series import FloatArray

_CANCELLED = 1e-14


def exact_sum(values: FloatArray | Sequence[float]) -> float:
    """Sum without loss between numbers of very different size; infinities and NaN pass through."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # a partial sum too large, or inf - inf
        return float(np.sum(values))


def exact_mean(values: FloatArray) -> float:
    """Mean that overflows only if the mean itself does."""
    total = exact_sum(values)
    if math.isinf(total) and np.isfinite(values).all():
        return exact_sum(values / len(values))
    return total / len(values)


def variance(values: FloatArray) -> float:
    """Return the population variance; the shift makes it exactly 0 for equal values."""
    shifted = values - values[0]
    return exact_mean((shifted - exact_mean(shifted)) ** 2)


def row_sums(values: FloatArray) -> FloatArray:
    """Sum each row as `exact_sum` does, to the last bit or two.

    Halves are added to each other with the error of each addition kept (Knuth's TwoSum): twice
    the working precision. Where terms cancel out beyond that, the exact sum is taken.
    """
    total, lost = values, np.zeros(len(values))
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        left, right = total[:, :half], total[:, half : 2 * half]
        sums = left + right
        virtual = sums - left
        lost += ((left - (sums - virtual)) + (right - virtual)).sum(axis=1)
        rest = total[:, 2 * half :]
        total = np.concatenate([sums, rest], axis=1) if rest.shape[1] else sums
    result: FloatArray = total[:, 0] + lost if total.shape[1] else lost
    cancelled = np.abs(result) < np.abs(values).sum(axis=1) * _CANCELLED
    for row in np.flatnonzero(cancelled | ~np.isfinite(result)).tolist():
        result[row] = exact_sum(values[row])
    return result


def quantile(q: float, values: FloatArray) -> float:
    """Interpolated quantile, NaN counting as the smallest value (Prometheus' quantile.go)."""
    if math.isnan(q) or len(values) == 0:
        return math.nan
    if q < 0 or q > 1:
        return math.copysign(math.inf, q)
    is_nan = np.isnan(values)
    ordered = np.concatenate([values[is_nan], np.sort(values[~is_nan])])
    rank = q * (len(ordered) - 1)
    lower = math.floor(rank)
    upper = min(lower + 1, len(ordered) - 1)
    weight = rank - lower
    return float(ordered[lower] * (1 - weight) + ordered[upper] * weight)


def quantiles(q: float, values: FloatArray, counts: NDArray[np.intp]) -> FloatArray:
    """Return `quantile` of the first `counts` values of each row; what follows them is NaN."""
    if math.isnan(q):
        return np.full(len(values), math.nan)
    if q < 0 or q > 1:
        return np.full(len(values), math.copysign(math.inf, q))
    ordered = np.sort(values, axis=1)
    rows = np.arange(len(values))
    nans = counts - np.count_nonzero(~np.isnan(values), axis=1)

    def at(rank: NDArray[np.intp]) -> FloatArray:
        return np.where(rank < nans, math.nan, ordered[rows, rank - nans])

    rank = q * (counts - 1)
    lower = np.floor(rank).astype(np.intp)
    weight = rank - lower
    upper = np.minimum(lower + 1, counts - 1)
    result: FloatArray = at(lower) * (1 - weight) + at(upper) * weight
    return result


def plain(value: float) -> str:
    """Format as Go's 'f' with the fewest digits: no exponent, `+Inf`, `-Inf`, `NaN`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return np.format_float_positional(value, trim="-")
