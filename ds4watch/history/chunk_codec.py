"""Ten minutes of scrapes of one target as one chunk: what `pack_rows` keeps, in a tenth of it.

Layout: a version byte, the lengths of three sections, and these: the scrapes (a line each: time,
time taken, samples on the page), the failures (JSON), the values of those that did not fail.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import zstandard
from numpy.typing import NDArray

from ds4watch.history.column_codec import pack_columns, unpack_columns
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import ScrapeFailure
from ds4watch.model.series import FloatArray

IndexArray = NDArray[np.intp]

_HEADER = struct.Struct("<BIII")
_VERSION = 1
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


def pack_chunk(scrapes: Scrapes) -> bytes:
    """Return scrapes as bytes."""
    lines = np.array([scrapes.times_ms, scrapes.took_ms, scrapes.page_samples], dtype=np.float64)
    sections = (pack_columns(lines.T), _told(scrapes.failures), pack_columns(scrapes.values))
    return _HEADER.pack(_VERSION, *map(len, sections)) + b"".join(sections)


def unpack_chunk(payload: bytes, columns: IndexArray | None = None) -> Scrapes:
    """Return the scrapes, with the chosen columns or all. Raises ValueError on rubbish."""
    lines, failures, values = _sections(payload)
    numbers = unpack_columns(lines).T.astype(np.int64)
    if len(numbers) != 3:
        message = f"a chunk with {len(numbers)} numbers for each scrape"
        raise ValueError(message)
    times_ms, took_ms, page_samples = numbers
    scrapes = Scrapes(
        times_ms=times_ms,
        took_ms=took_ms,
        page_samples=page_samples,
        failures=_failures(failures),
        values=unpack_columns(values, columns),
    )
    if len(scrapes.good) != len(scrapes.values):
        message = f"a chunk with {len(scrapes.values)} rows for {len(scrapes.good)} scrapes"
        raise ValueError(message)
    return scrapes


def checksum(payload: bytes) -> int:
    """Return what is stored beside a payload to tell whether it is still the same."""
    return zlib.crc32(payload)


def _sections(payload: bytes) -> Sequence[bytes]:
    if len(payload) < _HEADER.size:
        message = f"a chunk of {len(payload)} bytes"
        raise ValueError(message)
    version, first, second, third = _HEADER.unpack_from(payload)
    if version != _VERSION or len(payload) != _HEADER.size + first + second + third:
        message = f"a chunk of version {version} and {len(payload)} bytes"
        raise ValueError(message)
    body = payload[_HEADER.size :]
    return body[:first], body[first : first + second], body[first + second :]


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
