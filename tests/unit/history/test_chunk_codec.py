from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ds4watch.history.chunk_codec import (
    Scrapes,
    checksum,
    pack_chunk,
    unpack_chunks,
)
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import ScrapeFailure
from tests.unit.history.helpers import bits, floats, same

DATA = Path(__file__).parents[2] / "data" / "history"
FAILURE = ScrapeFailure(EdgeReason.TIMEOUT, "no answer in 5 s, “really”")
milliseconds = st.integers(0, 2**42)


@st.composite
def scrapes(draw: st.DrawFn) -> Scrapes:
    rows, columns = draw(st.integers(1, 9)), draw(st.integers(0, 6))
    failed = draw(st.sets(st.integers(0, rows - 1)))
    good = rows - len(failed)
    cells = draw(st.lists(bits, min_size=good * columns, max_size=good * columns))
    times_ms, took_ms, page_samples = (
        np.array(draw(st.lists(one, min_size=rows, max_size=rows)), dtype=np.int64)
        for one in (milliseconds, milliseconds, st.integers(-1, 10**6))
    )
    return Scrapes(
        times_ms=times_ms,
        took_ms=took_ms,
        page_samples=page_samples,
        failures=dict.fromkeys(sorted(failed), FAILURE),
        values=floats(cells).reshape(good, columns),
    )


def unpack_chunk(payload: bytes, columns: NDArray[np.intp] | None = None) -> Scrapes:
    (found,) = unpack_chunks([payload], columns)
    if isinstance(found, ValueError):
        raise found
    return found


def strips(scrapes_of_run: Scrapes, width: int = 2) -> NDArray[np.bool_]:
    """Begin one at every other column."""
    begins: NDArray[np.bool_] = np.arange(scrapes_of_run.values.shape[1]) % width == 0
    return begins


@given(scrapes())
def test_times_failures_and_values_come_back(before: Scrapes) -> None:
    after = unpack_chunk(pack_chunk(before, strips(before)))
    for name in ("times_ms", "took_ms", "page_samples"):
        assert getattr(after, name).tolist() == getattr(before, name).tolist()
    assert after.failures == before.failures
    assert same(after.values, before.values)


def one() -> Scrapes:
    return Scrapes(
        np.array([1000, 2000]),
        np.array([3, 5000]),
        np.array([2, -1]),
        {1: FAILURE},
        np.ones((1, 2)),
    )


def test_chosen_columns_come_alone() -> None:
    assert unpack_chunk(pack_chunk(one(), strips(one())), np.array([1])).values.shape == (1, 1)


def test_a_chunk_of_a_later_version_or_cut_short_is_refused() -> None:
    payload = pack_chunk(one(), strips(one()))
    for wrong in (b"", payload[:20], payload[:-1], b"\x03" + payload[1:]):
        with pytest.raises(ValueError, match="a chunk of"):
            unpack_chunk(wrong)


def test_failures_that_are_not_as_written_are_refused() -> None:
    _, first, second = struct.unpack_from("<BII", pack_chunk(one(), strips(one())))
    body = pack_chunk(one(), strips(one()))[9:]
    for text in ("[[0]]", '[[0, "no such reason", ""]]', "{"):
        told = zstandard.compress(text.encode())
        payload = struct.pack("<BII", 2, len(told), second) + told + body[first:]
        with pytest.raises(ValueError, match="failures of a chunk"):
            unpack_chunk(payload)
    told = zstandard.compress(b'[[2, "timeout", ""]]')
    payload = struct.pack("<BII", 2, len(told), second) + told + body[first:]
    with pytest.raises(ValueError, match="and 1 failures"):
        unpack_chunk(payload)


def test_a_chunk_of_the_first_version_is_still_read() -> None:
    # Three scrapes, the second failed; written by ds4watch as it was before strips.
    after = unpack_chunk((DATA / "chunk-v1.bin").read_bytes())
    assert after.times_ms.tolist() == [1000, 2000, 3000]
    assert after.took_ms.tolist() == [3, 5000, 4]
    assert after.page_samples.tolist() == [2, -1, 2]
    assert after.failures == {1: FAILURE}
    assert same(after.values, np.array([[1.0, 0.25], [2.0, 0.5]]))
    one_column = unpack_chunk((DATA / "chunk-v1.bin").read_bytes(), np.array([1]))
    assert same(one_column.values, np.array([[0.25], [0.5]]))


def test_many_chunks_come_back_as_each_alone_and_a_damaged_one_alone_is_missing() -> None:
    some = [one(), replace(one(), values=np.array([[7.0, 0.5]]))]
    payloads = [pack_chunk(each, strips(each)) for each in some]
    broken = payloads[0][:-1] + bytes([payloads[0][-1] ^ 1])
    first, damaged, last = unpack_chunks([payloads[0], broken, payloads[1]], np.array([1]))
    assert isinstance(damaged, ValueError)
    assert not isinstance(first, ValueError)
    assert not isinstance(last, ValueError)
    assert (first.values.tolist(), last.values.tolist()) == ([[1.0]], [[0.5]])


def test_one_bit_more_is_another_checksum() -> None:
    assert checksum(b"chunk") != checksum(b"chunj")
