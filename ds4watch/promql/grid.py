"""Vectors at many instants as one table: what range evaluation works on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ds4watch.model.errors import QueryError
from ds4watch.model.series import FloatArray, Labels
from ds4watch.promql.columns import NO_LABELS, BoolArray, IndexArray, LabelColumn
from ds4watch.promql.vectors import Vector, changed, without_name


@dataclass(frozen=True, slots=True)
class Grid:
    """`values` (n, k) of n series at k steps; what is not `there` (n, k) means nothing."""

    labels: LabelColumn
    values: FloatArray
    there: BoolArray

    def where(self, mask: BoolArray) -> Grid:
        """Return what is there and in `mask`."""
        return Grid(self.labels, self.values, self.there & mask)

    def rows(self, positions: IndexArray | None) -> Grid:
        """Return the series at `positions`; None for all."""
        if positions is None:
            return self
        return Grid(self.labels.take(positions), self.values[positions], self.there[positions])

    def present(self) -> Grid:
        """Return the series that are there at one step at least."""
        some: BoolArray = np.any(self.there, axis=1)
        if some.all():
            return self
        return Grid(self.labels.where(some), self.values[some], self.there[some])

    def at(self, step: int) -> Vector:
        """Return the vector at one step."""
        there: BoolArray = self.there[:, step]
        return Vector(self.labels.where(there), self.values[there, step])

    def at_steps(self, steps: IndexArray) -> Grid:
        """Return the series that are there at the first of `steps`, at these steps only."""
        there = self.there[:, steps[0]]
        values = self.values[np.ix_(there, steps)]
        return full(self.labels.where(there), values)


def full(labels: LabelColumn, values: FloatArray) -> Grid:
    """Return a grid in which everything is there."""
    return Grid(labels, values, np.ones(values.shape, dtype=np.bool_))


def nothing(steps: int) -> Grid:
    """Return a grid without series."""
    return full(NO_LABELS, np.empty((0, steps)))


def nameless(grid: Grid) -> Grid:
    """Return the grid without metric names, and without two series of the same labels."""
    return merged(Grid(changed(grid.labels, "nameless", without_name), grid.values, grid.there))


def merged(grid: Grid) -> Grid:
    """Return series of the same labels as one. Raises QueryError if two are there at a time."""
    groups = grid.labels.derived("same", _same)
    if groups is None:
        return grid
    firsts = np.array([rows[0] for rows in groups], dtype=np.intp)
    labels = LabelColumn(tuple(grid.labels.sets[row] for row in firsts.tolist()))
    values, there = grid.values[firsts], grid.there[firsts]
    for place, rows in enumerate(groups):
        for row in rows[1:]:
            more = grid.there[row]
            if (there[place] & more).any():
                raise QueryError("vector cannot contain metrics with the same labelset")
            values[place, more] = grid.values[row, more]
            there[place] |= more
    return Grid(labels, values, there)


def patterns(*grids: Grid) -> Iterator[IndexArray]:
    """Yield the steps in sets: at those of a set, the same series are there."""
    there = np.concatenate([grid.there for grid in grids])
    if not len(there) or (there == there[:, :1]).all():
        yield np.arange(there.shape[1])
        return
    packed = np.packbits(there, axis=0).T
    _, of_step = np.unique(packed, axis=0, return_inverse=True)
    of_step = of_step.reshape(-1)
    order = np.argsort(of_step, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(of_step[order])) + 1)


def united(parts: Sequence[tuple[IndexArray, Grid]], steps: int) -> Grid:
    """Return grids, each at steps of its own, as one."""
    if len(parts) == 1 and len(parts[0][0]) == steps:
        return parts[0][1]
    places: dict[Labels, int] = {}
    rows = [
        np.array([places.setdefault(one, len(places)) for one in part.labels], dtype=np.intp)
        for _, part in parts
    ]
    values = np.full((len(places), steps), np.nan)
    there = np.zeros(values.shape, dtype=np.bool_)
    for (at, part), mine in zip(parts, rows, strict=True):
        cells = np.ix_(mine, at)
        values[cells] = part.values
        there[cells] = part.there
    return Grid(LabelColumn(tuple(places)), values, there)


def stepwise(grid: Grid, of: Callable[[Vector], Vector]) -> Grid:
    """Return what `of` makes of the vector at each step."""
    parts = []
    for step in range(grid.there.shape[1]):
        vector = of(grid.at(step))
        parts.append((np.array([step]), full(vector.labels, vector.values[:, np.newaxis])))
    return united(parts, grid.there.shape[1])


def _same(sets: tuple[Labels, ...]) -> list[list[int]] | None:
    """Return the rows of each label set; None if all are different."""
    groups: dict[Labels, list[int]] = {}
    for row, labels in enumerate(sets):
        groups.setdefault(labels, []).append(row)
    return None if len(groups) == len(sets) else list(groups.values())
