"""A storage for tests: series in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ds4watch.model.series import NAME_LABEL, FloatArray, Labels, labels_of
from ds4watch.promql.selection import matches
from ds4watch.promql.storage import Matcher, SeriesWindow


@dataclass
class Series:
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    failed: bool = False


@dataclass
class MemoryStorage:
    """Series by their labels, `__name__` among them."""

    series: dict[Labels, Series] = field(default_factory=dict)

    def add(self, labels: Labels, points: Sequence[tuple[float, float]]) -> Series:
        """Append (time, value) points to a series."""
        series = self.series.setdefault(labels, Series())
        for at, value in points:
            series.times.append(at)
            series.values.append(value)
        return series

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> list[SeriesWindow]:
        found = []
        for labels, series in self.series.items():
            if not matches(matchers, labels):
                continue
            times: FloatArray = np.array(series.times, dtype=np.float64)
            values: FloatArray = np.array(series.values, dtype=np.float64)
            inside = (times > start) & (times <= end)
            if inside.any() or series.failed:
                found.append(
                    SeriesWindow(labels, times[inside], values[inside], failed=series.failed)
                )
        return found


def named(name: str, **labels: str) -> Labels:
    """Return labels with a metric name."""
    return labels_of({NAME_LABEL: name, **labels})
