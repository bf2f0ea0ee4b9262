"""Series held in memory, for unit tests of rules: all of them, and never forgotten."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import STALE_NAN, FloatArray, Labels, is_stale
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.selection import matches
from ds4watch.promql.storage import Ends, Latest, Matcher, Windows


@dataclass(slots=True)
class _Series:
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    stale: list[bool] = field(default_factory=list)

    def add(self, at: UnixSeconds, value: float, *, stale: bool) -> None:
        """Append a sample; one at the instant of the last takes its place."""
        if self.times and self.times[-1] == at:
            self.values[-1], self.stale[-1] = value, stale
            return
        self.times.append(at)
        self.values.append(value)
        self.stale.append(stale)

    def inside(self, start: UnixSeconds, end: UnixSeconds) -> slice:
        """Return where the samples in (start, end] are."""
        return slice(bisect_right(self.times, start), bisect_right(self.times, end))


class _Picked(NamedTuple):
    """The series that some matchers select."""

    series: list[_Series]
    labels: LabelColumn


class MemorySeries:
    """A storage that rules can read and write. `horizon`: nothing later can be seen yet."""

    def __init__(self) -> None:
        self.horizon: UnixSeconds = math.inf
        self._series: dict[Labels, _Series] = {}
        self._picked: dict[tuple[Matcher, ...], _Picked] = {}
        self._written: dict[str, LabelColumn] = {}

    def add(self, labels: Labels, points: Iterable[tuple[UnixSeconds, float]]) -> None:
        """Append (time, value) points, in order, to a series; `labels` have `__name__`."""
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = _Series()
            self._picked.clear()
        for at, value in points:
            series.add(at, value, stale=math.isnan(value) and bool(is_stale(np.array([value]))[0]))

    def write(
        self,
        producer: str,
        labels: LabelColumn,
        values: FloatArray,
        at: UnixSeconds,
        *,
        incomplete: bool = False,  # noqa: ARG002 - nothing fails to be scraped here
    ) -> None:
        """Take in samples; what the producer wrote last and does not now has ended."""
        for gone in set(self._written.get(producer, ())) - set(labels):
            self.add(gone, [(at, STALE_NAN)])
        for one, value in zip(labels, values.tolist(), strict=True):
            self.add(one, [(at, value)])
        self._written[producer] = labels

    def latest(self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds) -> Latest:
        """Return the newest sample of each matching series, unless it is a marker."""
        picked = self._pick(matchers)
        end = min(end, self.horizon)
        points = np.full((len(picked.series), 2), np.nan)
        live = np.zeros(len(picked.series), dtype=np.bool_)
        for row, series in enumerate(picked.series):
            newest = series.inside(start, end).stop - 1
            if newest >= 0 and series.times[newest] > start and not series.stale[newest]:
                points[row] = series.times[newest], series.values[newest]
                live[row] = True
        return Latest(picked.labels.where(live), points[live, 0], points[live, 1])

    def ends(self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds) -> Ends:
        """Return the ends of each matching series."""
        found = self.windows(matchers, start, end)
        rows = np.arange(len(found.counts))
        last = found.counts - 1
        before, after = found.values[:, :-1], found.values[:, 1:]
        drops = np.where(after < before, before, 0.0).sum(axis=1)
        return Ends(
            found.labels,
            found.times[rows, 0] if len(rows) else np.empty(0),
            found.values[rows, 0] if len(rows) else np.empty(0),
            found.times[rows, last] if len(rows) else np.empty(0),
            found.values[rows, last] if len(rows) else np.empty(0),
            found.counts,
            drops,
        )

    def windows(self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds) -> Windows:
        """Return all samples of each matching series."""
        picked = self._pick(matchers)
        rows = [_fresh(series, start, min(end, self.horizon)) for series in picked.series]
        counts = np.array([len(times) for times, _ in rows], dtype=np.intp)
        table = np.full((2, len(rows), counts.max(initial=0)), np.nan)
        for row, pair in enumerate(rows):
            table[:, row, : counts[row]] = pair
        live = counts > 0
        labels = picked.labels.where(live)
        return Windows(labels, table[0, live], table[1, live], counts[live])

    def _pick(self, matchers: Sequence[Matcher]) -> _Picked:
        key = tuple(matchers)
        found = self._picked.get(key)
        if found is None:
            chosen = {
                labels: series for labels, series in self._series.items() if matches(key, labels)
            }
            found = _Picked([*chosen.values()], LabelColumn(tuple(chosen)))
            self._picked[key] = found
        return found


def _fresh(
    series: _Series, start: UnixSeconds, end: UnixSeconds
) -> tuple[list[float], list[float]]:
    inside = series.inside(start, end)
    times, values, stale = series.times[inside], series.values[inside], series.stale[inside]
    if not any(stale):
        return times, values
    kept = [at for at, gone in enumerate(stale) if not gone]
    return [times[at] for at in kept], [values[at] for at in kept]
