"""What rules look at: the recent past of chosen series, in memory."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ds4watch.history.live_block import Block, IndexArray, merged_labels, names_of
from ds4watch.history.matching import predicate
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.scrape import ScrapeResult, Target
from ds4watch.model.series import NAME_LABEL, FloatArray, Labels, Sample, Schema, SeriesKey
from ds4watch.promql.storage import Matcher, MatchOp, SeriesWindow

_log = logging.getLogger(__name__)

OWN_PREFIX = "ds4_"
SCRAPE_SERIES = ("up", "scrape_duration_seconds", "scrape_samples_scraped")
"""Written for each target by ourselves, scrape failed or not; the first lines of its block."""
DEFAULT_BUDGET_BYTES = 256 << 20
_CACHED_SELECTORS = 1024
_FEWEST_COLUMNS = 8
_END_OF_TIME: UnixSeconds = float(2**40)

NO_LINES: IndexArray = np.empty(0, dtype=np.intp)
NO_VALUES: FloatArray = np.empty(0, dtype=np.float64)

SchemaOf = Callable[[int], Schema]


class ScrapeHistory(Protocol):
    """Where the past comes from at a start."""

    def schema(self, schema_id: int) -> Schema:
        """Return a schema by its number."""
        ...

    async def targets(self) -> list[str]:
        """Return the names of all targets."""
        ...

    async def read(
        self, target: str, start_at: UnixSeconds, end_at: UnixSeconds
    ) -> list[ScrapeResult]:
        """Return scrapes of a target, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class _Columns:
    """Which values of a schema are kept (`picked`), and on which lines of the block."""

    picked: IndexArray
    lines: IndexArray


@dataclass(slots=True)
class _Source:
    """A block and what it is the block of; `target` is None for series made here."""

    block: Block
    target: Target | None = None
    columns: dict[int, _Columns] = field(default_factory=dict)
    by_name: dict[str, list[int]] = field(default_factory=dict)


