"""The stored samples, worked on by hand: listed, exported, checked, pruned."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ds4watch.config.settings import StoreSettings
from ds4watch.engine.query_process import QueryProcess
from ds4watch.engine.query_wire import RangeQuery
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
from ds4watch.history.reader import StoreReader, reading
from ds4watch.history.samples import SampleStore
from ds4watch.history.strands import in_order, joined, page_series, scrape_series
from ds4watch.history.verify import Finding, TargetStats
from ds4watch.model.errors import ConfigError, Located
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.scrape import Target
from ds4watch.model.series import SeriesKey
from ds4watch.promql.result import Matrix

Progress = Callable[[int, int], None]
"""Called with what is done and how much there is to do."""

_BUSY_SECONDS = 10.0


class Resolution(StrEnum):
    """Of which samples: as scraped, or the roll-ups."""

    RAW = "raw"
    MINUTE = "1m"
    HOUR = "1h"


_BUCKET_SECONDS = {Resolution.MINUTE: 60, Resolution.HOUR: 3600}
# What is read at once: a few megabytes of a page of vLLM, however long the history is.
_SLICE_SECONDS = {Resolution.RAW: 1800, Resolution.MINUTE: 21_600, Resolution.HOUR: 604_800}


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


@dataclass(frozen=True, slots=True)
class _Slice:
    """What is read at once: one target from `start_at` to `end_at`, both included."""

    target: str
    start_at: UnixSeconds
    end_at: UnixSeconds


class Archive:
    """A store that was opened to be read."""

    def __init__(self, store: StoreReader) -> None:
        self._store = store

    @property
    def damaged(self) -> Collection[str]:
        """What was left out so far, for it cannot be read."""
        return self._store.damaged

    async def stats(self) -> list[TargetStats]:
        """Return what there is of each target."""
        return await self._store.stats()

    async def verify(self, progress: Progress) -> list[Finding]:
        """Return everything that cannot be read."""
        return await self._store.verify(progress)

    async def openmetrics(self, choice: Choice, progress: Progress) -> AsyncIterator[str]:
        """Yield the samples as OpenMetrics text.

        Each series' times rise, as promtool wants it. Raises ConfigError if series of two targets
        could not be told apart.
        """
        self._refuse_twins(await self._store.targets(), choice)
        async for frames in self._frames(choice, progress):
            pages = in_order(frames)
            scrapes = in_order(
                scrape_series(it, choice.wants) for it in frames if it.target.is_scraped
            )
            for part in (pages, scrapes):
                for frame in part:
                    for text in openmetrics(frame):
                        yield text
        yield OPENMETRICS_END

    async def csv(self, choice: Choice, progress: Progress) -> AsyncIterator[str]:
        """Yield the samples as CSV."""
        yield CSV_HEAD
        async for frames in self._frames(choice, progress):
            for frame in frames:
                own = [scrape_series(frame, choice.wants)] if frame.target.is_scraped else []
                for part in (frame, *own):
                    for text in csv_rows(part):
                        yield text

    async def rollups(
        self, choice: Choice, resolution: Resolution, progress: Progress
    ) -> AsyncIterator[str]:
        """Yield buckets of a minute or an hour as CSV."""
        yield ROLLUP_HEAD
        seconds = _BUCKET_SECONDS[resolution]
        slices = list(_slices(await self.stats(), choice, resolution))
        for done, it in enumerate(slices):
            progress(done, len(slices))
            frames = await self._store.rollups(
                it.target, seconds, it.start_at, it.end_at, choice.wants
            )
            for frame in joined(frames, seconds):
                for text in rollup_rows(frame):
                    yield text
        progress(len(slices), len(slices))

    async def _frames(
        self, choice: Choice, progress: Progress
    ) -> AsyncIterator[Collection[StoredFrame]]:
        slices = list(_slices(await self.stats(), choice, Resolution.RAW))
        keep = page_series(choice.wants)
        for done, it in enumerate(slices):
            progress(done, len(slices))
            yield await self._store.frames(it.target, it.start_at, it.end_at, keep)
        progress(len(slices), len(slices))

    @staticmethod
    def _refuse_twins(targets: Iterable[Target], choice: Choice) -> None:
        names: dict[object, str] = {}
        for target in targets:
            if choice.targets and target.name not in choice.targets:
                continue
            if not target.is_scraped:
                continue
            other = names.setdefault(target.labels, target.name)
            if other != target.name:
                raise ConfigError(
                    Located(
                        f"{other} and {target.name} have the same labels, so their series "
                        "would be one",
                        field="--target",
                        mend="export them one by one",
                    )
                )


@contextmanager
def opened(settings: StoreSettings, state_dir: Path) -> Iterator[Archive]:
    """Open the store that the settings name. A daemon may be at work on it."""
    with reading(place_of(settings, state_dir, Which.SAMPLES)) as reader:
        yield Archive(reader)


async def prune(
    settings: StoreSettings,
    state_dir: Path,
    before_at: UnixSeconds,
    *,
    clock: Clock,
    progress: Progress,
) -> tuple[int, int]:
    """Delete scrapes, and roll-ups too, from before an instant; return how many of each.

    No daemon may be at work meanwhile: it would not know what has gone.
    """
    place = place_of(settings, state_dir, Which.SAMPLES)
    with reading(place) as reader:
        if await reader.other_clients():
            finding = Located(
                f"{place}: a ds4watch is connected to this database",
                field="store.url",
                mend="stop it first; the daemon prunes by itself, as `store:` in its settings says",
            )
            raise ConfigError(finding)
    store = SampleStore.open(place, clock, busy_timeout_seconds=_BUSY_SECONDS)
    try:
        return await _prune(store, before_at, progress)
    finally:
        await store.close()


async def _prune(store: SampleStore, before_at: UnixSeconds, progress: Progress) -> tuple[int, int]:
    steps = len(_BUCKET_SECONDS) + 1
    progress(0, steps)
    scrapes = await store.prune(before_at)
    buckets = 0
    for done, seconds in enumerate(_BUCKET_SECONDS.values(), start=1):
        progress(done, steps)
        buckets += await store.prune_rollups(seconds, before_at)
    progress(steps, steps)
    return scrapes, buckets


def unknown_targets(wanted: Iterable[str], stats: Iterable[TargetStats]) -> list[str]:
    """Return which of the targets asked for have no history."""
    known = {one.target for one in stats}
    return [name for name in wanted if name not in known]


def _slices(
    stats: Iterable[TargetStats], choice: Choice, resolution: Resolution
) -> Iterator[_Slice]:
    """Yield what is to be read, target by target, each from its first sample to its last."""
    step = _SLICE_SECONDS[resolution]
    for one in stats:
        raw = resolution is Resolution.RAW
        first_at, last_at = (
            (one.first_at, one.last_at) if raw else (one.rollups_first_at, one.rollups_end_at)
        )
        if first_at is None or last_at is None:
            continue
        if choice.targets and one.target not in choice.targets:
            continue
        start_at, end_at = max(choice.start_at, first_at), min(choice.end_at, last_at)
        while start_at <= end_at:
            # At round times, as chunks are: a chunk is then read once.
            next_at = (start_at // step + 1) * step
            yield _Slice(one.target, start_at, min(end_at, next_at - 0.001))
            start_at = next_at


async def range_of(settings: StoreSettings, state_dir: Path, query: RangeQuery) -> Matrix:
    """Evaluate PromQL over what is stored. Raises QueryError, and ConfigError without a store."""
    place = place_of(settings, state_dir, Which.SAMPLES)
    with reading(place):
        pass  # told in one line here if there is none, or if it is of another version
    async with QueryProcess(place) as process:
        return await process.ask_range(query)
