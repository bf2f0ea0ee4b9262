"""A storage for tests: series in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ds4watch.model.series import NAME_LABEL, STALE_NAN, FloatArray, Labels, is_stale, labels_of
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.selection import matches
from ds4watch.promql.storage import Block, Ends, Latest, Matcher, SeriesMatrix, Windows


@dataclass
class Series:
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    failed: bool = False


@dataclass
class MemoryStorage:
    """Series by their labels, `__name__` among them."""

    series: dict[Labels, Series] = field(default_factory=dict)
    known_columns: dict[tuple[Labels, ...], LabelColumn] = field(default_factory=dict)

    def add(self, labels: Labels, points: Sequence[tuple[float, float]]) -> Series:
        """Append (time, value) points to a series."""
        series = self.series.setdefault(labels, Series())
        for at, value in points:
            series.times.append(at)
            series.values.append(value)
        return series

    def latest(self, matchers: Sequence[Matcher], start: float, end: float) -> Latest:
        """Return the newest sample of each matching series, unless it is a staleness marker."""
        windows, missing = self._windows(matchers, start, end)
        found = {
            labels: (times[-1], values[-1])
            for labels, (times, values) in windows.items()
            if not is_stale(values[-1:])[0]
        }
        points = np.array(list(found.values())).reshape(-1, 2)
        return Latest(self._column(found), points[:, 0], points[:, 1], len(missing) > 0, missing)

    def ends(self, matchers: Sequence[Matcher], start: float, end: float) -> Ends:
        """Return the ends of each matching series."""
        windows, missing = self._fresh(matchers, start, end)
        rows = [
            (
                times[0],
                values[0],
                times[-1],
                values[-1],
                len(values),
                values[:-1][values[1:] < values[:-1]].sum(),
            )
            for times, values in windows.values()
        ]
        table = np.array(rows).reshape(-1, 6).T
        first_times, first_values, last_times, last_values, counts, drops = table
        return Ends(
            self._column(windows),
            first_times,
            first_values,
            last_times,
            last_values,
            counts.astype(np.intp),
            drops,
            len(missing) > 0,
            missing,
        )

    def windows(self, matchers: Sequence[Matcher], start: float, end: float) -> Windows:
        """Return all samples of each matching series."""
        windows, missing = self._fresh(matchers, start, end)
        counts = np.array([len(times) for times, _ in windows.values()], dtype=np.intp)
        table = np.full((2, len(windows), counts.max(initial=0)), np.nan)
        for row, pair in enumerate(windows.values()):
            table[:, row, : counts[row]] = pair
        return Windows(self._column(windows), table[0], table[1], counts, len(missing) > 0, missing)

    def columns(self, matchers: Sequence[Matcher], start: float, end: float) -> SeriesMatrix:
        """Return all samples of each matching series, those of the same instants in one block."""
        found, _ = self._windows(matchers, start, end)
        alike: dict[bytes, list[int]] = {}
        pairs = list(found.values())
        for row, (times, _) in enumerate(pairs):
            alike.setdefault(times.tobytes(), []).append(row)
        blocks = tuple(
            Block(
                np.array(rows, dtype=np.intp),
                pairs[rows[0]][0],
                np.stack([pairs[row][1] for row in rows]),
            )
            for rows in alike.values()
        )
        return SeriesMatrix(self._column(found), blocks)

    def _fresh(
        self, matchers: Sequence[Matcher], start: float, end: float
    ) -> tuple[dict[Labels, tuple[FloatArray, FloatArray]], LabelColumn]:
        found, missing = self._windows(matchers, start, end)
        fresh = {
            labels: (times[~is_stale(values)], values[~is_stale(values)])
            for labels, (times, values) in found.items()
        }
        return {labels: pair for labels, pair in fresh.items() if len(pair[0])}, missing

    def _windows(
        self, matchers: Sequence[Matcher], start: float, end: float
    ) -> tuple[dict[Labels, tuple[FloatArray, FloatArray]], LabelColumn]:
        found = {}
        missing = []
        for labels, series in self.series.items():
            if not matches(matchers, labels):
                continue
            times: FloatArray = np.array(series.times, dtype=np.float64)
            values: FloatArray = np.array(series.values, dtype=np.float64)
            inside = (times > start) & (times <= end)
            if series.failed:
                missing.append(labels)
            if inside.any():
                found[labels] = times[inside], values[inside]
        return found, self._column(missing)

    def _column(self, labels: Iterable[Labels]) -> LabelColumn:
        sets = tuple(labels)
        return self.known_columns.setdefault(sets, LabelColumn(sets))


@dataclass
class WritableMemory(MemoryStorage):
    """One that rules can write to, as to the live buffer."""

    written: dict[str, LabelColumn] = field(default_factory=dict)

    def write(
        self,
        producer: str,
        labels: LabelColumn,
        values: FloatArray,
        at: float,
        *,
        incomplete: bool = False,  # noqa: ARG002 - nothing fails to be scraped here
    ) -> None:
        """Take in samples; what the producer wrote last and does not now has ended."""
        for gone in set(self.written.get(producer, ())) - set(labels):
            self.add(gone, [(at, STALE_NAN)])
        for one, value in zip(labels, values.tolist(), strict=True):
            self.add(one, [(at, value)])
        self.written[producer] = labels


def named(name: str, **labels: str) -> Labels:
    """Return labels with a metric name."""
    return labels_of({NAME_LABEL: name, **labels})
