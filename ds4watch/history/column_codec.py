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
from threading import get_ident

import numpy as np
import zstandard
from numpy.typing import NDArray

from ds4watch.history.column_numbers import (
    Bytes,
    Ints,
    from_zigzag,
    joined,
    planes,
)
from ds4watch.history.column_steps import (
    MOVES,
    WIDTH_MASK,
    WIDTHS,
    as_values,
    roots,
    stepped_columns,
    unchained,
)
from ds4watch.history.squeeze import LEVEL, decompressor
from ds4watch.model.series import FloatArray

IndexArray = NDArray[np.intp]

_HEADER = struct.Struct("<II7I")
"""Rows, columns, length of each section."""
_MOST_ROWS = 1 << 16
_MOST_CELLS = 1 << 26
"""More than any payload has; rubbish must not take the memory."""


def pack_columns(values: FloatArray) -> bytes:
    """Return `values`, of shape (rows, columns), as bytes."""
    rows, columns = values.shape
    packed = stepped_columns(values)
    sections = [packed.shapes.tobytes(), planes(packed.first, 8), packed.kinds.tobytes()]
    for code, width in enumerate(WIDTHS, start=1):
        sections.append(planes(packed.of_width(code)[1], width))
    squeezed = [zstandard.compress(section, LEVEL) if section else b"" for section in sections]
    return b"".join([_HEADER.pack(rows, columns, *map(len, squeezed)), *squeezed])


def unpack_columns(payload: bytes, columns: IndexArray | None = None) -> FloatArray:
    """Return the chosen columns, or all: shape (rows, columns). Raises ValueError on rubbish."""
    try:
        return _unpack(payload, columns)
    except (struct.error, zstandard.ZstdError, IndexError, MemoryError) as error:
        message = f"packed columns cannot be read: {error}"
        raise ValueError(message) from error


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
        self._unzip = decompressor(get_ident()).decompress
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
        width, steps = WIDTHS[code - 1], self.rows - 1
        data = self._plain(self._widths[code - 1], width * columns * steps)
        return data.reshape(width, columns, steps)

    def _plain(self, section: bytes, size: int) -> Bytes:
        """Unpack a section. It says itself how long it is: believed only where that is right."""
        told = zstandard.frame_content_size(section) if section else 0
        if told != size:
            message = f"a section of {told} bytes where {size} were packed"
            raise ValueError(message)
        return np.frombuffer(self._unzip(section) if section else b"", dtype=np.uint8)


def _unpack(payload: bytes, columns: IndexArray | None) -> FloatArray:
    sections = _Sections(payload)
    if columns is None:
        columns = np.arange(len(sections.shapes))
    lines = np.repeat(sections.first(columns)[:, None], sections.rows, axis=1)
    moves = (sections.shapes & MOVES).astype(np.bool_)
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
        as_values(mine, sections.kinds(len(moving))[places])
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
    np.add.at(edges, roots(shapes)[wanted], 1)
    np.add.at(edges, wanted + 1, -1)
    (needed,) = (np.cumsum(edges[:-1]) > 0).nonzero()
    return needed


def _steps(sections: _Sections, needed: IndexArray) -> Ints:
    """Return the differences from row to row of the columns `needed`."""
    shapes = sections.shapes[needed]
    steps = np.zeros((len(needed), sections.rows - 1), dtype=np.int64)
    all_codes, codes = sections.shapes & WIDTH_MASK, shapes & WIDTH_MASK
    for code in set(codes.tolist()) - {0}:
        (group,) = (all_codes == code).nonzero()
        (mine,) = (codes == code).nonzero()
        stored = sections.of_width(code, len(group))
        picked = stored[:, group.searchsorted(needed[mine])]
        steps[mine] = from_zigzag(joined(picked, len(picked)))
    unchained(steps, shapes)
    return steps
