"""Columns of float64 as few bytes, and back bit for bit.

A column that changes is taken as integers: its values where all are whole, its values times a
power of ten where that loses nothing (after ALP, Afroozeh et al., SIGMOD 2024), else its bits. Of
these the differences from row to row are kept, or the differences of those, or their differences
to the column before (the buckets of a histogram grow together), whichever are smallest: zigzag,
in the narrowest width, byte planes apart, through zstd. All of it wraps at 64 bits, so that
nothing can overflow.

Layout: `_HEADER`, then seven sections of zstd: shapes (a byte for each column), the first row,
kinds (a byte for each column that changes), and the columns of each width.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import get_ident
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from ds4watch.history.column_numbers import (
    AS_BITS,
    BoolArray,
    Bytes,
    Ints,
    as_integers,
    from_scaled,
    from_zigzag,
    joined,
    planes,
    to_zigzag,
)
from ds4watch.model.series import FloatArray

IndexArray = NDArray[np.intp]

_HEADER = struct.Struct("<II7I")
"""Rows, columns, length of each section."""
_LEVEL = 3
_WIDTHS = (1, 2, 4, 8)
_MOST_ROWS = 1 << 16
_MOST_CELLS = 1 << 26
"""More than any payload has; rubbish must not take the memory."""

_SMALL = float(1 << 28)

_WIDTH_MASK = 0x07
_MOVES = 0x08
_TWICE = 0x10
"""Differences of differences."""
_CHAINED = 0x20
"""Differences to the column before, among those that change."""


@dataclass(frozen=True, slots=True)
class _Steps:
    """Columns that change, as differences: `zigzag` has a line for each, `shapes` a flag byte."""

    zigzag: NDArray[np.unsignedinteger]
    shapes: Bytes


def pack_columns(values: FloatArray) -> bytes:
    """Return `values`, of shape (rows, columns), as bytes."""
    rows, columns = values.shape
    bits = np.ascontiguousarray(values.T, dtype="<f8").view("<i8")
    first = bits[:, 0].copy() if rows else np.zeros(columns, dtype=np.int64)
    moving = np.flatnonzero((bits[:, 1:] != bits[:, :1]).any(axis=1))
    numbers, kinds = as_integers(bits[moving])
    small = _is_small(numbers, kinds)
    groups = [
        (np.flatnonzero(small), _small_steps(numbers, kinds, small)),
        (np.flatnonzero(~small), _wide_steps(numbers[~small])),
    ]
    if moving.size:
        first[moving] = numbers[:, 0]
    shapes = np.zeros(columns, dtype=np.uint8)
    for lines, steps in groups:
        shapes[moving[lines]] = steps.shapes
    sections = [shapes.tobytes(), planes(first, 8), kinds.tobytes()]
    sections += [_of_width(groups, code) for code in range(1, len(_WIDTHS) + 1)]
    packed = [zstandard.compress(section, _LEVEL) if section else b"" for section in sections]
    return b"".join([_HEADER.pack(rows, columns, *map(len, packed)), *packed])


def unpack_columns(payload: bytes, columns: IndexArray | None = None) -> FloatArray:
    """Return the chosen columns, or all: shape (rows, columns). Raises ValueError on rubbish."""
    try:
        return _unpack(payload, columns)
    except (struct.error, zstandard.ZstdError, IndexError, MemoryError) as error:
        message = f"packed columns cannot be read: {error}"
        raise ValueError(message) from error


def _is_small(numbers: Ints, kinds: Bytes) -> BoolArray:
    """Return which lines stay so near their first number that 32 bits do for all that follows."""
    if not numbers.size:
        return np.zeros(len(numbers), dtype=np.bool_)
    first = numbers[:, 0].astype(np.float64)
    small: BoolArray = kinds != AS_BITS
    small &= numbers.max(axis=1) - first < _SMALL
    small &= first - numbers.min(axis=1) < _SMALL
    return small


def _small_steps(numbers: Ints, kinds: Bytes, small: BoolArray) -> _Steps:
    places = np.flatnonzero(small)
    near = (numbers[places] - numbers[places, :1]).astype(np.int32)
    steps, zigzag, shapes = _stepped(near)
    alike = np.zeros(len(places), dtype=np.bool_)
    alike[1:] = (np.diff(places) == 1) & (np.diff(kinds[places]) == 0)
    alike[1:] &= shapes[1:] == shapes[:-1]
    _chain(steps, zigzag, shapes, np.flatnonzero(alike))
    return _Steps(zigzag, shapes | _width_codes(zigzag))


def _wide_steps(numbers: Ints) -> _Steps:
    _, zigzag, shapes = _stepped(numbers)
    return _Steps(zigzag, shapes | _width_codes(zigzag))


def _stepped(numbers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], Bytes]:
    """Return differences, or differences of those where they are smaller; also as zigzag."""
    steps = np.diff(numbers, axis=1)
    twice = steps.copy()
    twice[:, 1:] -= steps[:, :-1]
    better = np.flatnonzero(_size(twice) < _size(steps))
    steps[better] = twice[better]
    shapes = np.full(len(numbers), _MOVES, dtype=np.uint8)
    shapes[better] |= _TWICE
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
    shapes[candidates[better]] |= _CHAINED


def _size(steps: NDArray[Any]) -> FloatArray:
    """Return what stands for the bits that lines will take: the sum of their magnitudes."""
    size: FloatArray = np.abs(steps).sum(axis=1, dtype=np.float64)
    return size


def _of_width(groups: Sequence[tuple[IndexArray, _Steps]], code: int) -> bytes:
    """Return the steps of one width, in the order of the columns."""
    picked = [(steps.shapes & _WIDTH_MASK) == code for _, steps in groups]
    places = np.concatenate([lines[mine] for (lines, _), mine in zip(groups, picked, strict=True)])
    width = _WIDTHS[code - 1]
    numbers = np.concatenate(
        [
            steps.zigzag[mine].astype(f"<u{width}")
            for (_, steps), mine in zip(groups, picked, strict=True)
        ]
    )
    return planes(numbers[np.argsort(places)], width)


def _width_codes(zigzag: NDArray[Any]) -> Bytes:
    most = zigzag.max(axis=1, initial=0)
    limits = np.array([0, (1 << 8) - 1, (1 << 16) - 1, (1 << 32) - 1], dtype=np.uint64)
    codes: Bytes = np.searchsorted(limits, most.astype(np.uint64), side="left").astype(np.uint8)
    return codes


class _Sections:
    """A payload taken apart. `shapes` has an entry for each column; the rest is read when asked."""

    def __init__(self, payload: bytes) -> None:
        rows, columns, *lengths = _HEADER.unpack_from(payload)
        if len(payload) != _HEADER.size + sum(lengths):
            message = f"{len(payload)} bytes where the header says {_HEADER.size + sum(lengths)}"
            raise ValueError(message)
        if rows > _MOST_ROWS or rows * columns > _MOST_CELLS:
            message = f"{rows} rows of {columns} columns are more than are ever packed"
            raise ValueError(message)
        self.rows: int = rows
        self._unzip = _decompressor(get_ident()).decompress
        shapes, self._first, self._kinds, *self._widths = _split(payload, lengths)
        self.shapes = self._plain(shapes, columns)

    def first(self, columns: IndexArray) -> Ints:
        """Return the first row of some columns."""
        numbers = self._plain(self._first, 8 * len(self.shapes)).reshape(8, -1)
        return joined(numbers[:, columns], 8).view(np.int64)

    def kinds(self, moving: int) -> Bytes:
        """Return the kinds of the columns that change."""
        return self._plain(self._kinds, moving)

    def of_width(self, code: int, columns: int) -> Bytes:
        """Return the steps of all columns of a width: (bytes, columns, steps)."""
        width, steps = _WIDTHS[code - 1], self.rows - 1
        data = self._plain(self._widths[code - 1], width * columns * steps)
        return data.reshape(width, columns, steps)

    def _plain(self, section: bytes, size: int) -> Bytes:
        """Unpack a section. It says itself how long it is: believed only where that is right."""
        told = zstandard.frame_content_size(section) if section else 0
        if told != size:
            message = f"a section of {told} bytes where {size} were packed"
            raise ValueError(message)
        return np.frombuffer(self._unzip(section) if section else b"", dtype=np.uint8)


@lru_cache(maxsize=16)
def _decompressor(_thread: int) -> zstandard.ZstdDecompressor:
    """Return a thread's own: to make one takes longer than to use it, and it is for one thread."""
    return zstandard.ZstdDecompressor()


