"""Scrapes of one target as one chunk: what `pack_rows` keeps, in a tenth of it.

Layout: the version, two lengths, the failures (JSON), and strips: of times, times taken, samples on
the page, and each series. Where a scrape failed the series go on as they were before it.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import zstandard
from numpy.typing import NDArray

from ds4watch.history.column_codec import unpack_columns
from ds4watch.history.column_numbers import BoolArray
from ds4watch.history.squeeze import FAST, LASTING
from ds4watch.history.strip_codec import pack_strips
from ds4watch.history.strip_reading import Payload, unpack_many
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import ScrapeFailure
from ds4watch.model.series import FloatArray

IndexArray = NDArray[np.intp]

_HEADER = struct.Struct("<BII")
_VERSION = 2
_OLD_HEADER = struct.Struct("<BIII")
_OLD_VERSION = 1
_OWN = 3
"""Columns before those of the series."""
_LEVEL = 3
_MAX_BYTES = 64 << 20
"""More than failures take; rubbish must not take the memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Scrapes:
    """Scrapes of one target and one schema, in the order in which they were stored.

    `times_ms`, `took_ms` and `page_samples` (-1: not known) have a place for each scrape,
    `failures` says which of them failed and why, `values` has a row for each that did not.
    """

    times_ms: NDArray[np.int64]
    took_ms: NDArray[np.int64]
    page_samples: NDArray[np.int64]
    failures: dict[int, ScrapeFailure]
    values: FloatArray

    @property
    def good(self) -> IndexArray:
        """Places of the scrapes that have values, in order."""
        mask = np.ones(len(self.times_ms), dtype=np.bool_)
        mask[list(self.failures)] = False
        return np.flatnonzero(mask)


_UNREAD = ValueError("not read")


def pack_chunk(scrapes: Scrapes, begins: BoolArray, *, lasting: bool = False) -> bytes:
    """Return scrapes as bytes; at the columns `begins` begin those that are read together.

    lasting: it stays long, so that fewer bytes are worth more time.
    """
    own = (scrapes.times_ms, scrapes.took_ms, scrapes.page_samples)
    values = scrapes.values
    if scrapes.failures:
        values = _spread(scrapes)
    table = np.column_stack([*(one.astype(np.float64) for one in own), values])
    begins = np.concatenate([np.ones(_OWN, dtype=np.bool_), begins])
    strips = pack_strips(table, begins, LASTING if lasting else FAST)
    failures = _told(scrapes.failures)
    return _HEADER.pack(_VERSION, len(failures), len(strips)) + failures + strips


def unpack_chunks(
    payloads: Sequence[Payload], columns: IndexArray | None = None, *, times_only: bool = False
) -> list[Scrapes | ValueError]:
    """Return the scrapes of many chunks, all columns or some, or why one cannot be read.

    Many at once take much less time than one by one.

    times_only: how long they took and how many samples they had may be left out, as -1.
    """
    found: list[Scrapes | ValueError] = []
    strips: list[Payload] = []
    starts: list[int] = []
    failures: dict[int, dict[int, ScrapeFailure]] = {}
    for place, payload in enumerate(payloads):
        try:
            if payload[:1] == bytes([_OLD_VERSION]):
                found.append(_unpacked_old(payload[: len(payload)], columns))
                continue
            failures[place], start = _sections(payload)
        except ValueError as error:
            found.append(error)
        else:
            strips.append(payload)
            starts.append(start)
            found.append(_UNREAD)
    own = 1 if times_only else _OWN
    wanted = None
    if columns is not None:
        wanted = np.concatenate([np.arange(own), columns + _OWN])
    tables = unpack_many(strips, wanted, starts=starts)
    for (place, why), unpacked in zip(failures.items(), tables, strict=True):
        if isinstance(unpacked, ValueError):
            found[place] = unpacked
        else:
            found[place] = _scrapes(unpacked, why, own if columns is not None else _OWN)
    return found


