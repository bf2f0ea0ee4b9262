from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.history.codec import (
    KEYFRAME_EVERY_ROWS,
    ColumnState,
    PackedRow,
    pack_changes,
    pack_row,
    unpack_row,
)
from ds4watch.model.series import STALE_NAN_BITS, FloatArray

ODD_BITS = (
    STALE_NAN_BITS,
    0x7FF8000000000000,  # the usual NaN
    0x7FF0000000000001,  # a signalling one
    0xFFF8000000000123,  # negative, with a payload
    0x7FF0000000000000,  # +Inf
    0x8000000000000000,  # -0
    0x0000000000000001,  # the smallest
)
bits = st.integers(0, 2**64 - 1) | st.sampled_from(ODD_BITS)
pages = st.integers(0, 40).flatmap(
    lambda columns: st.lists(
        st.lists(bits, min_size=columns, max_size=columns), min_size=1, max_size=8
    )
)


def floats(page: list[int]) -> FloatArray:
    return np.array(page, dtype=np.uint64).view(np.float64)


def packed(rows: list[FloatArray], schema_ids: list[int] | None = None) -> list[PackedRow]:
    state: ColumnState | None = None
    made = []
    for number, row in enumerate(rows):
        one, state = pack_row(schema_ids[number] if schema_ids else 1, row, state)
        made.append(one)
    return made


def unpacked(rows: list[PackedRow]) -> list[FloatArray]:
    previous: FloatArray | None = None
    values = []
    for row in rows:
        previous = unpack_row(row, previous)
        values.append(previous)
    return values


@given(pages)
def test_every_bit_of_every_value_comes_back(page_bits: list[list[int]]) -> None:
    rows = [floats(page) for page in page_bits]
    back = unpacked(packed(rows))
    assert [row.view(np.uint64).tolist() for row in back] == page_bits


@given(st.lists(bits, min_size=1, max_size=100))
def test_a_row_like_the_one_before_costs_only_its_bitmap(page: list[int]) -> None:
    assert len(pack_changes(floats(page), floats(page))) == (len(page) + 7) // 8


def test_the_first_row_and_every_sixtieth_is_a_keyframe() -> None:
    rows = packed([floats([number]) for number in range(150)])
    assert [at for at, row in enumerate(rows) if row.keyframe] == [0, 60, 120]
    assert KEYFRAME_EVERY_ROWS == 60


def test_a_new_schema_begins_with_a_keyframe() -> None:
    rows = packed([floats([1, 2]), floats([1, 2]), floats([1, 2, 3])], [1, 1, 2])
    assert [row.keyframe for row in rows] == [True, False, True]


def test_the_packer_keeps_no_hold_of_the_array_it_was_given() -> None:
    page = floats([1, 2])
    _, state = pack_row(1, page, None)
    page.view(np.uint64)[0] = 9
    assert unpack_row(pack_row(1, page, state)[0], floats([1, 2])).tolist() == page.tolist()


@pytest.mark.parametrize(
    ("row", "previous"),
    [
        (PackedRow(keyframe=True, payload=b"1234567"), None),
        (PackedRow(keyframe=False, payload=b"\x01"), floats([1])),
        (PackedRow(keyframe=False, payload=b""), floats([1])),
        (PackedRow(keyframe=False, payload=b"\x00" + b"x" * 8), floats([1])),
        (PackedRow(keyframe=False, payload=b"\x00"), None),
    ],
)
def test_bytes_that_no_packer_wrote_are_refused(
    row: PackedRow, previous: FloatArray | None
) -> None:
    with pytest.raises(ValueError, match=r"bytes|without"):
        unpack_row(row, previous)
