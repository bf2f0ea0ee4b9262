"""One block of samples out of all slabs of a target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ds4watch.history.frames import IndexArray
from ds4watch.history.range_choice import Choice
from ds4watch.history.range_slabs import Segment, Slab
from ds4watch.model.scrape import Target
from ds4watch.model.series import STALE_NAN, FloatArray, Labels, Schema, is_stale
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.storage import Block, SeriesMatrix


class Source:
    """A target, or several of equal labels, and the series chosen of it; pages add to them."""

    def __init__(self, target: Target, target_ids: tuple[int, ...], choice: Choice) -> None:
        self.target_ids = target_ids
        self._target = target
        self._choice = choice
        self._rows: dict[Labels, int] = {}
        self._places: dict[int, tuple[IndexArray, IndexArray]] = {}
        self._own, labels = choice.of_scrapes(target)
        self.own_rows = self._rows_of(labels)

    @property
    def is_scraped(self) -> bool:
        """False of what a rule wrote."""
        return self._target.is_scraped

    @property
    def labels(self) -> tuple[Labels, ...]:
        """The labels of its series, in the order of its rows."""
        return tuple(self._rows)

    @property
    def pages(self) -> tuple[int, ...]:
        """The pages that its rows come from, in order."""
        return tuple(self._places)

    @property
    def own_places(self) -> IndexArray:
        """Which of SCRAPE_SERIES are chosen."""
        return self._own

    def places(self, schema: Schema) -> tuple[IndexArray, IndexArray]:
        """Return the places among what is picked of a page, and the rows that they go to."""
        known = self._places.get(schema.id)
        if known is None:
            chosen = self._choice.of_page(self._target, schema)
            known = self._places[schema.id] = (chosen.places, self._rows_of(chosen.labels))
        return known

    def is_whole(self, schema: Schema) -> bool:
        """Say whether its rows are the series picked of a page, in their order."""
        places, rows = self.places(schema)
        picked = np.arange(len(self._rows))
        return np.array_equal(rows, picked) and self._choice.picks(schema, places)

    def _rows_of(self, labels: Sequence[Labels]) -> IndexArray:
        rows = [self._rows.setdefault(one, len(self._rows)) for one in labels]
        return np.array(rows, dtype=np.intp)


def block_of(source: Source, slabs: Sequence[Slab]) -> Block:
    """Return the samples of a source; its rows are counted from 0."""
    segments = [segment for slab in slabs for segment in slab]
    schemas = {segment.schema.id: segment.schema for segment in segments}
    for schema in schemas.values():
        source.places(schema)
    rows = np.arange(len(source.labels))
    # Series of pages on which these are all that was picked, in order, are taken as they are.
    whole = {number for number, schema in schemas.items() if source.is_whole(schema)}
    if not segments:
        return Block(rows, np.empty(0), np.empty((len(rows), 0)))
    times = np.concatenate([segment.times for segment in segments])
    parts = [
        segment.values if segment.schema.id in whole else _placed(source, segment)
        for segment in segments
    ]
    values = np.concatenate(parts, axis=1)
    if (np.diff(times) > 0).all():
        return Block(rows, times, values)
    kept = _rising(times)
    return Block(rows, times[kept], values[:, kept])


def without_twins(matrix: SeriesMatrix) -> SeriesMatrix:
    """Return a matrix in which each label set stands once.

    Two rules may have written one series, one after the other, as when a file was edited.
    """
    first: dict[Labels, int] = {}
    twins: dict[int, list[int]] = {}
    for row, labels in enumerate(matrix.labels):
        other = first.setdefault(labels, row)
        if other != row:
            twins.setdefault(other, [other]).append(row)
    if not twins:
        return matrix
    parts = {row for rows in twins.values() for row in rows}
    single = [_joined(matrix.blocks, row, rows) for row, rows in twins.items()]
    rest = (_rows(block, ~np.isin(block.rows, list(parts))) for block in matrix.blocks)
    blocks = [block for block in (*rest, *single) if len(block.rows)]
    places = np.cumsum([other == row for row, other in enumerate(map(first.get, matrix.labels))])
    kept = [block._replace(rows=places[block.rows] - 1) for block in blocks]
    return SeriesMatrix(LabelColumn(tuple(first)), tuple(kept))


def _rows(block: Block, wanted: NDArray[np.bool_]) -> Block:
    return block._replace(rows=block.rows[wanted], values=block.values[wanted])


def _joined(blocks: Sequence[Block], row: int, rows: Sequence[int]) -> Block:
    """Return the samples of some rows as one series; markers only where none has a sample."""
    found = [_rows(block, np.isin(block.rows, rows)) for block in blocks]
    found = [block for block in found if len(block.rows)]
    times = np.concatenate([np.tile(block.times, len(block.rows)) for block in found])
    values = np.concatenate([block.values.ravel() for block in found])
    order = np.lexsort((~is_stale(values), times))  # of one instant the sample comes last
    times, values = times[order], values[order]
    last = np.append(np.diff(times) > 0, [True])
    return Block(np.array([row]), times[last], values[None, last])


def _placed(source: Source, segment: Segment) -> FloatArray:
    """Return a segment's samples in the rows of its source, markers where it has none."""
    places, rows = source.places(segment.schema)
    found = np.full((len(source.labels), len(segment.times)), STALE_NAN)
    found[rows] = segment.values[places]
    found[source.own_rows] = segment.own[source.own_places]
    return found


def _rising(times: FloatArray) -> IndexArray:
    """Return the order of rising times, of equal ones the last stored."""
    order = np.argsort(times, kind="stable")
    last = np.append(np.diff(times[order]) > 0, [True])
    kept: IndexArray = order[last]
    return kept
