"""Functions over time that need no more of a window than its ends: rates, counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ds4watch.model.series import FloatArray
from ds4watch.promql.columns import BoolArray
from ds4watch.promql.storage import Ends, Windows
from ds4watch.promql.vectors import AnySpan

OfEnds: TypeAlias = Callable[[Ends, AnySpan], FloatArray]


def _extrapolated(ends: Ends, span: AnySpan, *, counter: bool) -> FloatArray:
    """Growth over the whole window (Prometheus' extrapolatedRate).

    Up to the window's edge if the gap is under 1.1 times the mean spacing, else half a spacing; a
    counter not beyond the point where it would have been zero.
    """
    growth = ends.last_values - ends.first_values
    if counter:
        growth = growth + ends.drops
    sampled = ends.last_times - ends.first_times
    spacing = sampled / (ends.counts - 1)
    to_start = _reach(ends.first_times - span.start, spacing)
    to_end = _reach(span.end - ends.last_times, spacing)
    if counter:
        bounded = (growth > 0) & (ends.first_values >= 0)
        to_zero = sampled * ends.first_values / growth
        to_start = np.where(bounded & (to_zero < to_start), to_zero, to_start)
    result: FloatArray = growth * (sampled + to_start + to_end) / sampled
    return result


def _reach(gap: FloatArray, spacing: FloatArray) -> FloatArray:
    return np.where(gap >= spacing * 1.1, spacing / 2, gap)


def _increase(ends: Ends, span: AnySpan) -> FloatArray:
    return _extrapolated(ends, span, counter=True)


def _rate(ends: Ends, span: AnySpan) -> FloatArray:
    rate: FloatArray = _extrapolated(ends, span, counter=True) / (span.end - span.start)
    return rate


def _delta(ends: Ends, span: AnySpan) -> FloatArray:
    return _extrapolated(ends, span, counter=False)


OF_ENDS: dict[str, OfEnds] = {
    "rate": _rate,
    "increase": _increase,
    "delta": _delta,
    "count_over_time": lambda ends, _span: ends.counts.astype(np.float64),
    "first_over_time": lambda ends, _span: ends.first_values,
    "last_over_time": lambda ends, _span: ends.last_values,
    "present_over_time": lambda ends, _span: np.ones(ends.counts.shape),
    "ts_of_first_over_time": lambda ends, _span: ends.first_times,
    "ts_of_last_over_time": lambda ends, _span: ends.last_times,
}


def ends_of(windows: Windows) -> Ends:
    """Return the ends of whole windows."""
    labels, times, values, counts = windows[:4]
    rows, last = np.arange(len(labels)), counts - 1
    before, after = values[:, :-1], values[:, 1:]
    drops = np.where(after < before, before, 0.0).sum(axis=1)
    return Ends(
        labels=labels,
        first_times=times[:, 0],
        first_values=values[:, 0],
        last_times=times[rows, last],
        last_values=values[rows, last],
        counts=counts,
        drops=drops,
    )


def ends_where(ends: Ends, mask: BoolArray) -> Ends:
    """Return the series where `mask` is true."""
    labels = ends.labels.where(mask)
    if labels is ends.labels:
        return ends
    return Ends(
        labels=labels,
        first_times=ends.first_times[mask],
        first_values=ends.first_values[mask],
        last_times=ends.last_times[mask],
        last_values=ends.last_values[mask],
        counts=ends.counts[mask],
        drops=ends.drops[mask],
    )
