"""Quantiles and fractions of classic histograms: one series for each `le`.

Values may be those of one instant, (n,), or of several at which all series are there, (n, k).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ds4watch.model.errors import QueryError
from ds4watch.model.series import FloatArray, Labels
from ds4watch.promql.columns import BoolArray, IndexArray, LabelColumn
from ds4watch.promql.numbers import plain
from ds4watch.promql.relabel import check_label_name
from ds4watch.promql.vectors import Vector, leaving, with_label, without_name

LE = "le"
SMALL_DELTA = 1e-12
"""Relative difference of neighbouring counts that is float noise, not a broken histogram."""


@dataclass(frozen=True, slots=True)
class _Histograms:
    """Which elements of a label column are buckets of which histogram, one to a row.

    bounds: (histograms, most buckets), ascending, a shorter row filled up with +Inf.
    sizes: buckets of each. series: elements of the column. elements, cells: where in the column,
    and where in the flattened table, each bucket is.
    """

    labels: LabelColumn
    bounds: FloatArray
    sizes: IndexArray
    series: int
    elements: IndexArray
    cells: IndexArray

    @property
    def complete(self) -> BoolArray:
        """Whether the last bucket of each is +Inf."""
        complete: BoolArray = self.bounds[np.arange(len(self.sizes)), self.sizes - 1] == math.inf
        return complete

    def repeated(self, times: int) -> _Histograms:
        """Return as many rows again for each further vector behind the first."""
        vectors = np.arange(times)[:, np.newaxis]
        return _Histograms(
            labels=self.labels,
            bounds=np.tile(self.bounds, (times, 1)),
            sizes=np.tile(self.sizes, times),
            series=self.series,
            elements=(vectors * self.series + self.elements).reshape(-1),
            cells=(vectors * self.bounds.size + self.cells).reshape(-1),
        )

    def counts(self, values: FloatArray) -> FloatArray:
        """Return the counts of all buckets; equal bounds add up, a row is filled with its last."""
        shape = self.bounds.shape
        counts: FloatArray = np.zeros(shape)
        np.add.at(counts.reshape(-1), self.cells, values[self.elements])
        if bool((self.sizes == shape[1]).all()):
            return counts
        last = counts[np.arange(shape[0]), self.sizes - 1]
        behind = np.arange(shape[1]) >= self.sizes[:, np.newaxis]
        return np.where(behind, last[:, np.newaxis], counts)


_OfRows = Callable[[_Histograms, FloatArray], FloatArray]


def histogram_quantile(q: float, vector: Vector) -> Vector:
    """Return the `q`-quantile of each histogram in `vector`, interpolated within its bucket."""
    histograms = _histograms(vector.labels)
    return Vector(histograms.labels, _at_each(_quantiles_of(q), histograms, vector.values))


def histogram_quantiles(vector: Vector, label: str, *quantiles: float) -> Vector:
    """Return several quantiles of each histogram, told apart by `label`."""
    check_label_name(label)
    histograms = _histograms(vector.labels)
    texts = [_quantile_text(q) for q in quantiles]

    def make(sets: tuple[Labels, ...]) -> LabelColumn:
        if any(name == label for labels in sets for name, _ in labels):
            raise QueryError(f"label {label!r} is there already")
        return LabelColumn(
            tuple([with_label(labels, label, text) for text in texts for labels in sets])
        )

    labels = histograms.labels.derived(("quantiles", label, *texts), make)
    found = [_at_each(_quantiles_of(q), histograms, vector.values) for q in quantiles]
    return Vector(labels, np.concatenate(found))


def histogram_fraction(low: float, high: float, vector: Vector) -> Vector:
    """Return the share of each histogram's observations between `low` and `high`."""

    def fractions(histograms: _Histograms, values: FloatArray) -> FloatArray:
        counts = histograms.counts(values)
        rows = zip(histograms.bounds, counts, histograms.sizes.tolist(), strict=True)
        found = [_fraction(low, high, bounds[:size], row[:size]) for bounds, row, size in rows]
        return np.array(found, dtype=np.float64)

    histograms = _histograms(vector.labels)
    return Vector(histograms.labels, _at_each(fractions, histograms, vector.values))


