"""Series held in memory as range queries see them: cut to what a selector wants, once each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import NAME_LABEL, Labels
from ds4watch.promql.columns import NO_LABELS, BoolArray
from ds4watch.promql.selection import matches
from ds4watch.promql.storage import Matcher, SeriesMatrix

NOTHING = SeriesMatrix(NO_LABELS, ())


class HeldRanges:
    """A storage for range queries over one matrix. Implements RangeStorage."""

    def __init__(self, matrix: SeriesMatrix) -> None:
        self._matrix = matrix
        self._cut: dict[tuple[Matcher, ...], SeriesMatrix] = {}

    def columns(
        self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds
    ) -> SeriesMatrix:
        """Return all samples of each matching series, wherever the window is."""
        del start, end
        key = tuple(matchers)
        found = self._cut.get(key)
        if found is None:
            found = self._cut[key] = selected(self._matrix, key)
        return found


def selected(matrix: SeriesMatrix, matchers: tuple[Matcher, ...]) -> SeriesMatrix:
    """Return the series that satisfy all matchers."""
    rest = tuple(one for one in matchers if one.name != NAME_LABEL)
    naming = tuple(one for one in matchers if one.name == NAME_LABEL)

    def make(sets: tuple[Labels, ...]) -> BoolArray:
        wanted = np.zeros(len(sets), dtype=np.bool_)
        for name, rows in matrix.labels.derived("by name", _by_name).items():
            if matches(naming, ((NAME_LABEL, name),)):
                wanted[[row for row in rows if not rest or matches(rest, sets[row])]] = True
        return wanted

    return kept(matrix, matrix.labels.derived(("matching", matchers), make))


def _by_name(sets: tuple[Labels, ...]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row, labels in enumerate(sets):
        found.setdefault(dict(labels).get(NAME_LABEL, ""), []).append(row)
    return found


def kept(matrix: SeriesMatrix, wanted: BoolArray) -> SeriesMatrix:
    """Return the series of a matrix where `wanted` (n,) is true."""
    if wanted.all():
        return matrix
    places = np.cumsum(wanted) - 1
    blocks = []
    for block in matrix.blocks:
        mine = wanted[block.rows]
        if mine.all():
            blocks.append(block._replace(rows=places[block.rows]))
        elif mine.any():
            rows = places[block.rows[mine]]
            blocks.append(block._replace(rows=rows, values=block.values[mine]))
    return SeriesMatrix(matrix.labels.where(wanted), tuple(blocks))
