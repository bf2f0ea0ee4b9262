"""Rows of float64 columns as bytes, bit for bit.

A keyframe is every column, little-endian. A delta is a presence bitmap (bit i of byte i // 8,
lowest first) followed by the columns whose bits differ from the row before. Columns are compared
as 64-bit integers: a NaN equals itself, and a staleness marker is not just any NaN.

Rows fold into chunks by slots of ten minutes: the first row of a slot is a keyframe, so that what
stays never stands on what was folded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ds4watch.model.series import FloatArray

IndexArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

KEYFRAME_EVERY_ROWS = 60
SLOT_MS = 600_000
_VALUE_BYTES = 8


@dataclass(frozen=True, slots=True)
class ColumnState:
    """What the next row of a target is told apart from."""

    schema_id: int
    slot: int
    values: FloatArray
    rows_since_keyframe: int


@dataclass(frozen=True, slots=True)
class PackedRow:
    """One row as it is stored."""

    keyframe: bool
    payload: bytes


@dataclass(frozen=True, slots=True)
class NewRow:
    """A row to pack, and the one of the same target before it."""

    schema_id: int
    at_ms: int
    values: FloatArray
    state: ColumnState | None


def pack_rows(rows: Sequence[NewRow]) -> list[tuple[PackedRow, ColumnState]]:
    """Pack rows of different targets, as deltas where that is allowed; with their next states."""
    packed: dict[int, PackedRow] = {}
    deltas: dict[int, list[tuple[int, ColumnState]]] = defaultdict(list)
    for place, row in enumerate(rows):
        state = row.state
        if state is None or _begins_anew(row, state):
            packed[place] = PackedRow(keyframe=True, payload=pack_keyframe(row.values))
        else:
            deltas[row.schema_id].append((place, state))
    for group in deltas.values():
        values = np.stack([rows[place].values for place, _ in group])
        previous = np.stack([state.values for _, state in group])
        for (place, _), payload in zip(group, pack_changes(values, previous), strict=True):
            packed[place] = PackedRow(keyframe=False, payload=payload)
    return [(packed[place], _next_state(row, packed[place])) for place, row in enumerate(rows)]


def pack_keyframe(values: FloatArray) -> bytes:
    """Return all columns."""
    return np.ascontiguousarray(values, dtype="<f8").tobytes()


def pack_changes(values: FloatArray, previous: FloatArray) -> Iterator[bytes]:
    """Return, line by line, a bitmap of the columns that differ, and those columns."""
    bits = np.ascontiguousarray(values, dtype="<f8").view("<u8")
    changed = bits != np.ascontiguousarray(previous, dtype="<f8").view("<u8")
    bitmaps = np.packbits(changed, axis=1, bitorder="little")
    columns = bits[changed].tobytes()
    ends = _VALUE_BYTES * np.cumsum(np.count_nonzero(changed, axis=1))
    for bitmap, (start, end) in zip(bitmaps, pairwise([0, *ends.tolist()]), strict=True):
        yield bitmap.tobytes() + columns[start:end]


def unpack_rows(
    keyframes: Sequence[bool],
    payloads: Sequence[bytes],
    columns: int,
    keep: IndexArray | None = None,
) -> FloatArray:
    """Return all columns, or the chosen ones (in rising order), of rows: shape (rows, columns).

    Raises ValueError on bytes that no packer wrote.
    """
    rows = len(payloads)
    data = _Payloads(keyframes, payloads, columns)
    changed, bits = data.everything() if keep is None else data.chosen(keep)
    kept = changed.shape[1]
    lines, column_of = np.nonzero(changed)
    # Of 16 bits, numpy sorts by radix.
    narrow = np.uint16 if kept <= 1 << 16 else np.uint32
    by_column = np.argsort(column_of.astype(narrow), kind="stable")
    begins = (column_of * rows + lines)[by_column]
    # Each stands until the next one of its column; the first row has them all.
    spans = np.diff(begins, append=kept * rows)
    return np.repeat(bits[by_column], spans).reshape(kept, rows).view(np.float64).T


def _begins_anew(row: NewRow, state: ColumnState) -> bool:
    return (
        state.schema_id != row.schema_id
        or state.slot != row.at_ms // SLOT_MS
        or state.rows_since_keyframe + 1 >= KEYFRAME_EVERY_ROWS
    )


def _next_state(row: NewRow, packed: PackedRow) -> ColumnState:
    since = 0 if packed.keyframe or row.state is None else row.state.rows_since_keyframe + 1
    return ColumnState(row.schema_id, row.at_ms // SLOT_MS, row.values.copy(), since)


class _Payloads:
    """Payloads behind each other; only the cells that are asked for are taken out."""

    def __init__(self, keyframes: Sequence[bool], payloads: Sequence[bytes], columns: int) -> None:
        """Raise ValueError on bytes that no packer wrote."""
        if keyframes and not keyframes[0]:
            message = "a delta row without the row before it"
            raise ValueError(message)
        whole = np.array(keyframes, dtype=np.bool_)
        lengths = np.fromiter(map(len, payloads), dtype=np.int64, count=len(payloads))
        begins = np.cumsum(lengths) - lengths
        full = np.packbits(np.ones(columns, dtype=np.bool_), bitorder="little")
        # With room behind them, for a row that is too short is found out only below.
        self._room = len(full) + _VALUE_BYTES
        self._joined = b"".join([*payloads, bytes(self._room)])
        self._columns = columns
        heads = begins[:, None] + np.arange(len(full))
        self._heads = heads[~whole]
        self._bitmaps = np.frombuffer(self._joined, dtype=np.uint8)[heads] & full
        self._bitmaps[whole] = full
        # How many columns stand before each byte of the bitmap, and in all.
        self._before = np.zeros((len(payloads), len(full) + 1), dtype=np.int64)
        np.cumsum(np.bitwise_count(self._bitmaps), axis=1, out=self._before[:, 1:])
        ahead = np.where(whole, 0, len(full))
        self._begins = begins + ahead
        expected = ahead + _VALUE_BYTES * self._before[:, -1]
        _check_lengths(keyframes, lengths, expected, columns)

    def everything(self) -> tuple[BoolArray, NDArray[np.uint64]]:
        """Return which cells stand in the payloads, and the bits of these, row by row."""
        changed = np.unpackbits(self._bitmaps, axis=1, count=self._columns, bitorder="little")
        data = np.frombuffer(self._joined, dtype=np.uint8)[: -self._room]
        is_value = np.ones(len(data), dtype=np.bool_)
        is_value[self._heads] = False
        return changed.view(np.bool_), data[is_value].view("<u8")

    def chosen(self, keep: IndexArray) -> tuple[BoolArray, NDArray[np.uint64]]:
        """Return the same of some columns, without a look at the others."""
        byte, bit = keep >> 3, (keep & 7).astype(np.uint8)
        mine = self._bitmaps[:, byte]
        changed = ((mine >> bit) & 1).view(np.bool_)
        lower = (np.uint8(1) << bit) - np.uint8(1)
        rank = self._before[:, byte] + np.bitwise_count(mine & lower)
        stands_at = (self._begins[:, None] + _VALUE_BYTES * rank)[changed]
        # Wherever a value could begin, be that a multiple of eight or not.
        size = len(self._joined) - _VALUE_BYTES + 1
        return changed, np.ndarray((size,), "<u8", self._joined, strides=(1,))[stands_at]


def _check_lengths(
    keyframes: Sequence[bool],
    lengths: NDArray[np.int64],
    expected: NDArray[np.int64],
    columns: int,
) -> None:
    wrong = np.flatnonzero(lengths != expected)
    if wrong.size:
        kind = "keyframe" if keyframes[wrong[0]] else "delta row"
        message = f"a {kind} of {lengths[wrong[0]]} bytes for {columns} columns"
        raise ValueError(message)
