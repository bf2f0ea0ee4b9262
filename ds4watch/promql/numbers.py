"""Numerics shared by aggregations and functions over time."""

from __future__ import annotations

import math

import numpy as np

from ds4watch.model.series import FloatArray


def exact_sum(values: FloatArray) -> float:
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


def plain(value: float) -> str:
    """Format as Go's 'f' with the fewest digits: no exponent, `+Inf`, `-Inf`, `NaN`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return np.format_float_positional(value, trim="-")
