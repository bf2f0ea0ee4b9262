"""The recent past of the series that share their sample times: one target, or one producer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import NAME_LABEL, STALE_NAN_BITS, FloatArray, Labels

IndexArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

_ABSENT_BITS = np.uint64(0x7FF8_6473_3477_0001)
"""Fills the cells of a row that has no sample of a series; a NaN that no page can spell."""
_STALE = np.uint64(STALE_NAN_BITS)
_FIRST_ROWS = 32


class Block:
    """A table of samples: a line for each series, a column for each sample time, oldest first.

    Held as integers, so that no operation on the way touches the bits of a NaN. Lines never move
    until `compact`. Invariant: `present[i]` says that line i has a sample, and no staleness
    marker, in the newest column.
    """

    def __init__(self, window_seconds: float) -> None:
        self.labels: list[Labels] = []
        self.failed = False
        self.present: BoolArray = np.zeros(0, dtype=np.bool_)
        self.expected: BoolArray = np.zeros(0, dtype=np.bool_)
        """Lines of the last good scrape."""
        self._window_seconds = window_seconds
        self._line_of: dict[Labels, int] = {}
        self._bits: NDArray[np.uint64] = np.empty((0, _FIRST_ROWS), dtype=np.uint64)
        self._times: FloatArray = np.empty(_FIRST_ROWS, dtype=np.float64)
        self._first = 0
        self._end = 0

    @property
    def size_bytes(self) -> int:
        """Memory of the samples."""
        return self._bits.nbytes + self._times.nbytes

    @property
    def newest_at(self) -> UnixSeconds:
        """Time of the newest column; minus infinity if there is none."""
        return float(self._times[self._end - 1]) if self._end > self._first else float("-inf")

    def knows(self, labels: Iterable[Labels]) -> bool:
        """Return whether every one of `labels` has its line."""
        return all(one in self._line_of for one in labels)

    def lines(self, labels: Iterable[Labels]) -> IndexArray:
        """Return the lines of `labels`, adding those missing."""
        before = len(self.labels)
        found = [self._line(one) for one in labels]
        if added := len(self.labels) - before:
            new = np.full((added, self._bits.shape[1]), _ABSENT_BITS, dtype=np.uint64)
            self._bits = np.concatenate([self._bits, new])
            nothing = np.zeros(added, dtype=np.bool_)
            self.present = np.concatenate([self.present, nothing])
            self.expected = np.concatenate([self.expected, nothing])
        return np.array(found, dtype=np.intp)

    def append(self, at: UnixSeconds, lines: IndexArray, values: FloatArray) -> None:
        """Add a column at `at`, which must be the newest; lines that had a sample go stale."""
        if self._end == len(self._times):
            self._make_room()
        column = self._bits[:, self._end]
        column[:] = _ABSENT_BITS
        column[self.present] = _STALE
        column[lines] = np.ascontiguousarray(values).view(np.uint64)
        self.present = np.zeros(len(self.labels), dtype=np.bool_)
        # A page may say a staleness marker itself; such a line is not present.
        self.present[lines] = column[lines] != _STALE
        self._times[self._end] = at
        self._end += 1

    def shrink(self, columns: int) -> int:
        """Keep at most about `columns` columns, the newest, and return how many went."""
        kept = min(self._end - self._first, max(1, columns * 3 // 4))
        gone = self._end - self._first - kept
        self._first = self._end - kept
        self._move_to(max(columns, kept + 1))
        return gone

    def window(self, start: UnixSeconds, end: UnixSeconds) -> tuple[int, int]:
        """Return the columns in the left-open window (start, end]."""
        live = self._times[self._first : self._end]
        low, high = np.searchsorted(live, (start, end), side="right")
        return self._first + int(low), self._first + int(high)

    def samples(self, line: int, low: int, high: int) -> tuple[FloatArray, FloatArray]:
        """Return times and values of a line in some columns, as copies."""
        bits = self._bits[line, low:high]
        there = bits != _ABSENT_BITS
        return self._times[low:high][there], bits[there].view(np.float64)

    def newest(self, line: int) -> float:
        """Return the value of a line in the newest column."""
        return float(self._bits[line, self._end - 1 : self._end].view(np.float64)[0])

    def compact(self) -> None:
        """Drop lines without a sample in any column; the others move."""
        filled = (self._bits[:, self._first : self._end] != _ABSENT_BITS).any(axis=1)
        kept = filled | self.present | self.expected
        self._bits = self._bits[kept]
        self.present, self.expected = self.present[kept], self.expected[kept]
        self.labels = [one for one, keep in zip(self.labels, kept, strict=True) if keep]
        self._line_of = {one: line for line, one in enumerate(self.labels)}

    def _line(self, labels: Labels) -> int:
        line = self._line_of.setdefault(labels, len(self.labels))
        if line == len(self.labels):
            self.labels.append(labels)
        return line

    def _make_room(self) -> None:
        oldest_at = self.newest_at - self._window_seconds
        self._first += int(np.searchsorted(self._times[self._first : self._end], oldest_at))
        live = self._end - self._first
        capacity = len(self._times)
        self._move_to(capacity if live <= capacity * 3 // 4 else capacity * 2)

    def _move_to(self, capacity: int) -> None:
        live = self._end - self._first
        bits = np.empty((len(self.labels), capacity), dtype=np.uint64)
        times = np.empty(capacity, dtype=np.float64)
        bits[:, :live] = self._bits[:, self._first : self._end]
        times[:live] = self._times[self._first : self._end]
        self._bits, self._times, self._first, self._end = bits, times, 0, live


def merged_labels(name: str, own: Labels, target: Labels) -> Labels:
    """Return a series' labels with its name and its target's labels.

    A label that both have is the target's; the page's becomes `exported_<name>`, as Prometheus
    has it without honor_labels.
    """
    merged = dict(target)
    taken = {label for label, _ in own} | set(merged)
    for label, value in own:
        free = label
        while free in merged or (free != label and free in taken):
            free = f"exported_{free}"
        merged[free] = value
        taken.add(free)
    merged[NAME_LABEL] = name
    return tuple(sorted(merged.items()))


def names_of(labels: Sequence[Labels]) -> dict[str, list[int]]:
    """Return the lines of each metric name."""
    lines: dict[str, list[int]] = {}
    for line, one in enumerate(labels):
        lines.setdefault(dict(one)[NAME_LABEL], []).append(line)
    return lines
