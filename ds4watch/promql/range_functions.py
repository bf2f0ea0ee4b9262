"""Functions of vectors over a range of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from ds4watch.model.series import FloatArray
from ds4watch.promql.columns import IndexArray
from ds4watch.promql.elementwise import ELEMENTWISE
from ds4watch.promql.functions import WHOLE_VECTOR
from ds4watch.promql.grid import Grid, full, patterns, united
from ds4watch.promql.vectors import Vector

RangeValue: TypeAlias = FloatArray | str | Grid
"""What an expression is at each step: a number (k,), a text, or a vector."""
OfScalars = Callable[[IndexArray, tuple[object, ...]], Grid]


def with_scalars(args: Sequence[RangeValue], steps: int, of: OfScalars) -> Grid:
    """Return `of` at the steps with equal scalar arguments, all together."""
    numbers = [arg for arg in args if isinstance(arg, np.ndarray)]
    if all(bool((arg == arg[0]).all()) for arg in numbers):
        plain = tuple(float(arg[0]) if isinstance(arg, np.ndarray) else arg for arg in args)
        return of(np.arange(steps), plain)
    kinds, of_step = np.unique(np.stack(numbers), axis=1, return_inverse=True)
    parts = []
    for kind, told in enumerate(kinds.T.tolist()):
        here = np.flatnonzero(of_step.reshape(-1) == kind)
        values = iter(told)
        plain = tuple(next(values) if isinstance(arg, np.ndarray) else arg for arg in args)
        parts.append((here, of(here, plain)))
    return united(parts, steps)


def elementwise_range(name: str, args: Sequence[RangeValue], steps: int) -> Grid:
    """Return what a function makes of each element."""
    grid, scalars = args[0], args[1:]
    assert isinstance(grid, Grid)

    def values(here: IndexArray, plain: tuple[object, ...]) -> Grid:
        there = grid.there[:, here]
        if name == "clamp" and float(plain[0]) > float(plain[1]):  # type: ignore[arg-type]
            there = np.zeros_like(there)
        found = np.full(there.shape, np.nan)
        found[there] = ELEMENTWISE[name](grid.values[:, here][there], *plain)
        return Grid(grid.labels, found, there)

    return with_scalars(scalars, steps, values).present()


def whole_vectors_range(name: str, args: Sequence[RangeValue], steps: int) -> Grid:
    """Apply a function of whole vectors: to labels alone, or where the same series are there."""
    place = next(n for n, arg in enumerate(args) if isinstance(arg, Grid))
    grid = args[place]
    assert isinstance(grid, Grid)

    def of(here: Grid, plain: tuple[object, ...]) -> Vector:
        vector = Vector(here.labels, here.values)
        return WHOLE_VECTOR[name](*plain[:place], vector, *plain[place:])

    def changed(here: IndexArray, plain: tuple[object, ...]) -> Grid:
        mine = Grid(grid.labels, grid.values[:, here], grid.there[:, here])
        if name in ("label_replace", "label_join"):
            return Grid(of(mine, plain).labels, mine.values, mine.there)
        parts = []
        for alike in patterns(mine):
            vector = of(mine.at_steps(alike), plain)
            parts.append((alike, full(vector.labels, vector.values)))
        return united(parts, len(here))

    return with_scalars([*args[:place], *args[place + 1 :]], steps, changed)