class LiveBuffer:
    """The last `window_seconds` of the selected series, of `ds4_*` and of `up`.

    Implements promql.storage.Storage. For one thread. Over `budget_bytes` the blocks over their
    fair share lose their oldest samples, counted in `dropped_columns`. Samples that are not newer
    than their target's newest are dropped and counted in `out_of_order`.
    """

    def __init__(
        self,
        *,
        window_seconds: float,
        budget_bytes: int = DEFAULT_BUDGET_BYTES,
        names: Collection[str] = (),
    ) -> None:
        self.dropped_columns = 0
        self.out_of_order = 0
        self._window_seconds = window_seconds
        self._budget_bytes = budget_bytes
        self._names = frozenset(names)
        self._sources: dict[str, _Source] = {}
        self._retired: list[_Source] = []
        self._producers: dict[str, _Source] = {}
        self._selected: dict[tuple[Matcher, ...], list[tuple[_Source, list[int]]]] = {}

    @property
    def size_bytes(self) -> int:
        """Memory of the samples held."""
        return sum(source.block.size_bytes for source in self._all())

    def append(self, results: Sequence[ScrapeResult], schema_of: SchemaOf) -> None:
        """Take in scrapes, failed ones included."""
        for result in results:
            source = self._source(result)
            if result.at <= source.block.newest_at:
                self.out_of_order += 1
            elif result.failure is None:
                self._append_good(source, result, schema_of)
            else:
                self._append_failed(source, result)
        if results:
            self._tidy(max(result.at for result in results))

    def remove_target(self, name: str, at: UnixSeconds) -> None:
        """End every series of a target that was removed on purpose."""
        source = self._sources.pop(name, None)
        if source is not None:
            self._retire(source, at)

    def write(self, producer: str, samples: Sequence[Sample], at: UnixSeconds) -> None:
        """Take in series made here. Those of `producer`'s last write that are missing go stale."""
        source = self._producers.get(producer)
        if source is None:
            source = self._producers[producer] = _Source(Block(self._window_seconds))
        block = source.block
        if at <= block.newest_at:
            self.out_of_order += 1
            return
        labels = [merged_labels(sample.name, sample.labels, ()) for sample in samples]
        lines = self._lines(source, labels)
        values = np.array([sample.value for sample in samples], dtype=np.float64)
        block.append(at, lines, values)
        self._tidy(at)

    def select(
        self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds
    ) -> list[SeriesWindow]:
        """Return the matching series' samples in the left-open window (start, end]."""
        found: list[SeriesWindow] = []
        for source, lines in self._matching(tuple(matchers)):
            block = source.block
            low, high = block.window(start, end)
            for line in lines:
                # What we write about a scrape is complete whether the scrape failed or not.
                failed = block.failed and line >= len(SCRAPE_SERIES)
                times, values = block.samples(line, low, high)
                if len(times) or (failed and block.expected[line]):
                    found.append(SeriesWindow(block.labels[line], times, values, failed))
        return found

    def latest(self, name: str) -> list[tuple[Labels, float]]:
        """Return the live values of a metric, with labels that leave its name out."""
        return [
            (_without_name(source.block.labels[line]), source.block.newest(line))
            for source in self._all()
            for line in source.by_name.get(name, ())
            if source.block.present[line]
        ]

    async def reload(self, store: ScrapeHistory, since: UnixSeconds) -> None:
        """Fill an empty buffer from the store."""
        for name in await store.targets():
            self.append(await store.read(name, since, _END_OF_TIME), store.schema)

    def _append_good(self, source: _Source, result: ScrapeResult, schema_of: SchemaOf) -> None:
        columns = source.columns.get(result.schema_id)
        if columns is None:
            columns = self._columns(source, result.target, schema_of(result.schema_id))
        scraped = len(result.values) if result.page_samples is None else result.page_samples
        own = (1.0, result.took_seconds, float(scraped))
        values = np.concatenate([own, result.values[columns.picked]])
        block = source.block
        block.append(result.at, columns.lines, values)
        block.failed, block.expected = False, block.present.copy()

    def _append_failed(self, source: _Source, result: ScrapeResult) -> None:
        own = np.array((0.0, result.took_seconds, 0.0))
        source.block.append(result.at, np.arange(len(SCRAPE_SERIES)), own)
        source.block.failed = True

    def _source(self, result: ScrapeResult) -> _Source:
        target = result.target
        source = self._sources.get(target.name)
        if source is not None and source.target is not None:
            if source.target.labels == target.labels:
                return source
            self._retire(source, result.at)
        source = self._sources[target.name] = _Source(Block(self._window_seconds), target)
        labels = [merged_labels(name, (), target.labels) for name in SCRAPE_SERIES]
        self._lines(source, labels)
        return source

    def _columns(self, source: _Source, target: Target, schema: Schema) -> _Columns:
        picked = [index for index, key in enumerate(schema.series) if self._is_kept(key)]
        labels = [merged_labels(name, (), target.labels) for name in SCRAPE_SERIES]
        labels += [
            merged_labels(key.name, key.labels, target.labels)
            for key in (schema.series[index] for index in picked)
        ]
        lines = self._lines(source, labels)
        columns = _Columns(np.array(picked, dtype=np.intp), lines)
        source.columns[schema.id] = columns
        return columns

    def _is_kept(self, key: SeriesKey) -> bool:
        # A page's own `up` would take the line of ours.
        if key.name in SCRAPE_SERIES:
            return False
        return key.name.startswith(OWN_PREFIX) or key.name in self._names

    def _lines(self, source: _Source, labels: Sequence[Labels]) -> IndexArray:
        if source.block.knows(labels):
            return source.block.lines(labels)
        source.block.compact()
        source.columns.clear()
        lines = source.block.lines(labels)
        source.by_name = names_of(source.block.labels)
        self._selected.clear()
        return lines

    def _retire(self, source: _Source, at: UnixSeconds) -> None:
        block = source.block
        at = max(at, math.nextafter(block.newest_at, math.inf))
        block.append(at, NO_LINES, NO_VALUES)
        block.failed = False
        self._retired.append(source)
        self._selected.clear()

    def _matching(self, matchers: tuple[Matcher, ...]) -> list[tuple[_Source, list[int]]]:
        known = self._selected.get(matchers)
        if known is None:
            if len(self._selected) >= _CACHED_SELECTORS:
                self._selected.clear()
            known = self._selected[matchers] = list(self._match(matchers))
        return known

    def _match(self, matchers: tuple[Matcher, ...]) -> Iterator[tuple[_Source, list[int]]]:
        matches = predicate(matchers)
        name = next(
            (one.value for one in matchers if one.name == NAME_LABEL and one.op is MatchOp.EQUAL),
            None,
        )
        for source in self._all():
            labels = source.block.labels
            lines = range(len(labels)) if name is None else source.by_name.get(name, ())
            found = [line for line in lines if matches(dict(labels[line]))]
            if found:
                yield source, found

    def _all(self) -> Iterator[_Source]:
        yield from self._sources.values()
        yield from self._retired
        yield from self._producers.values()

    def _tidy(self, at: UnixSeconds) -> None:
        oldest_at = at - self._window_seconds
        if any(source.block.newest_at < oldest_at for source in self._all()):
            self._sources = _younger(self._sources, oldest_at)
            self._producers = _younger(self._producers, oldest_at)
            self._retired = [one for one in self._retired if one.block.newest_at >= oldest_at]
            self._selected.clear()
        size_bytes = self.size_bytes
        if size_bytes > self._budget_bytes:
            self._fit(size_bytes)

    def _fit(self, size_bytes: int) -> None:
        """Cut the blocks that are over their fair share of the budget."""
        blocks = [source.block for source in self._all()]
        share_bytes = self._budget_bytes // len(blocks)
        dropped = 0
        for block in blocks:
            if block.size_bytes > share_bytes:
                columns = share_bytes // (8 * (len(block.labels) + 1))
                dropped += block.shrink(max(_FEWEST_COLUMNS, columns))
        if dropped and not self.dropped_columns:
            _log.warning(
                "samples in memory take %s of %s bytes: rules see less than %s s from here on",
                size_bytes,
                self._budget_bytes,
                self._window_seconds,
            )
        self.dropped_columns += dropped


def _younger(sources: Mapping[str, _Source], oldest_at: UnixSeconds) -> dict[str, _Source]:
    return {name: source for name, source in sources.items() if source.block.newest_at >= oldest_at}


def _without_name(labels: Labels) -> Labels:
    return tuple(pair for pair in labels if pair[0] != NAME_LABEL)