def _quantiles_of(q: float) -> _OfRows:
    return lambda histograms, values: _quantile(q, histograms, values)


def _at_each(of: _OfRows, histograms: _Histograms, values: FloatArray) -> FloatArray:
    if values.ndim == 1:
        return of(histograms, values)
    steps = values.shape[1]
    rows = of(histograms.repeated(steps), values.T.reshape(-1))
    by_step: FloatArray = rows.reshape(steps, -1).T
    return by_step


def _quantile_text(q: float) -> str:
    """Format as in `le` labels: at least one digit behind the point."""
    return repr(float(q)) if math.isfinite(q) else plain(q)


def _histograms(column: LabelColumn) -> _Histograms:
    return column.derived("histograms", _group)


def _group(sets: tuple[Labels, ...]) -> _Histograms:
    rest = leaving((LE,))
    buckets: dict[Labels, dict[float, list[int]]] = {}
    for element, labels in enumerate(sets):
        bound = _bound(dict(labels).get(LE, ""))
        if bound is not None:
            buckets.setdefault(rest(labels), {}).setdefault(bound, []).append(element)
    width = max((len(one) for one in buckets.values()), default=0)
    bounds = np.full((len(buckets), width), math.inf)
    elements: list[int] = []
    cells: list[int] = []
    for row, one in enumerate(buckets.values()):
        for place, bound in enumerate(sorted(one)):
            bounds[row, place] = bound
            elements += one[bound]
            cells += [row * width + place] * len(one[bound])
    return _Histograms(
        labels=LabelColumn(tuple([without_name(labels) for labels in buckets])),
        bounds=bounds,
        sizes=_indices([len(one) for one in buckets.values()]),
        series=len(sets),
        elements=_indices(elements),
        cells=_indices(cells),
    )


def _indices(numbers: list[int]) -> NDArray[np.intp]:
    return np.array(numbers, dtype=np.intp)


def _bound(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _quantile(q: float, histograms: _Histograms, values: FloatArray) -> FloatArray:
    """Prometheus' bucketQuantile: NaN without a +Inf bucket, a second one, or an observation."""
    rows = np.arange(len(histograms.sizes))
    if math.isnan(q) or not len(rows):
        return np.full(len(rows), math.nan)
    if q < 0 or q > 1:
        return np.full(len(rows), math.copysign(math.inf, q))
    bounds, last = histograms.bounds, histograms.sizes - 1
    counts = _monotonic(histograms.counts(values))
    total = counts[:, -1]
    ranks = q * total
    places = np.minimum((~(counts >= ranks[:, np.newaxis])).sum(axis=1), last)
    upper, count = bounds[rows, places], counts[rows, places]
    lower = np.where(places > 0, bounds[rows, places - 1], 0.0)
    below = np.where(places > 0, counts[rows, places - 1], 0.0)
    found = lower + (upper - lower) * ((ranks - below) / (count - below))
    found = np.where((places == 0) & (upper <= 0), upper, found)
    found = np.where(places == last, bounds[rows, last - 1], found)
    told = histograms.complete & (last > 0) & (total != 0) & ~np.isnan(total)
    return np.where(told, found, math.nan)


def _fraction(low: float, high: float, bounds: FloatArray, counts: FloatArray) -> float:
    """Prometheus' BucketFraction: buckets without a finite width add nothing in part."""
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
    result = counts.copy()
    for place in range(1, counts.shape[1]):
        highest, count = result[:, place - 1], counts[:, place]
        tiny = np.abs(count - highest) <= SMALL_DELTA * (np.abs(count) + np.abs(highest))
        result[:, place] = np.where(tiny | (count < highest), highest, count)
    return result
