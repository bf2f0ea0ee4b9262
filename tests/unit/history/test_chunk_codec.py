from __future__ import annotations

import json
import struct

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ds4watch.history.chunk_codec import Scrapes, checksum, pack_chunk, unpack_chunk
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import ScrapeFailure
from tests.unit.history.helpers import bits, floats, same

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


def strips(scrapes_of_run: Scrapes, width: int = 2) -> NDArray[np.bool_]:
    """Begin one at every other column."""
    return np.arange(scrapes_of_run.values.shape[1]) % width == 0


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
    _, first, second, third = struct.unpack_from("<BIII", pack_chunk(one(), strips(one())))
    body = pack_chunk(one(), strips(one()))[13:]
    for text in ("[[0]]", '[[0, "no such reason", ""]]', "{"):
        told = zstandard.compress(text.encode())
        payload = struct.pack("<BIII", 1, first, len(told), third)
        payload += body[:first] + told + body[first + second :]
        with pytest.raises(ValueError, match="failures of a chunk"):
            unpack_chunk(payload)
    told = zstandard.compress(json.dumps([]).encode())
    payload = struct.pack("<BIII", 1, first, len(told), third)
    with pytest.raises(ValueError, match="1 rows for 2 scrapes"):
        unpack_chunk(payload + body[:first] + told + body[first + second :])


def test_one_bit_more_is_another_checksum() -> None:
    assert checksum(b"chunk") != checksum(b"chunj")
