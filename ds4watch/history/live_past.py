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
    times = np.concatenate([frame.times, [one.at for one in between]])
    order = np.argsort(times, kind="stable")
    nothing = np.full((count, len(frame.columns)), STALE_NAN)
    values = np.concatenate([frame.values, nothing])
    samples = np.where(frame.page_samples < 0, len(frame.schema.series), frame.page_samples)
    own = np.stack(
        [
            np.concatenate([np.ones(len(frame.times)), np.zeros(count)]),
            np.concatenate([frame.took_seconds, [one.took_seconds for one in between]]),
            np.concatenate([samples, np.zeros(count)]),
        ],
        axis=1,
    )
    newer = np.concatenate([[True], np.diff(times[order]) > 0])
    kept = order[newer]
    return Past(times[kept], values[kept]), Past(times[kept], own[kept])
