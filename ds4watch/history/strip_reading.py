"""Reads columns out of payloads of strips, those of many payloads at once.

A day of a fleet lies in a thousand payloads, of which a query wants some hundred numbers each: one
by one, most time would go into calls of numpy.
"""

from __future__ import annotations

import struct
import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ds4watch.history.column_numbers import BoolArray, Bytes, Ints, from_zigzag, joined
from ds4watch.history.column_steps import (
    MOVES,
    WIDTH_MASK,
    WIDTHS,
    IndexArray,
    as_values,
    unchained,
)
from ds4watch.history.squeeze import unsqueezed
from ds4watch.history.strip_codec import BEGINS, COLUMN_BYTES, HEADER, STRIP_BYTES
from ds4watch.model.series import FloatArray


class Payload(Protocol):
    """Bytes, or what reads them from a database when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes: ...


_MOST_ROWS = 1 << 16
_MOST_CELLS = 1 << 26
"""More than any payload has; rubbish must not take the memory."""
_WIDTH_OF = np.array((0, *WIDTHS))


def unpack_many(
    payloads: Sequence[Payload],
    columns: IndexArray | None = None,
    *,
    starts: Sequence[int] | None = None,
) -> list[FloatArray | ValueError]:
    """Return the chosen columns, or all, of each payload, or why it cannot be read.

    starts: where in each payload the strips begin.
    """
    found: list[FloatArray | ValueError] = [ValueError("not read")] * len(payloads)
    alike: defaultdict[tuple[int, bytes], list[tuple[int, _Part]]] = defaultdict(list)
    for place, payload in enumerate(payloads):
        try:
            part = _part(payload, 0 if starts is None else starts[place])
        except (struct.error, ValueError, MemoryError) as error:
            found[place] = ValueError(f"packed columns cannot be read: {error}")
        else:
            alike[part.rows, part.begins].append((place, part))
    for group in alike.values():
        places, parts = zip(*group, strict=True)
        for place, one in zip(places, _Table(parts).unpacked(columns), strict=True):
            found[place] = one
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    """A payload taken apart: `plain` is its head, `begins` says of each column if a strip does."""

    rows: int
    columns: int
    strips: int
    plain: bytes
    begins: bytes
    payload: Payload
    start: int


def _part(payload: Payload, begin: int) -> _Part:
    begin += HEADER.size
    rows, columns, strips, length, check = HEADER.unpack(payload[begin - HEADER.size : begin])
    if rows > _MOST_ROWS or rows * columns > _MOST_CELLS or strips > columns:
        message = f"{rows} rows of {columns} columns are more than are ever packed"
        raise ValueError(message)
    start = begin + length
    head = payload[begin:start]
    if zlib.crc32(head) != check:
        message = "the checksum of the head is wrong"
        raise ValueError(message)
    plain = unsqueezed(head, COLUMN_BYTES * columns + STRIP_BYTES * strips)
    begins = plain[:columns].translate(_BEGINS_ONLY)
    return _Part(rows, columns, strips, plain, begins, payload, start)


_BEGINS_ONLY = bytes(shape & BEGINS for shape in range(256))


class _Table:
    """Payloads of the same number of rows and the same strips: a line of each table for each."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        one = parts[0]
        width, strips = one.columns, one.strips
        heads = np.frombuffer(b"".join([part.plain for part in parts]), dtype=np.uint8)
        heads = heads.reshape(len(parts), -1)
        at = COLUMN_BYTES * width
        self._parts = parts
        self._rows = one.rows
        self._steps = max(one.rows - 1, 0)
        self._width = width
        self._shapes = heads[:, :width]
        self._kinds = heads[:, width : 2 * width]
        self._first = heads[:, 2 * width : at].reshape(len(parts), 8, width)
        self._lengths = heads[:, at : at + 4 * strips].reshape(len(parts), 4, strips)
        self._checks = heads[:, at + 4 * strips :]
        self._strip_of = np.cumsum(np.frombuffer(one.begins, dtype=np.uint8) != 0) - 1

    def unpacked(self, columns: IndexArray | None) -> list[FloatArray | ValueError]:
        """Return the chosen columns of each payload."""
        if columns is None:
            columns = np.arange(self._width)
        first = joined(self._first[:, :, columns].swapaxes(0, 1), 8).view(np.int64)
        lines = np.repeat(first[:, :, None], self._rows, axis=2)
        strips = np.unique(self._strip_of[columns])
        failed: dict[int, ValueError] = {}
        if self._steps and columns.size:
            (inside,) = np.isin(self._strip_of, strips).nonzero()
            near = _Near(
                shapes=self._shapes[:, inside],
                edges=self._strip_of[inside].searchsorted(strips),
                strip=strips.searchsorted(self._strip_of[inside]),
                steps=self._steps,
            )
            bodies, failed = self._bodies(strips, near.sizes())
            steps = near.differences(bodies)
            self._fill(lines, steps, near, inside.searchsorted(columns), columns)
        return [failed.get(place, line.T) for place, line in enumerate(lines.view(np.float64))]

    def _fill(
        self,
        lines: Ints,
        steps: Ints,
        near: _Near,
        places: IndexArray,
        columns: IndexArray,
    ) -> None:
        """Put the columns that change, at `places` of those near, in their lines."""
        line_of = np.full(near.moves.shape, -1)
        line_of[near.moves] = np.arange(len(steps))
        wanted = line_of[:, places]
        which, column = (wanted >= 0).nonzero()
        mine = np.empty((len(which), self._rows), dtype=np.int64)
        mine[:, 0] = lines[which, column, 0]
        mine[:, 1:] = steps[wanted[which, column]]
        np.cumsum(mine, axis=1, out=mine)
        as_values(mine, self._kinds[:, columns][which, column])
        lines[which, column] = mine

    def _bodies(self, strips: IndexArray, sizes: IndexArray) -> tuple[Bytes, dict[int, ValueError]]:
        """Return some strips of all payloads, one after the other, zeros for what is damaged."""
        ends = np.cumsum(joined(self._lengths.swapaxes(0, 1), 4), axis=1).astype(np.intp)
        begins = np.concatenate([np.zeros_like(ends[:, :1]), ends[:, :-1]], axis=1)
        checks = np.ascontiguousarray(self._checks).view("<u4")
        spans = zip(
            self._parts,
            begins[:, strips].tolist(),
            ends[:, strips].tolist(),
            checks[:, strips].tolist(),
            sizes.tolist(),
            strict=True,
        )
        bodies: list[bytes] = []
        failed: dict[int, ValueError] = {}
        for place, (part, *told) in enumerate(spans):
            for begin, end, check, size in zip(*told, strict=True):
                try:
                    bodies.append(_body(part, begin, end, check, size))
                except ValueError as error:
                    failed[place] = error
                    bodies.append(bytes(size))
        return np.frombuffer(b"".join(bodies), dtype=np.uint8), failed