def _unpack(payload: bytes, columns: IndexArray | None) -> FloatArray:
    sections = _Sections(payload)
    if columns is None:
        columns = np.arange(len(sections.shapes))
    lines = np.repeat(sections.first(columns)[:, None], sections.rows, axis=1)
    moves = (sections.shapes & _MOVES).view(np.bool_)
    (picked,) = moves[columns].nonzero()
    if picked.size and sections.rows:
        (moving,) = moves.nonzero()
        wanted = columns[picked]
        places = moving.searchsorted(wanted)
        needed = _needed(sections.shapes[moving], places)
        steps = _steps(sections, moving[needed])
        mine = lines[picked]
        mine[:, 1:] = steps[needed.searchsorted(places)]
        mine = np.cumsum(mine, axis=1)
        kinds = sections.kinds(len(moving))[places]
        for digits in set(kinds.tolist()) - {AS_BITS}:
            (scaled,) = (kinds == digits).nonzero()
            mine[scaled] = from_scaled(mine[scaled], digits).view(np.int64)
        lines[picked] = mine
    return lines.view(np.float64).T


def _split(payload: bytes, lengths: Sequence[int]) -> Iterator[bytes]:
    start = _HEADER.size
    for length in lengths:
        yield payload[start : start + length]
        start += length


