"""Columns of float64 in strips: a few neighbours each, which are read without the rest.

A query wants one metric of a page's hundred. So what `column_codec` keeps together for all columns
is kept strip by strip here, each with a checksum of its own, behind a head that tells where it is.
A strip's columns stand on no others. `strip_reading` takes many payloads at once.

Layout: `HEADER`, the head through zstd (of each column a shape, a kind, the bits of its first row;
of each strip length and checksum), then the strips: byte planes, width by width. What zstd makes
no shorter is kept as it is.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from ds4watch.history.column_numbers import BoolArray, planes
from ds4watch.history.column_steps import WIDTHS, Columns, stepped_columns
from ds4watch.history.squeeze import FAST, squeezed
from ds4watch.model.series import FloatArray

IndexArray = NDArray[np.intp]

HEADER = struct.Struct("<5I")
"""Rows, columns, strips, length and checksum of the head."""
BEGINS = 0x40
"""Of a shape: a strip begins here."""
COLUMN_BYTES = 10
STRIP_BYTES = 8
"""What the head has for each."""


def pack_strips(values: FloatArray, begins: BoolArray, level: int = FAST) -> bytes:
    """Return `values`, of shape (rows, columns), as bytes; at `begins` (columns,) a strip does."""
    rows, columns = values.shape
    packed = stepped_columns(values, begins)
    strips = _strips(packed, begins, level)
    kinds = np.zeros(columns, dtype=np.uint8)
    kinds[packed.moving] = packed.kinds
    shapes = packed.shapes | np.where(begins, BEGINS, 0).astype(np.uint8)
    lengths = np.array([len(strip) for strip in strips], dtype="<u4")
    checks = np.array([zlib.crc32(strip) for strip in strips], dtype="<u4")
    parts = (shapes.tobytes(), kinds.tobytes(), planes(packed.first, 8), planes(lengths, 4))
    head = squeezed([*parts, checks.tobytes()], level)
    header = HEADER.pack(rows, columns, len(strips), len(head), zlib.crc32(head))
    return b"".join([header, head, *strips])


def _strips(packed: Columns, begins: BoolArray, level: int) -> list[bytes]:
    strip_of = np.cumsum(begins)[packed.moving]
    count = int(begins.sum())
    parts: list[list[bytes]] = [[] for _ in range(count)]
    for code, width in enumerate(WIDTHS, start=1):
        places, numbers = packed.of_width(code)
        edges = np.searchsorted(strip_of[places], np.arange(1, count + 2)).tolist()
        for strip in np.unique(strip_of[places]).tolist():
            mine = planes(numbers[edges[strip - 1] : edges[strip]], width)
            size = len(mine) // width
            parts[strip - 1] += [mine[at : at + size] for at in range(0, len(mine), size)]
    return [squeezed(one, level) for one in parts]