def _spread(scrapes: Scrapes) -> FloatArray:
    """Return values with a row for each scrape."""
    good = scrapes.good
    if not good.size:
        return np.zeros((len(scrapes.times_ms), scrapes.values.shape[1]))
    before = np.searchsorted(good, np.arange(len(scrapes.times_ms)), side="right") - 1
    spread: FloatArray = scrapes.values[np.maximum(before, 0)]
    return spread


def _scrapes(
    table: FloatArray, failures: dict[int, ScrapeFailure], own: int
) -> Scrapes | ValueError:
    """Take scrapes out of a table that has the first `own` columns of each."""
    if table.shape[1] < own or any(not 0 <= place < len(table) for place in failures):
        return ValueError(f"a chunk of {table.shape} numbers and {len(failures)} failures")
    told = np.full((_OWN, len(table)), -1, dtype=np.int64)
    told[:own] = table[:, :own].T
    values = table[:, own:]
    times_ms, took_ms, page_samples = told
    scrapes = Scrapes(times_ms, took_ms, page_samples, failures, values)
    return replace(scrapes, values=values[scrapes.good]) if failures else scrapes


def _unpacked_old(payload: bytes, columns: IndexArray | None) -> Scrapes:
    if len(payload) < _OLD_HEADER.size:
        message = f"a chunk of {len(payload)} bytes"
        raise ValueError(message)
    version, first, second, third = _OLD_HEADER.unpack_from(payload)
    if len(payload) != _OLD_HEADER.size + first + second + third:
        message = f"a chunk of version {version} and {len(payload)} bytes"
        raise ValueError(message)
    body = payload[_OLD_HEADER.size :]
    numbers = unpack_columns(body[:first]).T.astype(np.int64)
    if len(numbers) != _OWN:
        message = f"a chunk with {len(numbers)} numbers for each scrape"
        raise ValueError(message)
    times_ms, took_ms, page_samples = numbers
    scrapes = Scrapes(
        times_ms=times_ms,
        took_ms=took_ms,
        page_samples=page_samples,
        failures=_failures(body[first : first + second]),
        values=unpack_columns(body[first + second :], columns),
    )
    if len(scrapes.good) != len(scrapes.values):
        message = f"a chunk with {len(scrapes.values)} rows for {len(scrapes.good)} scrapes"
        raise ValueError(message)
    return scrapes


def checks_itself(payload: Payload) -> bool:
    """Say whether what is read of a payload is checked as it is read, without the rest."""
    return payload[:1] == bytes([_VERSION])


def checksum(payload: bytes) -> int:
    """Return what is stored beside a payload to tell whether it is still the same."""
    return zlib.crc32(payload)


def _sections(payload: Payload) -> tuple[dict[int, ScrapeFailure], int]:
    """Return the failures, and where the strips begin."""
    size = len(payload)
    if size < _HEADER.size:
        message = f"a chunk of {size} bytes"
        raise ValueError(message)
    version, first, second = _HEADER.unpack(payload[: _HEADER.size])
    start = _HEADER.size + first
    if version != _VERSION or size != start + second:
        message = f"a chunk of version {version} and {size} bytes"
        raise ValueError(message)
    return (_failures(payload[_HEADER.size : start]) if first else {}), start


def _told(failures: dict[int, ScrapeFailure]) -> bytes:
    if not failures:
        return b""
    rows = [[place, why.reason.value, why.message] for place, why in failures.items()]
    return zstandard.compress(json.dumps(rows).encode(), _LEVEL)


def _failures(section: bytes) -> dict[int, ScrapeFailure]:
    if not section:
        return {}
    try:
        rows = json.loads(_plain(section))
        return {place: ScrapeFailure(EdgeReason(why), text) for place, why, text in rows}
    except (zstandard.ZstdError, ValueError, TypeError) as error:
        message = f"the failures of a chunk cannot be read: {error}"
        raise ValueError(message) from error


def _plain(section: bytes) -> bytes:
    size = zstandard.frame_content_size(section)
    if not 0 <= size <= _MAX_BYTES:
        message = f"{size} bytes of them"
        raise ValueError(message)
    return zstandard.decompress(section)
