"""Columns that change, as small numbers: differences, of whichever kind is smallest. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ds4watch.history.column_numbers import (
    AS_BITS,
    BoolArray,
    Bytes,
    Ints,
    as_integers,
    from_scaled,
    to_zigzag,
)
from ds4watch.model.series import FloatArray

IndexArray = NDArray[np.intp]

WIDTHS = (1, 2, 4, 8)
WIDTH_MASK = 0x07
"""Of a shape: the place in WIDTHS, from 1; 0 where all differences are 0."""
MOVES = 0x08
TWICE = 0x10
"""Differences of differences."""
CHAINED = 0x20
"""Differences to the column before, among those that change."""

_SMALL = float(1 << 28)


@dataclass(frozen=True, slots=True)
class Steps:
    """Columns that change, as differences: `zigzag` has a line for each, `shapes` a flag byte."""

    zigzag: NDArray[np.unsignedinteger]
    shapes: Bytes


@dataclass(frozen=True, slots=True)
class Columns:
    """A table column by column: what each begins with, and how those that change go on.

    `first` and `shapes` have an entry for each column, `kinds` for each of those `moving`;
    `groups` has the steps of some of these, by their places among them.
    """

    first: Ints
    shapes: Bytes
    moving: IndexArray
    kinds: Bytes
    groups: list[tuple[IndexArray, Steps]]

    def of_width(self, code: int) -> tuple[IndexArray, NDArray[Any]]:
        """Return the steps of one width in the order of the columns, and which columns' they are.

        As places among those that change.
        """
        picked = [(steps.shapes & WIDTH_MASK) == code for _, steps in self.groups]
        pairs = list(zip(self.groups, picked, strict=True))
        places = np.concatenate([lines[mine] for (lines, _), mine in pairs])
        kind = f"<u{WIDTHS[code - 1]}"
        numbers = np.concatenate([steps.zigzag[mine].astype(kind) for (_, steps), mine in pairs])
        order = np.argsort(places)
        return places[order], numbers[order]


def stepped_columns(values: FloatArray, heads: BoolArray | None = None) -> Columns:
    """Return `values`, of shape (rows, columns), as steps.

    heads: columns that stand on none before them.
    """
    rows, columns = values.shape
    bits = np.ascontiguousarray(values.T, dtype="<f8").view("<i8")
    first = bits[:, 0].copy() if rows else np.zeros(columns, dtype=np.int64)
    moving = np.flatnonzero((bits[:, 1:] != bits[:, :1]).any(axis=1))
    numbers, kinds = as_integers(bits[moving])
    small = _is_small(numbers, kinds)
    belongs = np.zeros(columns, dtype=np.intp)
    if heads is not None:
        np.cumsum(heads, out=belongs)
    groups = [
        (np.flatnonzero(small), _small_steps(numbers, kinds, small, belongs[moving])),
        (np.flatnonzero(~small), _wide_steps(numbers[~small])),
    ]
    if moving.size:
        first[moving] = numbers[:, 0]
    shapes = np.zeros(columns, dtype=np.uint8)
    for lines, steps in groups:
        shapes[moving[lines]] = steps.shapes
    return Columns(first, shapes, moving, kinds, groups)


def unchained(steps: Ints, shapes: Bytes) -> None:
    """Make plain differences of the steps of columns, in place."""
    if (shapes & CHAINED).any():
        total = np.cumsum(steps, axis=0)
        before = np.concatenate([np.zeros_like(total[:1]), total])
        steps[:] = total - before[roots(shapes)]
    (twice,) = (shapes & TWICE).nonzero()
    if twice.size:
        steps[twice] = np.cumsum(steps[twice], axis=1)


def as_values(numbers: Ints, kinds: Bytes) -> None:
    """Make the bits of values of the numbers that stand for them, in place."""
    for digits in set(kinds.tolist()) - {AS_BITS}:
        (scaled,) = (kinds == digits).nonzero()
        if len(scaled) == len(numbers):
            numbers[:] = from_scaled(numbers, digits).view(np.int64)
        else:
            numbers[scaled] = from_scaled(numbers[scaled], digits).view(np.int64)


def _is_small(numbers: Ints, kinds: Bytes) -> BoolArray:
    """Return which lines stay so near their first number that 32 bits do for all that follows."""
    if not numbers.size:
        return np.zeros(len(numbers), dtype=np.bool_)
    first = numbers[:, 0].astype(np.float64)
    small: BoolArray = kinds != AS_BITS
    small &= numbers.max(axis=1) - first < _SMALL
    small &= first - numbers.min(axis=1) < _SMALL
    return small


def _small_steps(numbers: Ints, kinds: Bytes, small: BoolArray, belongs: IndexArray) -> Steps:
    places = np.flatnonzero(small)
    near = (numbers[places] - numbers[places, :1]).astype(np.int32)
    steps, zigzag, shapes = _stepped(near)
    alike = np.zeros(len(places), dtype=np.bool_)
    alike[1:] = (np.diff(places) == 1) & (np.diff(kinds[places]) == 0)
    alike[1:] &= shapes[1:] == shapes[:-1]
    alike[1:] &= np.diff(belongs[places]) == 0
    _chain(steps, zigzag, shapes, np.flatnonzero(alike))
    return Steps(zigzag, shapes | _width_codes(zigzag))


def _wide_steps(numbers: Ints) -> Steps:
    _, zigzag, shapes = _stepped(numbers)
    return Steps(zigzag, shapes | _width_codes(zigzag))


def _stepped(numbers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], Bytes]:
    """Return differences, or differences of those where they are smaller; also as zigzag."""
    steps = np.diff(numbers, axis=1)
    twice = steps.copy()
    twice[:, 1:] -= steps[:, :-1]
    better = np.flatnonzero(_size(twice) < _size(steps))
    steps[better] = twice[better]
    shapes = np.full(len(numbers), MOVES, dtype=np.uint8)
    shapes[better] |= TWICE
    return steps, to_zigzag(steps), shapes


def _chain(
    steps: NDArray[Any], zigzag: NDArray[Any], shapes: Bytes, candidates: IndexArray
) -> None:
    """Take differences to the column before where they are smaller."""
    if not candidates.size:
        return
    chained = np.diff(steps, axis=0)[candidates - 1]
    better = np.flatnonzero(_size(chained) < _size(steps)[candidates])
    zigzag[candidates[better]] = to_zigzag(chained[better])
    shapes[candidates[better]] |= CHAINED


def _size(steps: NDArray[Any]) -> FloatArray:
    """Return what stands for the bits that lines will take: the sum of their magnitudes."""
    size: FloatArray = np.abs(steps).sum(axis=1, dtype=np.float64)
    return size


def _width_codes(zigzag: NDArray[Any]) -> Bytes:
    most = zigzag.max(axis=1, initial=0)
    limits = np.array([0, (1 << 8) - 1, (1 << 16) - 1, (1 << 32) - 1], dtype=np.uint64)
    codes: Bytes = np.searchsorted(limits, most.astype(np.uint64), side="left").astype(np.uint8)
    return codes


def roots(shapes: Bytes) -> IndexArray:
    """Return, for each column, the place of the one that its chain begins with."""
    places = np.arange(len(shapes))
    places[(shapes & CHAINED) != 0] = 0
    roots: IndexArray = np.maximum.accumulate(places)
    return roots
