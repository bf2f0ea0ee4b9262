"""What rules see in a replay: the past from a storage, with what the rules themselves made of it.

A part of the past is read at once, for all rules; what they write hides stored series of the names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from ds4watch.engine.replay_order import ALERT_SERIES, ReplayOrder, accepts_any
from ds4watch.engine.replay_written import Piece, WrittenSeries
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import NAME_LABEL, FloatArray, Labels
from ds4watch.promql.columns import BoolArray, LabelColumn
from ds4watch.promql.evaluate import LOOKBACK_SECONDS
from ds4watch.promql.held_ranges import NOTHING, HeldRanges, kept, selected
from ds4watch.promql.selection import longest_of, windows_read
from ds4watch.promql.storage import Block, Matcher, MatchOp, RangeStorage, SeriesMatrix

UP = "up"
PAD_SECONDS = 120.0
"""Read before each window, so that what went at its beginning is seen to have been there."""
_LONGEST_READ_AHEAD = 3600.0
_REACH_OF_UP = 900.0


class ReplayHistory:
    """The history of a replay. Implements RangeStorage."""

    def __init__(self, storage: RangeStorage, order: ReplayOrder) -> None:
        self._storage = storage
        self._recorded = order.recorded
        self._reach = _reaches(order)
        self._unbounded = any(windows_read(it) is None for rule in order.rules for it in rule.exprs)
        self._ahead = {
            name: reach for name, reach in self._reach.items() if reach <= _LONGEST_READ_AHEAD
        }
        self._held = HeldRanges(NOTHING)
        self._direct: dict[object, SeriesMatrix] = {}
        self._written: dict[str, WrittenSeries] = {}

    def open(self, start: UnixSeconds, end: UnixSeconds) -> None:
        """Read what rules look at from `start` to `end`."""
        reach = max(self._ahead.values(), default=0.0) + LOOKBACK_SECONDS + PAD_SECONDS
        names = sorted({*self._ahead, UP} - self._recorded)
        pattern = "|".join(names)
        matcher = Matcher(NAME_LABEL, MatchOp.REGEX, pattern)
        self._held = HeldRanges(self._storage.columns([matcher], start - reach, end))
        self._direct.clear()

    def columns(
        self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds
    ) -> SeriesMatrix:
        """Return the samples of each matching series."""
        made = accepts_any(matchers, self._recorded)
        if not made:
            return self._past(matchers, start, end)
        parts = [self._not_made(self._past(matchers, start, end))]
        parts += [selected(it.matrix(), tuple(matchers)) for it in self._written.values()]
        return _beside([part for part in parts if len(part.labels)])

    def past(
        self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds
    ) -> SeriesMatrix:
        """Return stored samples, read anew; for what lies before what was opened."""
        return self._not_made(self._storage.columns(matchers, start, end))

    def write(self, producer: str, name: str, piece: Piece) -> None:
        """Take in what a rule made."""
        if producer not in self._written:
            reach = self._reach_of(name) + LOOKBACK_SECONDS + PAD_SECONDS
            self._written[producer] = WrittenSeries(reach)
        self._written[producer].add(piece)

    def doubted(self, steps: FloatArray) -> BoolArray:
        """Return at which steps something that a rule made is missing for want of a scrape."""
        found = np.zeros(len(steps), dtype=np.bool_)
        for one in self._written.values():
            found |= one.doubted(steps)
        return found

    def missing(
        self, matchers: tuple[Matcher, ...], start: UnixSeconds, at: UnixSeconds
    ) -> tuple[Labels, ...]:
        """Return what of the series that rules made a selector misses."""
        if not accepts_any(matchers, self._recorded):
            return ()
        return tuple(
            labels for one in self._written.values() for labels in one.missing(matchers, start, at)
        )

    def _reach_of(self, name: str) -> float:
        names = ALERT_SERIES if name in ALERT_SERIES else (name,)
        return math.inf if self._unbounded else max(self._reach.get(it, 0.0) for it in names)

    def up(self) -> SeriesMatrix:
        """Return the targets of what was opened, and how their scrapes went."""
        return self._held.columns([Matcher(NAME_LABEL, MatchOp.EQUAL, UP)], 0, 0)

    def is_made(self, labels: Labels) -> bool:
        """Say whether a series is what a rule made."""
        return dict(labels).get(NAME_LABEL) in self._recorded

    def _past(
        self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds
    ) -> SeriesMatrix:
        name = _name_of(matchers)
        if name is not None and name <= self._ahead.keys():
            return self._held.columns(matchers, start, end)
        key = (tuple(matchers), start, end)
        if key not in self._direct:
            self._direct[key] = self._storage.columns(matchers, start, end)
        return self._direct[key]

    def _not_made(self, matrix: SeriesMatrix) -> SeriesMatrix:
        mine: BoolArray = matrix.labels.derived(
            ("not made", self._recorded),
            lambda sets: np.array([not self.is_made(one) for one in sets], dtype=np.bool_),
        )
        return kept(matrix, mine)


def _reaches(order: ReplayOrder) -> dict[str, float]:
    """Return how far back each metric is read; those that are read by no name are left out."""
    read = [windows_read(expr) for rule in order.rules for expr in rule.exprs]
    found = longest_of(one for one in read if one is not None)
    found[UP] = max(found.get(UP, 0.0), _REACH_OF_UP)
    return found


def _name_of(matchers: Iterable[Matcher]) -> frozenset[str] | None:
    for one in matchers:
        if one.name == NAME_LABEL and one.op is MatchOp.EQUAL:
            return frozenset([one.value])
        if one.name == NAME_LABEL and one.op is MatchOp.REGEX:
            return frozenset(one.value.split("|"))
    return None


def _beside(parts: Sequence[SeriesMatrix]) -> SeriesMatrix:
    if len(parts) == 1:
        return parts[0]
    blocks: list[Block] = []
    sets: list[Labels] = []
    for part in parts:
        blocks += [block._replace(rows=block.rows + len(sets)) for block in part.blocks]
        sets += part.labels.sets
    return SeriesMatrix(LabelColumn(tuple(sets)), tuple(blocks))
