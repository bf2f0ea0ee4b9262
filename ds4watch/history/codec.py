"""Rows of float64 columns as bytes, bit for bit.

A keyframe is every column, little-endian. A delta is a presence bitmap (bit i of byte i // 8,
lowest first) followed by the columns whose bits differ from the row before. Columns are compared
as 64-bit integers: a NaN equals itself, and a staleness marker is not just any NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ds4watch.model.series import FloatArray

KEYFRAME_EVERY_ROWS = 60
_VALUE_BYTES = 8


@dataclass(frozen=True, slots=True)
class ColumnState:
    """What the next row of a target is told apart from."""

    schema_id: int
    values: FloatArray
    rows_since_keyframe: int


@dataclass(frozen=True, slots=True)
class PackedRow:
    """One row as it is stored."""

    keyframe: bool
    payload: bytes


def pack_row(
    schema_id: int, values: FloatArray, state: ColumnState | None
) -> tuple[PackedRow, ColumnState]:
    """Pack `values`, as a delta to `state` where that is allowed, and return the next state."""
    if (
        state is None
        or state.schema_id != schema_id
        or state.rows_since_keyframe + 1 >= KEYFRAME_EVERY_ROWS
    ):
        row = PackedRow(keyframe=True, payload=pack_keyframe(values))
        return row, ColumnState(schema_id, values.copy(), 0)
    row = PackedRow(keyframe=False, payload=pack_changes(values, state.values))
    return row, ColumnState(schema_id, values.copy(), state.rows_since_keyframe + 1)


def unpack_row(row: PackedRow, previous: FloatArray | None) -> FloatArray:
    """Return the values of `row`. Raises ValueError on bytes that no packer wrote."""
    if row.keyframe:
        return unpack_keyframe(row.payload)
    if previous is None:
        message = "a delta row without the row before it"
        raise ValueError(message)
    return unpack_changes(row.payload, previous)


def pack_keyframe(values: FloatArray) -> bytes:
    """Return all columns."""
    return np.ascontiguousarray(values, dtype="<f8").tobytes()


def unpack_keyframe(payload: bytes) -> FloatArray:
    """Invert `pack_keyframe`."""
    if len(payload) % _VALUE_BYTES:
        message = f"a keyframe of {len(payload)} bytes"
        raise ValueError(message)
    return np.frombuffer(payload, dtype="<f8").astype(np.float64, copy=True)


def pack_changes(values: FloatArray, previous: FloatArray) -> bytes:
    """Return a bitmap of the columns that differ from `previous`, and those columns."""
    bits = np.ascontiguousarray(values, dtype="<f8").view("<u8")
    changed = bits != np.ascontiguousarray(previous, dtype="<f8").view("<u8")
    bitmap: bytes = np.packbits(changed, bitorder="little").tobytes()
    columns: bytes = bits[changed].tobytes()
    return bitmap + columns


def unpack_changes(payload: bytes, previous: FloatArray) -> FloatArray:
    """Invert `pack_changes`."""
    count = len(previous)
    bitmap_bytes = (count + 7) // 8
    bitmap = np.frombuffer(payload[:bitmap_bytes], dtype=np.uint8)
    changed = np.unpackbits(bitmap, bitorder="little")[:count].astype(np.bool_)
    if len(payload) != bitmap_bytes + _VALUE_BYTES * int(changed.sum()):
        message = f"a delta row of {len(payload)} bytes for {count} columns"
        raise ValueError(message)
    values = np.array(previous, dtype=np.float64, copy=True)
    values.view(np.uint64)[changed] = np.frombuffer(payload, dtype="<u8", offset=bitmap_bytes)
    return values
