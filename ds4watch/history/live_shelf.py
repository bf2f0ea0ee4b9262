"""Which series are kept how long, in which pool, under which name they are found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ds4watch.history.live_labels import name_of
from ds4watch.history.live_pool import IndexArray, Pool
from ds4watch.history.live_window import Rows
from ds4watch.history.matching import predicate
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import NAME_LABEL, Labels, SeriesKey
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.storage import Matcher, MatchOp

OWN_PREFIX = "ds4_"
SCRAPE_SERIES = ("up", "scrape_duration_seconds", "scrape_samples_scraped")
"""Written for each target by ourselves, scrape failed or not."""
COARSE_STEP_SECONDS = 15.0
"""Spacing of samples beyond the window that is kept in full."""
_MOST_SECONDS = 6 * 3600.0
"""What is kept of a name that is read further back; also for `@`, which has no bound."""
_LOOKBACK_SECONDS = 300.0
_KEPT_CLASSES_SECONDS = (0.0, 60.0, 300.0, 900.0, 3600.0)
_SLACK_SLOTS = 8
_SLACK_SHARE = 1.05
_COMPACT_ROWS = 64
_CACHED_SELECTORS = 1024


class Shelf(NamedTuple):
    """Where a series goes: the pool of its group, of one keeping time and one spacing."""

    group: str
    keep_seconds: float
    step_seconds: float = 0.0


class Keeping:
    """How long each name is kept. `windows`: seconds that rules look back, by name."""

    def __init__(self, windows: Mapping[str, float], full_seconds: float) -> None:
        self._windows = windows
        self._full_seconds = full_seconds

    def reach_seconds(self) -> float:
        """Return how far back anything is kept, or an instant selector may look."""
        longest = max(self._windows.values(), default=0.0)
        return min(max(longest, _LOOKBACK_SECONDS), _MOST_SECONDS)

    def shelves(self, key: SeriesKey, group: str) -> tuple[Shelf, ...]:
        """Return where a series of a page goes; nowhere if nobody reads it."""
        return self.shelves_of(key.name, group) if self.keeps(key) else ()

    def keeps(self, key: SeriesKey) -> bool:
        """Say whether a series of a page is kept at all."""
        # A page's own `up` would take the line of ours.
        if key.name in SCRAPE_SERIES:
            return False
        return key.name.startswith(OWN_PREFIX) or key.name in self._windows

    def shelves_of(self, name: str, group: str) -> tuple[Shelf, ...]:
        """Return where a series goes that is kept in any case."""
        seconds = min(self._windows.get(name, 0.0), _MOST_SECONDS)
        fine = Shelf(group, self._rounded(min(seconds, self._full_seconds)))
        if seconds <= self._full_seconds:
            return (fine,)
        return fine, Shelf(group, self._rounded(seconds), COARSE_STEP_SECONDS)

    def _rounded(self, seconds: float) -> float:
        """Round up, so that names share pools."""
        return next((it for it in _KEPT_CLASSES_SECONDS if it >= seconds), seconds)


@dataclass(slots=True)
class Selection:
    """The series that matchers choose, where they lie, and their labels: one column for all."""

    labels: LabelColumn
    parts: tuple[Rows, ...]


@dataclass(slots=True)
class _Drawer:
    """A pool and how its rows are found."""

    pool: Pool
    by_name: dict[str, list[int]] = field(default_factory=dict)
    by_labels: dict[tuple[int, Labels], int] = field(default_factory=dict)
    compact_at_rows: int = _COMPACT_ROWS

    def missing(self, source: int, labels: Sequence[Labels]) -> list[Labels]:
        """Return which of a source's series have no row."""
        return [one for one in labels if (source, one) not in self.by_labels]


