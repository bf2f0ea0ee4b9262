"""Stores with time in them, for the tests of folding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ds4watch.history.frames import Keep, RollupFrame
from ds4watch.history.place import Place
from ds4watch.history.reader import reading
from ds4watch.history.samples import SampleStore
from ds4watch.history.verify import Finding, Progress, TargetStats
from ds4watch.model.scrape import ScrapeResult, Target
from tests.edge.history.helpers import NOW, W1, Base, FixedClock, scrape

SLOT = 600
"""Folding goes by slots of ten minutes; NOW is at the start of one."""


def open_store(place: Place) -> SampleStore:
    return SampleStore.open(place, FixedClock(), busy_timeout_seconds=0.05)


def counting(
    seconds: Iterable[int], *, target: Target = W1, schema_id: int = 1
) -> list[ScrapeResult]:
    """Scrapes whose first column tells their second, with a second one that is odd."""
    return [
        scrape(
            NOW + at, [float(at), np.nan if at % 7 else at / 8], target=target, schema_id=schema_id
        )
        for at in seconds
    ]


def seconds_of(results: Sequence[ScrapeResult]) -> list[int]:
    return [round(one.at - NOW) for one in results]


def counts(base: Base) -> tuple[int, int]:
    """Raw scrapes and chunks on disk."""
    [(rows,)] = base.query("SELECT count(*) FROM scrapes")
    [(chunks,)] = base.query("SELECT count(*) FROM chunks")
    return rows, chunks


async def verified(base: Base, told: Progress = lambda _done, _total: None) -> list[Finding]:
    """What the command finds damaged."""
    with reading(base.place) as reader:
        return await reader.verify(told)


async def stats_of(base: Base) -> list[TargetStats]:
    with reading(base.place) as reader:
        return await reader.stats()


async def rollups_of(
    base: Base,
    resolution_seconds: int,
    start_at: float,
    end_at: float,
    keep: Keep = lambda _key: True,
) -> list[RollupFrame]:
    """The buckets of w1."""
    with reading(base.place) as reader:
        return list(await reader.rollups("w1", resolution_seconds, start_at, end_at, keep))
