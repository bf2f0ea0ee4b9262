from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.history.codec import (
    KEYFRAME_EVERY_ROWS,
    SLOT_MS,
    ColumnState,
    NewRow,
    PackedRow,
    pack_keyframe,
    pack_rows,
    unpack_rows,
)
from ds4watch.model.series import FloatArray
from tests.unit.history.helpers import bits, floats, same

pages = st.integers(0, 40).flatmap(
    lambda columns: st.lists(
        st.lists(bits, min_size=columns, max_size=columns), min_size=1, max_size=8
    )
)


def packed(
    rows: list[FloatArray], schema_ids: list[int] | None = None, *, every_ms: int = 1
) -> list[PackedRow]:
    state: ColumnState | None = None
    made = []
    for number, row in enumerate(rows):
        schema_id = schema_ids[number] if schema_ids else 1
        [(one, state)] = pack_rows([NewRow(schema_id, number * every_ms, row, state)])
        made.append(one)
    return made


def unpacked(rows: list[PackedRow], columns: int, keep: list[int] | None = None) -> FloatArray:
    places = None if keep is None else np.array(keep, dtype=np.intp)
    keyframes = [row.keyframe for row in rows]
    return unpack_rows(keyframes, [row.payload for row in rows], columns, places)


@given(pages, st.data())
def test_every_bit_of_every_value_comes_back(
    page_bits: list[list[int]], data: st.DataObject
) -> None:
    table = np.stack([floats(page) for page in page_bits])
    rows = packed(list(table))
    assert same(unpacked(rows, table.shape[1]), table)
    columns = sorted(data.draw(st.sets(st.integers(0, max(0, table.shape[1] - 1)))))
    columns = columns if table.shape[1] else []
    assert same(unpacked(rows, table.shape[1], columns), table[:, columns])


@given(pages)
def test_a_wave_of_many_targets_packs_as_each_alone(page_bits: list[list[int]]) -> None:
    rows = [floats(page) for page in page_bits]
    before = pack_rows([NewRow(1, 0, row, None) for row in rows])
    news = [NewRow(1, 1, row, state) for row, (_, state) in zip(rows[::-1], before, strict=True)]
    alone = [pack_rows([new])[0][0] for new in news]
    assert [row for row, _ in pack_rows(news)] == alone


@given(st.lists(bits, min_size=1, max_size=100))
def test_a_row_like_the_one_before_costs_only_its_bitmap(page: list[int]) -> None:
    assert len(packed([floats(page)] * 2)[1].payload) == (len(page) + 7) // 8


def test_the_first_row_and_every_sixtieth_is_a_keyframe() -> None:
    rows = packed([floats([number]) for number in range(150)])
    assert [at for at, row in enumerate(rows) if row.keyframe] == [0, 60, 120]
    assert KEYFRAME_EVERY_ROWS == 60


def test_each_slot_of_ten_minutes_begins_with_a_keyframe() -> None:
    rows = packed([floats([number]) for number in range(9)], every_ms=SLOT_MS // 4)
    assert [at for at, row in enumerate(rows) if row.keyframe] == [0, 4, 8]


def test_a_new_schema_begins_with_a_keyframe() -> None:
    rows = packed([floats([1, 2]), floats([1, 2]), floats([1, 2, 3])], [1, 1, 2])
    assert [row.keyframe for row in rows] == [True, False, True]


def test_the_packer_keeps_no_hold_of_the_array_it_was_given() -> None:
    page = floats([1, 2])
    [(first, state)] = pack_rows([NewRow(1, 0, page, None)])
    page.view(np.uint64)[0] = 9
    [(second, _)] = pack_rows([NewRow(1, 1, page, state)])
    assert unpacked([first, second], 2)[1].view(np.uint64).tolist() == [9, 2]


@pytest.mark.parametrize(
    "rows",
    [
        [PackedRow(keyframe=True, payload=b"1234567")],
        [PackedRow(keyframe=False, payload=b"\x00")],
        [PackedRow(keyframe=True, payload=pack_keyframe(floats([1, 2])))],
        [PackedRow(keyframe=True, payload=b"12345678"), PackedRow(keyframe=False, payload=b"\x01")],
        [PackedRow(keyframe=True, payload=b"12345678"), PackedRow(keyframe=False, payload=b"")],
        [
            PackedRow(keyframe=True, payload=b"12345678"),
            PackedRow(keyframe=False, payload=b"\x00" + b"x" * 8),
        ],
    ],
)
def test_bytes_that_no_packer_wrote_are_refused(rows: list[PackedRow]) -> None:
    with pytest.raises(ValueError, match=r"bytes|without"):
        unpacked(rows, 1)
