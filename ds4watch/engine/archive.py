"""The stored samples, worked on by hand: listed, exported, checked, pruned."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ds4watch.config.settings import StoreSettings
from ds4watch.history.export import (
    CSV_HEAD,
    OPENMETRICS_END,
    ROLLUP_HEAD,
    csv_rows,
    openmetrics,
    rollup_rows,
)
from ds4watch.history.frames import StoredFrame
from ds4watch.history.migrate import Which
from ds4watch.history.place import place_of
from ds4watch.history.samples import SampleStore
from ds4watch.history.verify import Finding, TargetStats
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.series import SeriesKey

Progress = Callable[[int, int], None]
"""Called with what is done and how much there is to do."""

_SLICE_SECONDS = 3600.0
"""What is read at once: memory stays bounded, however long the history is."""


class Resolution(StrEnum):
    """Of which samples: as scraped, or the roll-ups."""

    RAW = "raw"
    MINUTE = "1m"
    HOUR = "1h"


_BUCKET_SECONDS = {Resolution.MINUTE: 60, Resolution.HOUR: 3600}


@dataclass(frozen=True, slots=True)
class Choice:
    """Which samples: of these targets and metrics (all, if none are named), in [start, end]."""

    start_at: UnixSeconds
    end_at: UnixSeconds
    targets: Collection[str] = ()
    names: Collection[str] = ()

    def wants(self, key: SeriesKey) -> bool:
        """Say whether a series is among them."""
        return not self.names or key.name in self.names

    def slices(self) -> Iterator[tuple[UnixSeconds, UnixSeconds]]:
        """Yield the span in pieces whose ends do not overlap, to the millisecond."""
        start = self.start_at
        while start <= self.end_at:
            end = min(start + _SLICE_SECONDS, self.end_at + 0.001)
            yield start, end - 0.001
            start = end


class Archive:
    """A store that was opened for this."""

    def __init__(self, store: SampleStore) -> None:
        self._store = store

    async def stats(self) -> list[TargetStats]:
        """Return what there is of each target."""
        return await self._store.stats()

    async def verify(self, progress: Progress) -> list[Finding]:
        """Return everything that cannot be read."""
        return await self._store.verify(progress)

    async def prune(self, before_at: UnixSeconds, progress: Progress) -> int:
        """Delete scrapes, and roll-ups too, from before an instant; return how many scrapes."""
        steps = len(_BUCKET_SECONDS) + 1
        gone = await self._store.prune(before_at)
        progress(1, steps)
        for done, seconds in enumerate(_BUCKET_SECONDS.values(), start=2):
            await self._store.prune_rollups(seconds, before_at)
            progress(done, steps)
        return gone

    async def openmetrics(self, choice: Choice, progress: Progress) -> AsyncIterator[str]:
        """Yield the samples as OpenMetrics text."""
        async for frame in self._frames(choice, progress):
            for text in openmetrics(frame):
                yield text
        yield OPENMETRICS_END

    async def csv(self, choice: Choice, progress: Progress) -> AsyncIterator[str]:
        """Yield the samples as CSV."""
        yield CSV_HEAD
        async for frame in self._frames(choice, progress):
            for text in csv_rows(frame):
                yield text

    async def rollups(
        self, choice: Choice, resolution: Resolution, progress: Progress
    ) -> AsyncIterator[str]:
        """Yield buckets of a minute or an hour as CSV."""
        yield ROLLUP_HEAD
        names = await self._targets(choice)
        for done, name in enumerate(names):
            progress(done, len(names))
            for frame in await self._store.read_rollup(
                name,
                _BUCKET_SECONDS[resolution],
                choice.start_at,
                choice.end_at,
                keep=choice.wants,
            ):
                for text in rollup_rows(frame):
                    yield text
        progress(len(names), len(names))

    async def _frames(self, choice: Choice, progress: Progress) -> AsyncIterator[StoredFrame]:
        names = await self._targets(choice)
        spans = {it.target: (it.first_at, it.last_at) for it in await self._store.stats()}
        for done, name in enumerate(names):
            progress(done, len(names))
            first_at, last_at = spans.get(name, (0.0, -1.0))
            held = Choice(max(choice.start_at, first_at), min(choice.end_at, last_at))
            for start, end in held.slices():
                for frame in await self._store.frames(name, start, end, keep=choice.wants):
                    yield frame
        progress(len(names), len(names))

    async def _targets(self, choice: Choice) -> list[str]:
        known = await self._store.targets()
        return [name for name in known if not choice.targets or name in choice.targets]


@asynccontextmanager
async def opened(settings: StoreSettings, state_dir: Path, clock: Clock) -> AsyncIterator[Archive]:
    """Open the store that the settings name. A daemon may be at work on it."""
    store = SampleStore.open(place_of(settings, state_dir, Which.SAMPLES), clock)
    try:
        yield Archive(store)
    finally:
        await store.close()


def unknown_targets(wanted: Iterable[str], stats: Iterable[TargetStats]) -> list[str]:
    """Return which of the targets asked for have no history."""
    known = {one.target for one in stats}
    return [name for name in wanted if name not in known]
