"""Functions of one series' samples in a window: rates, regressions, `…_over_time`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ds4watch.model.series import FloatArray
from ds4watch.promql.numbers import exact_mean, exact_sum, quantile, variance
from ds4watch.promql.vectors import Window

OverTime: TypeAlias = Callable[..., float | None]
"""(window, *scalars) -> the value, or None for no result."""


def _extrapolated(window: Window, *, counter: bool) -> float | None:
    """Growth over the whole window (Prometheus' extrapolatedRate).

    Up to the window's edge if the gap is under 1.1 times the mean spacing, else half a spacing; a
    counter not beyond the point where it would have been zero.
    """
    times, values = window.times, window.values
    if len(values) < 2:
        return None
    growth = float(values[-1] - values[0])
    if counter:
        growth += float(values[:-1][values[1:] < values[:-1]].sum())
    sampled = float(times[-1] - times[0])
    spacing = sampled / (len(values) - 1)
    to_start = _reach(float(times[0]) - window.start, spacing)
    to_end = _reach(window.end - float(times[-1]), spacing)
    if counter and growth > 0 and values[0] >= 0:
        to_start = min(to_start, sampled * float(values[0]) / growth)
    return growth * (sampled + to_start + to_end) / sampled


def _reach(gap: float, spacing: float) -> float:
    return spacing / 2 if gap >= spacing * 1.1 else gap


def _increase(window: Window) -> float | None:
    return _extrapolated(window, counter=True)


def _rate(window: Window) -> float | None:
    growth = _extrapolated(window, counter=True)
    return None if growth is None else growth / (window.end - window.start)


def _delta(window: Window) -> float | None:
    return _extrapolated(window, counter=False)


def _irate(window: Window) -> float | None:
    if len(window.values) < 2:
        return None
    before, last = float(window.values[-2]), float(window.values[-1])
    growth = last if last < before else last - before
    return growth / float(window.times[-1] - window.times[-2])


def _idelta(window: Window) -> float | None:
    if len(window.values) < 2:
        return None
    return float(window.values[-1] - window.values[-2])


def _changes(window: Window) -> float:
    before, after = window.values[:-1], window.values[1:]
    return float(((before != after) & ~(np.isnan(before) & np.isnan(after))).sum())


def _resets(window: Window) -> float:
    return float((window.values[1:] < window.values[:-1]).sum())


def _regression(times: FloatArray, values: FloatArray) -> tuple[float, float]:
    """Return (slope, value at time 0) of the least-squares line."""
    if (values == values[0]).all():
        return (0.0, float(values[0])) if math.isfinite(values[0]) else (math.nan, math.nan)
    count = len(values)
    sum_x, sum_y = exact_sum(times), exact_sum(values)
    covariance = exact_sum(times * values) - sum_x * sum_y / count
    spread = exact_sum(times * times) - sum_x * sum_x / count
    slope = covariance / spread
    return slope, sum_y / count - slope * sum_x / count


def _deriv(window: Window) -> float | None:
    if len(window.values) < 2:
        return None
    return _regression(window.times - window.times[0], window.values)[0]


def _predict_linear(window: Window, ahead_seconds: float) -> float | None:
    if len(window.values) < 2:
        return None
    slope, now = _regression(window.times - window.at, window.values)
    return slope * ahead_seconds + now


def _quantile(q: float, window: Window) -> float:
    return quantile(q, window.values)


def _mad(window: Window) -> float:
    """Return the median distance from the median; NaN if there is one among the samples."""
    if np.isnan(window.values).any():
        return math.nan
    return quantile(0.5, np.abs(window.values - quantile(0.5, window.values)))


OVER_TIME: dict[str, OverTime] = {
    "rate": _rate,
    "increase": _increase,
    "delta": _delta,
    "irate": _irate,
    "idelta": _idelta,
    "changes": _changes,
    "resets": _resets,
    "deriv": _deriv,
    "predict_linear": _predict_linear,
    "avg_over_time": lambda window: exact_mean(window.values),
    "sum_over_time": lambda window: exact_sum(window.values),
    "min_over_time": lambda window: float(np.fmin.reduce(window.values)),
    "max_over_time": lambda window: float(np.fmax.reduce(window.values)),
    "count_over_time": lambda window: float(len(window.values)),
    "last_over_time": lambda window: float(window.values[-1]),
    "first_over_time": lambda window: float(window.values[0]),
    "mad_over_time": _mad,
    "present_over_time": lambda _window: 1.0,
    "stdvar_over_time": lambda window: variance(window.values),
    "stddev_over_time": lambda window: math.sqrt(variance(window.values)),
    "quantile_over_time": _quantile,
}
"""Arguments come in PromQL's order, the range vector's place taken by one window after another."""

KEEPS_NAME = frozenset({"first_over_time", "last_over_time"})
