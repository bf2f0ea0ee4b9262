"""Functions of all samples in a window: regressions, `…_over_time`. A row is a series.

Behind a row's `counts` samples its values are NaN; comparisons with them are false.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from ds4watch.model.errors import QueryError
from ds4watch.model.series import FloatArray
from ds4watch.promql.columns import BoolArray
from ds4watch.promql.numbers import exact_mean, quantiles, row_sums
from ds4watch.promql.rates import OF_ENDS, ends_of, ends_where
from ds4watch.promql.storage import Windows
from ds4watch.promql.vectors import EMPTY, AnySpan, RangeVector, Vector

OfWindows: TypeAlias = Callable[..., FloatArray]
"""(windows, span, *scalars) -> one value a row."""


def windows_where(windows: Windows, mask: BoolArray) -> Windows:
    """Return the series where `mask` is true."""
    labels = windows.labels.where(mask)
    if labels is windows.labels:
        return windows
    return Windows(labels, windows.times[mask], windows.values[mask], windows.counts[mask])


def _inside(windows: Windows) -> BoolArray:
    inside: BoolArray = np.arange(windows.values.shape[1]) < windows.counts[:, np.newaxis]
    return inside


def _filled(windows: Windows, values: FloatArray) -> FloatArray:
    """Return `values` with 0 for NaN behind the samples, to be summed."""
    if bool((windows.counts == values.shape[1]).all()):
        return values
    return np.where(_inside(windows), values, 0.0)


def _back(windows: Windows, values: FloatArray, steps: int) -> FloatArray:
    """Return the last value of each row, or the one `steps` before it."""
    picked: FloatArray = values[np.arange(len(values)), windows.counts - 1 - steps]
    return picked


def _irate(windows: Windows, _span: AnySpan) -> FloatArray:
    before, last = _back(windows, windows.values, 1), _back(windows, windows.values, 0)
    growth = np.where(last < before, last, last - before)
    rate: FloatArray = growth / (
        _back(windows, windows.times, 0) - _back(windows, windows.times, 1)
    )
    return rate


def _idelta(windows: Windows, _span: AnySpan) -> FloatArray:
    return _back(windows, windows.values, 0) - _back(windows, windows.values, 1)


def _changes(windows: Windows, _span: AnySpan) -> FloatArray:
    before, after = windows.values[:, :-1], windows.values[:, 1:]
    changed = (before != after) & ~(np.isnan(before) & np.isnan(after))
    return _counted(changed & _inside(windows)[:, 1:])


def _resets(windows: Windows, _span: AnySpan) -> FloatArray:
    fell: BoolArray = windows.values[:, 1:] < windows.values[:, :-1]
    return _counted(fell)


def _counted(mask: BoolArray) -> FloatArray:
    counted: FloatArray = mask.sum(axis=1, dtype=np.float64)
    return counted


def _sum(windows: Windows, _span: AnySpan) -> FloatArray:
    return row_sums(_filled(windows, windows.values))


def _avg(windows: Windows, _span: AnySpan) -> FloatArray:
    return _means(windows, windows.values)


def _means(windows: Windows, values: FloatArray) -> FloatArray:
    totals = row_sums(_filled(windows, values))
    means = totals / windows.counts
    for row in np.flatnonzero(np.isinf(totals)).tolist():
        means[row] = exact_mean(values[row, : windows.counts[row]])
    return means


def _variance(windows: Windows, _span: AnySpan) -> FloatArray:
    """Return the population variance; the shift makes it exactly 0 for equal values."""
    shifted = windows.values - windows.values[:, :1]
    means = _means(windows, shifted)
    return _means(windows, (shifted - means[:, np.newaxis]) ** 2)


def _deviation(windows: Windows, span: AnySpan) -> FloatArray:
    return np.sqrt(_variance(windows, span))


def _quantile(windows: Windows, _span: AnySpan, q: float) -> FloatArray:
    return quantiles(q, windows.values, windows.counts)


def _mad(windows: Windows, _span: AnySpan) -> FloatArray:
    """Return the median distance from the median; NaN if there is one among the samples."""
    medians = quantiles(0.5, windows.values, windows.counts)
    distances = np.abs(windows.values - medians[:, np.newaxis])
    spread = quantiles(0.5, distances, windows.counts)
    has_nan = (np.isnan(windows.values) & _inside(windows)).any(axis=1)
    return np.where(has_nan, math.nan, spread)


def _regression(windows: Windows, times: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return slope and value at time 0 of each row's least-squares line."""
    values, counts = _filled(windows, windows.values), windows.counts
    times = _filled(windows, times)
    sum_x, sum_y = row_sums(times), row_sums(values)
    covariance = row_sums(times * values) - sum_x * sum_y / counts
    spread = row_sums(times * times) - sum_x * sum_x / counts
    slope = covariance / spread
    first = windows.values[:, 0]
    flat = ((windows.values == first[:, np.newaxis]) | ~_inside(windows)).all(axis=1)
    level = np.where(np.isfinite(first), 0.0, math.nan)
    at_zero = np.where(flat, first + level, sum_y / counts - slope * sum_x / counts)
    return np.where(flat, level, slope), at_zero


