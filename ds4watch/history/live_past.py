"""What the store has of a target, as columns of the live buffer: failed scrapes in their places."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ds4watch.history.frames import StoredFrame
from ds4watch.model.series import STALE_NAN, FloatArray


class Past(NamedTuple):
    """Columns of one source: `times` (n,) rising, `values` (n, series)."""

    times: FloatArray
    values: FloatArray


def with_failures(frame: StoredFrame) -> tuple[Past, Past]:
    """Return the page's columns and those of `up` and its kin, up to the last good scrape.

    In a failed scrape every series of the page has the staleness marker.
    """
    between = [one for one in frame.failures if one.at <= frame.times.max()]
    count = len(between)
    if not count and (np.diff(frame.times) > 0).all():
        return Past(frame.times, frame.values), Past(frame.times, _own(frame))
    times = np.concatenate([frame.times, [one.at for one in between]])
    order = np.argsort(times, kind="stable")
    nothing = np.full((count, len(frame.columns)), STALE_NAN)
    values = np.concatenate([frame.values, nothing])
    failed = [(0.0, one.took_seconds, 0.0) for one in between]
    own = np.concatenate([_own(frame), np.reshape(failed, (count, 3))])
    newer = np.concatenate([[True], np.diff(times[order]) > 0])
    kept = order[newer]
    return Past(times[kept], values[kept]), Past(times[kept], own[kept])


def _own(frame: StoredFrame) -> FloatArray:
    """Return the columns of `up` and its kin for the good scrapes."""
    samples = np.where(frame.page_samples < 0, len(frame.schema.series), frame.page_samples)
    own: FloatArray = np.stack([np.ones(len(samples)), frame.took_seconds, samples], axis=1)
    return own
