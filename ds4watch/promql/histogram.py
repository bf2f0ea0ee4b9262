"""Quantiles and fractions of classic histograms: one series for each `le`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

import numpy as np

from ds4watch.model.series import FloatArray, Labels
from ds4watch.promql.vectors import Vector, leave, vector_of, without_name

LE = "le"
SMALL_DELTA = 1e-12
"""Relative difference of neighbouring counts that is float noise, not a broken histogram."""


def histogram_quantile(q: float, vector: Vector) -> Vector:
    """Return the `q`-quantile of each histogram in `vector`, interpolated within its bucket."""
    return _of_each(vector, lambda buckets: _bucket_quantile(q, buckets))


def histogram_fraction(low: float, high: float, vector: Vector) -> Vector:
    """Return the share of each histogram's observations between `low` and `high`."""
    return _of_each(vector, lambda buckets: _bucket_fraction(low, high, buckets))


def _of_each(vector: Vector, measure: Callable[[dict[float, float]], float]) -> Vector:
    histograms: dict[Labels, dict[float, float]] = defaultdict(dict)
    for labels, count in zip(vector.labels, vector.values, strict=True):
        bound = _bound(dict(labels).get(LE, ""))
        if bound is not None:
            buckets = histograms[leave(labels, (LE,))]
            buckets[bound] = buckets.get(bound, 0.0) + float(count)
    measured = [measure(buckets) for buckets in histograms.values()]
    return vector_of([without_name(labels) for labels in histograms], measured)


def _bound(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _bucket_quantile(q: float, buckets: dict[float, float]) -> float:
    """Prometheus' bucketQuantile: NaN without a +Inf bucket, a second one, or an observation."""
    if math.isnan(q):
        return math.nan
    if q < 0 or q > 1:
        return math.copysign(math.inf, q)
    bounds = np.array(sorted(buckets))
    if len(bounds) < 2 or bounds[-1] != math.inf:
        return math.nan
    counts = _monotonic(np.array([buckets[bound] for bound in bounds]))
    if counts[-1] == 0 or math.isnan(counts[-1]):
        return math.nan
    return _interpolate(q * float(counts[-1]), bounds, counts)


def _interpolate(rank: float, bounds: FloatArray, counts: FloatArray) -> float:
    position = int(np.searchsorted(counts[:-1], rank, side="left"))
    if position == len(bounds) - 1:
        return float(bounds[-2])
    upper = float(bounds[position])
    if position == 0:
        return upper if upper <= 0 else upper * (rank / float(counts[0]))
    lower, below = float(bounds[position - 1]), float(counts[position - 1])
    return lower + (upper - lower) * ((rank - below) / float(counts[position] - below))


def _bucket_fraction(low: float, high: float, buckets: dict[float, float]) -> float:
    """Prometheus' BucketFraction: buckets without a finite width add nothing in part."""
    bounds = np.array(sorted(buckets))
    counts = np.array([buckets[bound] for bound in bounds])
    if bounds[-1] != math.inf or counts[-1] == 0 or math.isnan(low) or math.isnan(high):
        return math.nan
    if low >= high:
        return 0.0
    total = float(counts[-1])
    below = [min(_rank_at(edge, bounds, counts), total) for edge in (low, high)]
    return (below[1] - below[0]) / total


def _rank_at(value: float, bounds: FloatArray, counts: FloatArray) -> float:
    """Return how many observations lie below `value`."""
    position = int(np.searchsorted(bounds, value, side="right"))
    if position == len(bounds):
        return float(counts[-1])
    before = float(counts[position - 1]) if position else 0.0
    first_lower = 0.0 if bounds[0] > 0 else -math.inf
    lower = float(bounds[position - 1]) if position else first_lower
    if value <= lower:
        return before
    if lower == -math.inf:
        return float(counts[position])
    share = (value - lower) / (float(bounds[position]) - lower)
    return before + (float(counts[position]) - before) * share


def _monotonic(counts: FloatArray) -> FloatArray:
    """Return counts that never fall; tiny rises, which are float noise, are levelled too."""
    highest = float(counts[0])
    result = [highest]
    for count in counts[1:]:
        tiny = abs(count - highest) <= SMALL_DELTA * (abs(count) + abs(highest))
        highest = highest if tiny or count < highest else float(count)
        result.append(highest)
    return np.array(result)
