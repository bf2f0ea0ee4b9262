"""The narrow port through which expressions see samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray
from ds4watch.promql.columns import NO_LABELS, LabelColumn


class MatchOp(StrEnum):
    """Label matching operators."""

    EQUAL = "="
    NOT_EQUAL = "!="
    REGEX = "=~"
    NOT_REGEX = "!~"


@dataclass(frozen=True, slots=True)
class Matcher:
    """One label matcher; regexes are RE2, fully anchored. An absent label equals ""."""

    name: str
    op: MatchOp
    value: str


class Latest(NamedTuple):
    """The newest sample of each series in a window.

    A series whose newest sample is a staleness marker is left out. `times`, `values`: (n,).
    failed: the last scrape of the target of some selected series failed, with samples or without.
    missing: the series of such targets; left empty, all is in doubt.
    """

    labels: LabelColumn
    times: FloatArray
    values: FloatArray
    failed: bool = False
    missing: LabelColumn = NO_LABELS


class Ends(NamedTuple):
    """The first and the last sample of each series in a window, and what lies between in sums.

    Staleness markers do not count as samples; a series without a sample is left out. All (n,).
    counts: samples in the window. drops: sum of the values that a smaller one followed.
    """

    labels: LabelColumn
    first_times: FloatArray
    first_values: FloatArray
    last_times: FloatArray
    last_values: FloatArray
    counts: NDArray[np.intp]
    drops: FloatArray
    failed: bool = False
    missing: LabelColumn = NO_LABELS


class Windows(NamedTuple):
    """All samples of each series in a window, oldest first, without staleness markers.

    times, values: (n, m); of row i the first `counts[i]` (at least 1) are samples, the rest is
    NaN. A series without a sample is left out.
    """

    labels: LabelColumn
    times: FloatArray
    values: FloatArray
    counts: NDArray[np.intp]
    failed: bool = False
    missing: LabelColumn = NO_LABELS


class Block(NamedTuple):
    """Series sampled at the same instants: `values` (c, m) at `times` (m,), rising.

    rows: (c,) where they stand in the labels. A staleness marker stands, too, where a series has
    no sample at one of the instants.
    """

    rows: NDArray[np.intp]
    times: FloatArray
    values: FloatArray


class SeriesMatrix(NamedTuple):
    """All samples of each series in a window, with staleness markers; each row is in one block."""

    labels: LabelColumn
    blocks: tuple[Block, ...]


class RangeStorage(Protocol):
    """Where the samples of range queries come from."""

    def columns(
        self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds
    ) -> SeriesMatrix:
        """Return the samples of each matching series in (start, end]; more may be there.

        Raises QueryError where there are more than can be read.
        """
        ...


class Storage(Protocol):
    """Where samples come from. All windows are left-open: (start, end]."""

    def latest(self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds) -> Latest:
        """Return the newest sample of each matching series."""
        ...

    def ends(self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds) -> Ends:
        """Return the ends of each matching series: all that rates need."""
        ...

    def windows(self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds) -> Windows:
        """Return all samples of each matching series."""
        ...
