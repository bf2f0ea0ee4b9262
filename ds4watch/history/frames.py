"""What the store gives back as columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.scrape import ScrapeFailure, ScrapeResult, Target
from ds4watch.model.series import FloatArray, Schema, SeriesKey

IndexArray = NDArray[np.intp]
Keep = Callable[[SeriesKey], bool]
SchemaOf = Callable[[int], Schema]

NO_SCHEMA = Schema(0, ())
"""Of scrapes that failed, with none before them that did not."""
_NO_VALUES: FloatArray = np.empty(0, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class FailedScrape:
    """A scrape without samples."""

    at: UnixSeconds
    took_seconds: float
    failure: ScrapeFailure


@dataclass(frozen=True, slots=True, eq=False)
class StoredFrame:
    """Consecutive scrapes of one target and one schema, in the order in which they were stored.

    `columns` are the places in the schema of the series that were asked for, rising. `times`,
    `took_seconds` and `page_samples` (-1: not known) have a place for each good scrape, `values`
    has shape (scrapes, columns), in any memory order.
    """

    target: Target
    schema: Schema
    columns: IndexArray
    times: FloatArray
    values: FloatArray
    took_seconds: FloatArray
    page_samples: NDArray[np.int64]
    failures: tuple[FailedScrape, ...]

    @property
    def first_at(self) -> UnixSeconds:
        """When the oldest scrape began, failed or not."""
        failed = min((one.at for one in self.failures), default=float("inf"))
        return min(failed, float(self.times.min(initial=np.inf)))


@dataclass(frozen=True, slots=True, eq=False)
class RollupFrame:
    """Buckets of one target and one schema: `starts_at` (buckets,), all else (buckets, columns).

    Where `count` is 0 a series had no sample. The mean is total ÷ count. A bucket in which the
    schema changed stands in two frames, each with its share.
    """

    target: Target
    schema: Schema
    columns: IndexArray
    starts_at: FloatArray
    minimum: FloatArray
    maximum: FloatArray
    last: FloatArray
    total: FloatArray
    count: FloatArray
    increase: FloatArray


class Pick:
    """Places of the series that `keep` wants, found once for each schema; None for all."""

    def __init__(self, keep: Keep | None) -> None:
        self._keep = keep
        self._known: dict[int, IndexArray] = {}

    def __call__(self, schema: Schema) -> IndexArray | None:
        """Return the places in `schema`, rising."""
        if self._keep is None:
            return None
        places = self._known.get(schema.id)
        if places is None:
            wanted = [place for place, key in enumerate(schema.series) if self._keep(key)]
            places = self._known[schema.id] = np.array(wanted, dtype=np.intp)
        return places


def results_of(frame: StoredFrame) -> list[ScrapeResult]:
    """Return a frame of all columns as scrapes."""
    values = np.ascontiguousarray(frame.values)
    samples = frame.page_samples.tolist()
    good = [
        ScrapeResult(
            target=frame.target,
            at=at,
            schema_id=frame.schema.id,
            values=row,
            took_seconds=took_seconds,
            page_samples=None if count < 0 else count,
        )
        for at, took_seconds, count, row in zip(
            frame.times.tolist(), frame.took_seconds.tolist(), samples, values, strict=True
        )
    ]
    failed = [
        ScrapeResult(frame.target, one.at, 0, _NO_VALUES, one.failure, one.took_seconds)
        for one in frame.failures
    ]
    return good + failed
