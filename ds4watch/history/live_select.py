"""Answers to selectors: what the chosen rows of all pools hold, under one column of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ds4watch.history.live_pool import BoolArray, IndexArray, is_real
from ds4watch.history.live_shelf import Selection
from ds4watch.history.live_window import RowEnds, Rows, Spans, ends, newest, windows
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray
from ds4watch.promql.columns import NO_LABELS, LabelColumn
from ds4watch.promql.storage import Ends, Latest, Windows

_NONE: FloatArray = np.empty(0)
_NO_COUNTS: IndexArray = np.empty(0, dtype=np.intp)
_T = TypeVar("_T", bound=np.generic)


def latest_of(selection: Selection, start: UnixSeconds, end: UnixSeconds) -> Latest:
    """Return promql.storage.Latest of a selection."""
    found = [newest(part, start, end) for part in selection.parts]
    if not found:
        return Latest(NO_LABELS, _NONE, _NONE)
    times = _joined([it[0] for it in found])
    values = _joined([it[1] for it in found])
    missing = _missing(selection, start)
    failed = bool(len(missing))
    real = is_real(values)
    if real.all():
        return Latest(selection.labels, times, values, failed, missing)
    kept = np.flatnonzero(real)
    return Latest(selection.labels.take(kept), times[kept], values[kept], failed, missing)


def ends_of(selection: Selection, start: UnixSeconds, end: UnixSeconds) -> Ends:
    """Return promql.storage.Ends of a selection."""
    found = [ends(part, _spans(part, start, end)) for part in selection.parts]
    if not found:
        return Ends(NO_LABELS, _NONE, _NONE, _NONE, _NONE, _NO_COUNTS, _NONE)
    joined = RowEnds(*(_joined(list(arrays)) for arrays in zip(*found, strict=True)))
    labels, kept = _with_samples(selection.labels, joined.counts)
    missing = _missing(selection, start)
    failed = bool(len(missing))
    if kept is not None:
        joined = RowEnds(*(array[kept] for array in joined))  # type: ignore[arg-type]
    return Ends(
        labels,
        joined.first_times,
        joined.first_values,
        joined.last_times,
        joined.last_values,
        joined.counts,
        joined.drops,
        failed,
        missing,
    )


def windows_of(selection: Selection, start: UnixSeconds, end: UnixSeconds) -> Windows:
    """Return promql.storage.Windows of a selection."""
    found = [windows(part, _spans(part, start, end)) for part in selection.parts]
    if not found:
        return Windows(NO_LABELS, np.empty((0, 0)), np.empty((0, 0)), _NO_COUNTS)
    width = max(it.times.shape[1] for it in found)
    times = _joined([_widened(it.times, width) for it in found])
    values = _joined([_widened(it.values, width) for it in found])
    counts = _joined([it.counts for it in found])
    labels, kept = _with_samples(selection.labels, counts)
    missing = _missing(selection, start)
    failed = bool(len(missing))
    if kept is None:
        return Windows(labels, times, values, counts, failed, missing)
    return Windows(labels, times[kept], values[kept], counts[kept], failed, missing)


def _with_samples(labels: LabelColumn, counts: IndexArray) -> tuple[LabelColumn, IndexArray | None]:
    if counts.all():
        return labels, None
    kept = np.flatnonzero(counts)
    return labels.take(kept), kept


def _missing(selection: Selection, start: UnixSeconds) -> LabelColumn:
    """Return the chosen series that are missing because their target's last scrape failed."""
    if not any(part.pool.failed.any() for part in selection.parts):
        return NO_LABELS
    return selection.labels.where(_joined([_has_failed(part, start) for part in selection.parts]))


def _has_failed(part: Rows, start: UnixSeconds) -> BoolArray:
    pool = part.pool
    left_lately = pool.left_at[part.rows] > start
    waited_for = (pool.expected[part.rows] | left_lately) & ~pool.present[part.rows]
    failed: BoolArray = pool.failed[part.sources] & waited_for
    return failed


def _spans(part: Rows, start: UnixSeconds, end: UnixSeconds) -> Spans:
    return part.pool.remembered((start, end), lambda: Spans(part.pool, start, end))


def _joined(arrays: Sequence[NDArray[_T]]) -> NDArray[_T]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _widened(array: FloatArray, width: int) -> FloatArray:
    missing = width - array.shape[1]
    if not missing:
        return array
    return np.pad(array, ((0, 0), (0, missing)), constant_values=np.nan)