def _needed(shapes: Bytes, wanted: IndexArray) -> IndexArray:
    """Return which columns, of those that change, `wanted` ones stand on, these included."""
    edges = np.zeros(len(shapes) + 1, dtype=np.intp)
    np.add.at(edges, _roots(shapes)[wanted], 1)
    np.add.at(edges, wanted + 1, -1)
    (needed,) = (np.cumsum(edges[:-1]) > 0).nonzero()
    return needed


def _roots(shapes: Bytes) -> IndexArray:
    """Return, for each column, the place of the one that its chain begins with."""
    places = np.arange(len(shapes))
    places[(shapes & _CHAINED) != 0] = 0
    roots: IndexArray = np.maximum.accumulate(places)
    return roots


def _steps(sections: _Sections, needed: IndexArray) -> Ints:
    """Return the differences from row to row of the columns `needed`."""
    shapes = sections.shapes[needed]
    steps = np.zeros((len(needed), sections.rows - 1), dtype=np.int64)
    all_codes, codes = sections.shapes & _WIDTH_MASK, shapes & _WIDTH_MASK
    for code in set(codes.tolist()) - {0}:
        (group,) = (all_codes == code).nonzero()
        (mine,) = (codes == code).nonzero()
        stored = sections.of_width(code, len(group))
        picked = stored[:, group.searchsorted(needed[mine])]
        steps[mine] = from_zigzag(joined(picked, len(picked)))
    if (shapes & _CHAINED).any():
        total = np.cumsum(steps, axis=0)
        before = np.concatenate([np.zeros_like(total[:1]), total])
        steps = total - before[_roots(shapes)]
    (twice,) = (shapes & _TWICE).nonzero()
    if twice.size:
        steps[twice] = np.cumsum(steps[twice], axis=1)
    return steps