def _body(part: _Part, begin: int, end: int, check: int, size: int) -> bytes:
    packed = part.payload[part.start + begin : part.start + end]
    if zlib.crc32(packed) != check:
        message = "the checksum of a strip is wrong"
        raise ValueError(message)
    return unsqueezed(packed, size)


@dataclass(frozen=True, slots=True)
class _Near:
    """All columns of some strips: `shapes` has a line for each payload, an entry for each column.

    edges: where each strip begins. strip: which each column belongs to.
    """

    shapes: Bytes
    edges: IndexArray
    strip: IndexArray
    steps: int

    @property
    def moves(self) -> BoolArray:
        """Which columns change."""
        moves: BoolArray = (self.shapes & MOVES) != 0
        return moves

    def sizes(self) -> IndexArray:
        """Return how many bytes each strip of each payload has."""
        widths = _WIDTH_OF[self.shapes & WIDTH_MASK]
        sizes: IndexArray = np.add.reduceat(widths, self.edges, axis=1) * self.steps
        return sizes

    def differences(self, bodies: Bytes) -> Ints:
        """Return the differences from row to row of all columns that change."""
        which, column = self.moves.nonzero()
        shapes = self.shapes[which, column]
        codes = self.shapes & WIDTH_MASK
        line_codes = shapes & WIDTH_MASK
        sizes = self.sizes()
        base = (np.cumsum(sizes.reshape(-1)) - sizes.reshape(-1)).reshape(sizes.shape)
        steps = np.zeros((len(which), self.steps), dtype=np.int64)
        for code, width in enumerate(WIDTHS, start=1):
            (mine,) = (line_codes == code).nonzero()
            if not mine.size:
                continue
            has = (codes == code).astype(np.intp)
            counts = np.add.reduceat(has, self.edges, axis=1)
            before = np.cumsum(has, axis=1) - has
            rank = before - before[:, self.edges][:, self.strip]
            cell = which[mine], column[mine]
            place = which[mine], self.strip[column[mine]]
            starts = base[place] + rank[cell] * self.steps
            strides = counts[place] * self.steps
            steps[mine] = _gathered(bodies, starts, strides, width, self.steps)
            base += width * counts * self.steps
        unchained(steps, shapes)
        return steps


def _gathered(
    bodies: Bytes, starts: IndexArray, strides: IndexArray, width: int, steps: int
) -> Ints:
    """Return the numbers whose first planes begin at `starts`, the next ones `strides` behind."""
    at = starts[:, None] + np.arange(steps)
    if width == 1:
        return from_zigzag(bodies[at].astype(np.uint64))
    whole = np.empty((*at.shape, width), dtype=np.uint8)
    for plane in range(width):
        whole[..., plane] = bodies[at]
        at += strides[:, None]
    numbers = whole.view(f"<u{width}")[..., 0]
    return from_zigzag(numbers.astype(np.uint64))
