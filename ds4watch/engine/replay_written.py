"""What one rule wrote in a replay: its samples, and what of them is missing for want of a scrape.

As the live buffer has it: what an incomplete write left out is waited for, until a complete one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import STALE_NAN, FloatArray, Labels, is_stale
from ds4watch.promql.columns import BoolArray, LabelColumn
from ds4watch.promql.held_ranges import NOTHING, selected
from ds4watch.promql.storage import Block, Matcher, SeriesMatrix


@dataclass(frozen=True, slots=True)
class Piece:
    """Samples written at some instants: values (n, k), markers where there are none.

    incomplete: (k,) something may be missing for want of a scrape.
    """

    labels: LabelColumn
    times: FloatArray
    values: FloatArray
    incomplete: BoolArray


@dataclass(slots=True)
class WrittenSeries:
    """What one producer wrote. reach: how long it is wanted."""

    reach_seconds: float
    _pieces: list[Piece] = field(default_factory=list)
    _joined: SeriesMatrix | None = None
    _present: frozenset[Labels] = frozenset()
    _waited_for: frozenset[Labels] = frozenset()
    _filled: bool = True
    _doubt_times: list[UnixSeconds] = field(default_factory=list)
    _doubts: list[frozenset[Labels] | None] = field(default_factory=list)

    def add(self, piece: Piece) -> None:
        """Keep a piece; forget what nobody looks back on any more."""
        before = piece.times[0] - self.reach_seconds
        self._pieces = [one for one in self._pieces if one.times[-1] >= before]
        self._pieces.append(piece)
        self._joined = None
        self._note_doubts(piece)

    def matrix(self) -> SeriesMatrix:
        """Return all pieces as one."""
        if self._joined is None:
            self._joined = _joined(self._pieces)
        return self._joined

    def doubted(self, steps: FloatArray) -> BoolArray:
        """Return at which steps the last write was incomplete."""
        flags = np.array([False, *(one is not None for one in self._doubts)])
        found: BoolArray = flags[np.searchsorted(self._doubt_times, steps, side="right")]
        return found

    def missing(
        self, matchers: tuple[Matcher, ...], start: UnixSeconds, at: UnixSeconds
    ) -> tuple[Labels, ...]:
        """Return what a selector misses at `at`, whose window begins at `start`."""
        place = int(np.searchsorted(self._doubt_times, at, side="right")) - 1
        waited_for = self._doubts[place] if place >= 0 else None
        if waited_for is None:
            return ()
        found = selected(self.matrix(), matchers)
        return tuple(
            found.labels.sets[row]
            for block in found.blocks
            for row, lost in zip(block.rows.tolist(), _lost(block, start, at), strict=True)
            if lost is not None and (lost or found.labels.sets[row] in waited_for)
        )

    def _note_doubts(self, piece: Piece) -> None:
        real = ~is_stale(piece.values)
        if not piece.incomplete.any() and not (self._doubts and self._doubts[-1] is not None):
            self._settle(piece, real)
            return
        for column, at in enumerate(piece.times.tolist()):
            present = frozenset(
                piece.labels.sets[row] for row in np.flatnonzero(real[:, column]).tolist()
            )
            incomplete = bool(piece.incomplete[column])
            if not present and not self._filled:
                continue
            self._filled = bool(present) or incomplete
            left = self._present - present
            self._waited_for = (left | self._waited_for) - present if incomplete else frozenset()
            self._present = present
            self._doubt_times.append(at)
            self._doubts.append(self._waited_for if incomplete else None)

    def _settle(self, piece: Piece, real: BoolArray) -> None:
        """Take over what complete writes leave: only the last two matter."""
        some = np.any(real, axis=0)
        last = real[:, -1]
        self._present = frozenset(piece.labels.sets[row] for row in np.flatnonzero(last).tolist())
        self._filled = bool(some[-1])


def _lost(block: Block, start: UnixSeconds, at: UnixSeconds) -> list[bool | None]:
    """Return for each series whether it left in (start, at]; None if it is there at `at`."""
    low, high = np.searchsorted(block.times, (start, at), side="right")
    real: BoolArray = ~is_stale(block.values[:, max(0, low - 1) : high])
    left: BoolArray = np.any(real[:, :-1] & ~real[:, 1:], axis=1)
    if not real.shape[1]:
        return [False] * len(block.rows)
    return [None if there else bool(gone) for there, gone in zip(real[:, -1], left, strict=True)]


def _joined(pieces: Sequence[Piece]) -> SeriesMatrix:
    if not pieces:
        return NOTHING
    if len(pieces) == 1:
        rows = np.arange(len(pieces[0].labels))
        return SeriesMatrix(pieces[0].labels, (Block(rows, pieces[0].times, pieces[0].values),))
    places: dict[Labels, int] = {}
    for piece in pieces:
        for one in piece.labels:
            places.setdefault(one, len(places))
    times = np.concatenate([piece.times for piece in pieces])
    values = np.full((len(places), len(times)), STALE_NAN)
    begin = 0
    for piece in pieces:
        mine = [places[one] for one in piece.labels]
        values[mine, begin : begin + len(piece.times)] = piece.values
        begin += len(piece.times)
    block = Block(np.arange(len(places)), times, values)
    return SeriesMatrix(LabelColumn(tuple(places)), (block,))
