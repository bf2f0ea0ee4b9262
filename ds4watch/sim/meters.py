"""Counters, gauges and histograms of one worker, as plain numbers."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence


class Histogram:
    """Counts by bucket. `edges` are upper bounds without +Inf."""

    __slots__ = ("count", "counts", "edges", "total")

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges = tuple(edges)
        self.clear()

    def clear(self) -> None:
        """Forget all observations."""
        self.counts = [0] * (len(self.edges) + 1)
        self.count = 0
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one observation; a value on an edge belongs to the bucket below it."""
        self.counts[bisect_left(self.edges, value)] += 1
        self.count += 1
        self.total += value


class Meters:
    """All numbers of a worker's page by the series' name, as `name` or `name{label="value"}`.

    `revision` rises with every change, so that a rendered page can be kept while nothing does.
    """

    def __init__(self, edges: dict[str, tuple[float, ...]]) -> None:
        self.values: defaultdict[str, float] = defaultdict(float)
        self.histograms = {name: Histogram(bounds) for name, bounds in edges.items()}
        self.revision = 0

    def add(self, name: str, amount: float = 1.0) -> None:
        """Raise a counter."""
        self.values[name] += amount
        self.revision += 1

    def put(self, name: str, value: float) -> None:
        """Set a gauge."""
        if self.values[name] != value:
            self.values[name] = value
            self.revision += 1

    def observe(self, name: str, value: float) -> None:
        """Count one observation of a histogram."""
        self.histograms[name].observe(value)
        self.revision += 1

    def reset(self) -> None:
        """Start all counters and histograms anew, as a restarted process would."""
        self.values.clear()
        for histogram in self.histograms.values():
            histogram.clear()
        self.revision += 1