class Shelves:
    """All pools. Selections are remembered until a series of their name comes or goes."""

    def __init__(self, interval_of: Mapping[str, float]) -> None:
        self.moves = 0
        """Goes up whenever rows have moved: what holds row numbers must look them up anew."""
        self._interval_of = interval_of
        self._drawers: dict[Shelf, _Drawer] = {}
        self._memo: dict[str, dict[tuple[bool, tuple[Matcher, ...]], Selection]] = {}
        self._sources: dict[bytes, IndexArray] = {}

    @property
    def size_bytes(self) -> int:
        """Memory of all samples."""
        return sum(drawer.pool.size_bytes for drawer in self._drawers.values())

    def pools(self) -> list[Pool]:
        """Return all pools."""
        return [drawer.pool for drawer in self._drawers.values()]

    def pool(self, shelf: Shelf) -> Pool:
        """Return a pool, made at first sight."""
        return self._drawer(shelf).pool

    def rows(
        self, shelf: Shelf, source: int, labels: Sequence[Labels], now: UnixSeconds
    ) -> IndexArray:
        """Return the rows of a source's series, adding those missing."""
        drawer = self._drawer(shelf)
        missing = drawer.missing(source, labels)
        if missing:
            if len(drawer.pool.labels) + len(missing) > drawer.compact_at_rows:
                self._compact(drawer, now)
                # A series that comes back after long had a row until now.
                missing = drawer.missing(source, labels)
            added = drawer.pool.add_rows(source, missing, now)
            for row, one in zip(added.tolist(), missing, strict=True):
                self._enter(drawer, source, one, row)
            self._memo.pop("", None)
        found = [drawer.by_labels[source, one] for one in labels]
        return np.array(found, dtype=np.intp)

    def let_go(self, numbers: dict[Shelf, int]) -> bool:
        """Take back the numbers of a source that ended, where its rows are gone; say if all are."""
        for shelf, number in list(numbers.items()):
            pool = self.pool(shelf)
            if not pool.row_count(number):
                pool.free_source(number)
                del numbers[shelf]
        return not numbers

    def select(self, matchers: tuple[Matcher, ...], *, coarse: bool) -> Selection:
        """Return what `matchers` choose. Raises QueryError on a bad regex."""
        name = _exact_name(matchers)
        if len(self._memo) >= _CACHED_SELECTORS:
            self._memo.clear()
        memo = self._memo.setdefault(name, {})
        found = memo.get((coarse, matchers))
        if found is None:
            if len(memo) >= _CACHED_SELECTORS:
                memo.clear()
            found = memo[coarse, matchers] = self._selection(name, matchers, coarse=coarse)
        return found

    def _drawer(self, shelf: Shelf) -> _Drawer:
        drawer = self._drawers.get(shelf)
        if drawer is None:
            spacing = max(self._interval_of.get(shelf.group, 1.0), shelf.step_seconds)
            slots = math.ceil(shelf.keep_seconds * _SLACK_SHARE / spacing) + _SLACK_SLOTS
            drawer = self._drawers[shelf] = _Drawer(Pool(shelf.keep_seconds, slots))
        return drawer

    def _selection(self, name: str, matchers: tuple[Matcher, ...], *, coarse: bool) -> Selection:
        matches = predicate(matchers)
        parts: list[Rows] = []
        labels: list[Labels] = []
        for drawer, rows in self._candidates(name, coarse=coarse):
            pool = drawer.pool
            found = [row for row in rows if matches(dict(pool.labels[row]))]
            if found:
                chosen = np.array(found, dtype=np.intp)
                parts.append(Rows(pool, chosen, self._same(pool.source_of[chosen])))
                labels += [pool.labels[row] for row in found]
        return Selection(LabelColumn(tuple(labels)), tuple(parts))

    def _same(self, sources: IndexArray) -> IndexArray:
        """Return one array for equal ones: what is found for one metric then serves others."""
        if len(self._sources) >= _CACHED_SELECTORS:
            self._sources.clear()
        return self._sources.setdefault(sources.tobytes(), sources)

    def _candidates(self, name: str, *, coarse: bool) -> Iterator[tuple[_Drawer, Sequence[int]]]:
        """Yield rows of a name, of all if it is empty; each series from one pool only."""
        thinned = {
            each
            for shelf, drawer in self._drawers.items()
            if shelf.step_seconds
            for each in drawer.by_name
        }
        for shelf, drawer in self._drawers.items():
            for each, rows in drawer.by_name.items():
                wanted = not name or each == name
                if wanted and bool(shelf.step_seconds) == (coarse and each in thinned):
                    yield drawer, rows

    def _enter(self, drawer: _Drawer, source: int, labels: Labels, row: int) -> None:
        drawer.by_labels[source, labels] = row
        name = name_of(labels)
        drawer.by_name.setdefault(name, []).append(row)
        self._memo.pop(name, None)

    def _compact(self, drawer: _Drawer, now: UnixSeconds) -> None:
        pool = drawer.pool
        if pool.compact(now - pool.keep_seconds) is not None:
            self.moves += 1
            drawer.by_name.clear()
            drawer.by_labels.clear()
            owners = pool.source_of.tolist()
            for row, labels in enumerate(pool.labels):
                self._enter(drawer, owners[row], labels, row)
            self._memo.clear()
        drawer.compact_at_rows = max(_COMPACT_ROWS, 2 * len(pool.labels))


def _exact_name(matchers: tuple[Matcher, ...]) -> str:
    return next(
        (it.value for it in matchers if it.name == NAME_LABEL and it.op is MatchOp.EQUAL), ""
    )