def _deriv(windows: Windows, _span: AnySpan) -> FloatArray:
    return _regression(windows, windows.times - windows.times[:, :1])[0]


def _predict_linear(windows: Windows, span: AnySpan, ahead_seconds: float) -> FloatArray:
    slope, now = _regression(windows, windows.times - span.at)
    return slope * ahead_seconds + now


def _smoothed(windows: Windows, _span: AnySpan, smoothing: float, trend: float) -> FloatArray:
    """Return the last level of Holt's linear method (Prometheus' doubleExponentialSmoothing)."""
    for name, factor in (("smoothing", smoothing), ("trend", trend)):
        if not 0 <= factor <= 1:
            raise QueryError(f"invalid {name} factor, expected 0 <= {factor:g} <= 1")
    values = windows.values
    before, level, slope = np.zeros(len(values)), values[:, 0], values[:, 1] - values[:, 0]
    for step in range(1, values.shape[1]):
        inside = step < windows.counts
        if step > 1:
            slope = trend * (level - before) + (1 - trend) * slope
        after = smoothing * values[:, step] + (1 - smoothing) * (level + slope)
        before, level = np.where(inside, level, before), np.where(inside, after, level)
    return level


def _when(best: Callable[[FloatArray], FloatArray]) -> OfWindows:
    """Return when the smallest or largest value was last seen; NaN counts only if all are."""

    def when(windows: Windows, _span: AnySpan) -> FloatArray:
        wanted = best(windows.values)[:, np.newaxis]
        hits = (windows.values == wanted) | (np.isnan(wanted) & _inside(windows))
        last = hits.shape[1] - 1 - np.argmax(hits[:, ::-1], axis=1)
        found: FloatArray = windows.times[np.arange(len(last)), last]
        return found

    return when


def _lowest(values: FloatArray) -> FloatArray:
    lowest: FloatArray = np.fmin.reduce(values, axis=1)
    return lowest


def _highest(values: FloatArray) -> FloatArray:
    highest: FloatArray = np.fmax.reduce(values, axis=1)
    return highest


OF_WINDOWS: dict[str, OfWindows] = {
    "irate": _irate,
    "idelta": _idelta,
    "changes": _changes,
    "resets": _resets,
    "deriv": _deriv,
    "predict_linear": _predict_linear,
    "double_exponential_smoothing": _smoothed,
    "avg_over_time": _avg,
    "sum_over_time": _sum,
    "min_over_time": lambda windows, _span: _lowest(windows.values),
    "max_over_time": lambda windows, _span: _highest(windows.values),
    "ts_of_min_over_time": _when(_lowest),
    "ts_of_max_over_time": _when(_highest),
    "mad_over_time": _mad,
    "stdvar_over_time": _variance,
    "stddev_over_time": _deviation,
    "quantile_over_time": _quantile,
}

NEED_TWO = frozenset(
    {
        "rate",
        "increase",
        "delta",
        "irate",
        "idelta",
        "deriv",
        "predict_linear",
        "double_exponential_smoothing",
    }
)
"""Functions without a result for a series of one sample."""
KEEP_NAME = frozenset({"first_over_time", "last_over_time"})
OVER_TIME = frozenset(OF_ENDS) | frozenset(OF_WINDOWS)


def over_time(name: str, vector: RangeVector, scalars: Sequence[object]) -> Vector:
    """Return what a function makes of each series of a range vector."""
    samples, span = vector.samples, vector.span
    if not len(samples.labels):
        return EMPTY
    enough = samples.counts > 1 if name in NEED_TWO else None
    if name in OF_ENDS:
        ends = ends_of(samples) if isinstance(samples, Windows) else samples
        ends = ends if enough is None else ends_where(ends, enough)
        return Vector(ends.labels, OF_ENDS[name](ends, span))
    assert isinstance(samples, Windows)
    windows = samples if enough is None else windows_where(samples, enough)
    if not len(windows.labels):
        return EMPTY
    return Vector(windows.labels, OF_WINDOWS[name](windows, span, *scalars))
