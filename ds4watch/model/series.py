"""Series: what a stream of samples is called."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""Label pairs sorted by name, without empty values, without `__name__` unless said so."""

FloatArray: TypeAlias = NDArray[np.float64]

NAME_LABEL = "__name__"
STALE_NAN_BITS = 0x7FF0000000000002
"""Prometheus' staleness marker (model/value/value.go); told from other NaNs by its bits only."""
STALE_NAN: float = struct.unpack("<d", struct.pack("<Q", STALE_NAN_BITS))[0]


def labels_of(pairs: Mapping[str, str]) -> Labels:
    """Return `pairs` as canonical labels: sorted by name, empty values left out."""
    return tuple(sorted((name, value) for name, value in pairs.items() if value != ""))


def is_stale(values: FloatArray) -> NDArray[np.bool_]:
    """Return, elementwise, whether a value is the staleness marker (bit comparison)."""
    contiguous = np.ascontiguousarray(values, dtype=np.float64)
    stale: NDArray[np.bool_] = contiguous.view(np.uint64) == np.uint64(STALE_NAN_BITS)
    return stale


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """A series within one target's page: metric name and the labels on the page."""

    name: str
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class Schema:
    """The ordered list of series of a page; shared by all scrapes, and targets, that show it."""

    id: int
    series: tuple[SeriesKey, ...]


class Sample(NamedTuple):
    """One value of one series at an instant given elsewhere; for small sets, never per scrape."""

    name: str
    labels: Labels
    value: float
