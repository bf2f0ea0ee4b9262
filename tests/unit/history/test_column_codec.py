from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.history.column_codec import pack_columns, unpack_columns
from ds4watch.history.strip_codec import pack_strips
from ds4watch.history.strip_reading import unpack_many
from ds4watch.model.series import FloatArray
from tests.unit.history.helpers import bits, floats, same

steps = st.integers(0, 3) | st.integers(-(2**40), 2**40)


def grown(start: int, increments: list[int]) -> list[float]:
    return [float(one) for one in np.cumsum([float(start), *map(float, increments)])]


def column(rows: int) -> st.SearchStrategy[FloatArray]:
    """A column as pages have them, and as they do not."""
    odd = st.lists(bits, min_size=rows, max_size=rows).map(floats)
    still = bits.map(lambda one: floats([one] * rows))
    counter = st.builds(
        grown,
        st.integers(-(2**53), 2**53),
        st.lists(steps, min_size=rows - 1, max_size=rows - 1),
    ).map(np.array)
    decimal = st.lists(st.integers(-(10**9), 10**9), min_size=rows, max_size=rows).map(
        lambda numbers: np.array(numbers) / 1000
    )
    real = st.lists(st.floats(), min_size=rows, max_size=rows).map(np.array)
    return odd | still | counter | decimal | real


tables = st.integers(1, 8).flatmap(
    lambda rows: st.lists(column(rows), min_size=1, max_size=6).map(
        lambda columns: np.stack(columns, axis=1)
    )
)


@given(tables, st.data())
def test_every_bit_comes_back_all_columns_or_some(table: FloatArray, data: st.DataObject) -> None:
    payload = pack_columns(table)
    assert same(unpack_columns(payload), table)
    keep = sorted(data.draw(st.sets(st.integers(0, table.shape[1] - 1))))
    some = unpack_columns(payload, np.array(keep, dtype=np.intp))
    assert same(some, table[:, keep])


@given(tables, st.data())
def test_every_bit_comes_back_from_strips_all_columns_or_some(
    table: FloatArray, data: st.DataObject
) -> None:
    width = table.shape[1]
    begins = data.draw(st.lists(st.booleans(), min_size=width - 1, max_size=width - 1))
    payload = pack_strips(table, np.array([True, *begins]))
    (every,) = unpack_many([payload])
    assert not isinstance(every, ValueError)
    assert same(every, table)
    keep = sorted(data.draw(st.sets(st.integers(0, width - 1))))
    (some,) = unpack_many([payload], np.array(keep, dtype=np.intp))
    assert not isinstance(some, ValueError)
    assert same(some, table[:, keep])


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1)])
def test_tables_without_rows_or_columns(shape: tuple[int, int]) -> None:
    table = np.ones(shape)
    assert same(unpack_columns(pack_columns(table)), table)


ROWS = 600


def grows(seed: int) -> FloatArray:
    return np.cumsum(np.random.default_rng(seed).integers(0, 9, ROWS)).astype(np.float64)


SIZES: dict[str, tuple[Callable[[int], FloatArray], float]] = {
    "a constant": (lambda seed: np.full(ROWS, seed / 7), 0.05),
    "a clock": (lambda seed: 1.8e9 + np.arange(seed, seed + ROWS, dtype=np.float64), 0.05),
    "a counter": (grows, 0.6),
    "decimals": (lambda seed: grows(seed) / 100, 0.6),
}


@pytest.mark.parametrize("name", SIZES)
def test_what_pages_are_made_of_gets_small(name: str) -> None:
    make, bytes_a_sample = SIZES[name]
    values = np.stack([make(seed) for seed in range(10)], axis=1)
    assert len(pack_columns(values)) / values.size < bytes_a_sample


def test_buckets_that_grow_together_cost_as_one() -> None:
    """A histogram's buckets are cumulative: what falls into one counts in all above."""
    one = grows(7)[:, None]
    assert len(pack_columns(np.repeat(one, 20, axis=1))) < len(pack_columns(one)) + 200


@given(st.data())
def test_rubbish_is_refused_or_gives_a_table(data: st.DataObject) -> None:
    payload = bytearray(pack_columns(np.stack([grows(20)] * 5, axis=1)))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        unpack_columns(bytes(payload))
    except ValueError:
        return


@pytest.mark.parametrize("length", [0, 10, 50])
def test_a_payload_cut_short_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=r"packed columns|bytes where"):
        unpack_columns(pack_columns(np.stack([grows(20)] * 5, axis=1))[:length])
