"""From a wave of scrapes to signals, loads and signs of progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Protocol
from urllib.parse import urlsplit

import numpy as np

from ds4watch.engine.engine_sets import EngineSets
from ds4watch.engine.shown import LastRow, LazySamples
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import FLEET_GROUP, ScrapeResult, Target
from ds4watch.model.series import STALE_NAN, FloatArray, Schema, SeriesKey
from ds4watch.model.worker import WorkerLoad
from ds4watch.vocabulary.compile import ANYWHERE, Origin, plan_for
from ds4watch.vocabulary.plan import IntArray, PagePlan, read, write
from ds4watch.vocabulary.windows import PREFILL_TIME, RATIOS, Heartbeats, Windows

_MOST_PLANS = 1024
_NOTHING_KNOWN: Mapping[str, float] = MappingProxyType({})
_ENDED = (EdgeReason.CONNECT, EdgeReason.GONE)
"""After such a failure a worker may come back with other engines."""


class Schemas(Protocol):
    """Where series lists have their numbers."""

    def schema(self, schema_id: int) -> Schema:
        """Return a schema by its number."""
        ...

    def intern(self, series: tuple[SeriesKey, ...]) -> Schema:
        """Return the schema of a list of series."""
        ...


@dataclass(frozen=True, slots=True)
class Collected:
    """What the pages say after one wave.

    results: the wave's scrapes, each with the signals derived from it behind its own series.
    samples: every target's signals as last read; one whose scrape is still under way keeps its
        last ones, one whose scrape failed has none.
    loads, progress, prefill_ratios: of workers; what a page does not say is not in them.
    """

    results: tuple[ScrapeResult, ...]
    samples: LazySamples
    loads: Mapping[str, WorkerLoad]
    progress: Mapping[str, float]
    prefill_ratios: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A plan, and the number of the page's series with our own behind them."""

    plan: PagePlan
    schema_id: int


@dataclass(slots=True)
class _Batch:
    """Scrapes of one plan and different targets, and their places in the wave."""

    compiled: _Compiled
    places: list[int] = field(default_factory=list)
    results: list[ScrapeResult] = field(default_factory=list)


@dataclass(slots=True)
class Reader:
    """Reads results one wave after another; remembers plans and the last minute's counters."""

    schemas: Schemas
    _compiled: dict[tuple[int, Origin], _Compiled] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)
    _free: list[int] = field(default_factory=list)
    _windows: Windows = field(default_factory=Windows)
    _heartbeats: Heartbeats = field(default_factory=Heartbeats)
    _engines: EngineSets = field(default_factory=EngineSets)
    _last: dict[str, LastRow] = field(default_factory=dict)
    _loads: dict[str, WorkerLoad] = field(default_factory=dict)
    _progress: dict[str, float] = field(default_factory=dict)
    _prefill_ratios: dict[str, float] = field(default_factory=dict)
    _standstills: Mapping[str, float] = field(default_factory=dict)

    def read(
        self, results: Sequence[ScrapeResult], standstills: Mapping[str, float] = _NOTHING_KNOWN
    ) -> Collected:
        """Return what the pages say now. A failed scrape says nothing: absent, not zero.

        standstills: by worker, for how many seconds nothing but canaries moved it.
        """
        self._standstills = standstills
        extended = list(results)
        for batch in self._batches(results):
            self._read(batch, extended)
        return Collected(
            results=tuple(extended),
            samples=LazySamples(tuple(self._last.values())),
            loads=dict(self._loads),
            progress=dict(self._progress),
            prefill_ratios=dict(self._prefill_ratios),
        )

    def forget_all_but(self, targets: Iterable[str]) -> None:
        """Drop what is remembered of targets that are gone."""
        wanted = set(targets)
        for name in self._last.keys() - wanted:
            del self._last[name]
        for name in self._rows.keys() - wanted:
            self._free.append(self._rows.pop(name))
            self._silence(name)
            self._engines.forget(name)

    def _batches(self, results: Sequence[ScrapeResult]) -> Iterable[_Batch]:
        """Group scrapes by plan; of one target only the first, its others in a later round."""
        waiting = list(enumerate(results))
        while waiting:
            batches: dict[int, _Batch] = {}
            seen: set[str] = set()
            later = []
            for place, result in waiting:
                if result.target.name in seen:
                    later.append((place, result))
                    continue
                seen.add(result.target.name)
                if result.failure is not None:
                    self._failed(result)
                    continue
                compiled = self._plan_of(result)
                batch = batches.setdefault(id(compiled), _Batch(compiled))
                batch.places.append(place)
                batch.results.append(result)
            yield from batches.values()
            waiting = later

    def _failed(self, result: ScrapeResult) -> None:
        name = result.target.name
        self._last.pop(name, None)
        self._silence(name)
        if result.failure is not None and result.failure.reason in _ENDED:
            self._engines.forget(name)

    def _silence(self, name: str) -> None:
        self._loads.pop(name, None)
        self._progress.pop(name, None)
        self._prefill_ratios.pop(name, None)

    def _read(self, batch: _Batch, extended: list[ScrapeResult]) -> None:
        """Read the pages of a batch; put their signals behind them: one row, one fate."""
        compiled, results = batch.compiled, batch.results
        plan = compiled.plan
        if not plan.own:
            self._forget_readings(results)
            for place, result in zip(batch.places, results, strict=True):
                extended[place] = replace(result, blind=_is_blind(plan, result.target))
            return
        width = plan.page_columns
        values = np.empty((len(results), width + len(plan.own)))
        for row, result in zip(values, results, strict=True):
            row[:width] = result.values
        found = read(plan, values[:, :width])
        ratios, states = self._over_time(plan, results, found)
        write(plan, values, found, ratios, states)
        for place, result, row in zip(batch.places, results, values, strict=True):
            target = result.target
            extended[place] = ScrapeResult(
                target,
                result.at,
                compiled.schema_id,
                row,
                None,
                result.took_seconds,
                width,
                blind=_is_blind(plan, target),
            )
            self._last[target.name] = LastRow(target, plan, row)

    def _forget_readings(self, results: Sequence[ScrapeResult]) -> None:
        for result in results:
            self._last.pop(result.target.name, None)
            self._silence(result.target.name)

    def _over_time(
        self, plan: PagePlan, results: Sequence[ScrapeResult], found: FloatArray
    ) -> tuple[FloatArray, tuple[FloatArray, FloatArray]]:
        """Return ratios over the window, and for each worker: engines missing, gauges stale."""
        if not plan.engine:
            for result in results:
                self._silence(result.target.name)
            nothing = np.full((len(results), len(RATIOS)), STALE_NAN)
            return nothing, (nothing[:, 0], nothing[:, 0])
        rows = self._rows_of(results)
        at = np.array([result.at for result in results])
        missing = self._missing(plan, results)
        if np.count_nonzero(missing):
            found[np.ix_(missing > 0, plan.whole)] = STALE_NAN
        counters = found.take(plan.counters, axis=1)
        ratios = self._windows.advance(rows, at, counters, plan.sources)
        loads = found.take(plan.loads, axis=1)
        progress = _progress_of(plan, found)
        self._note(results, loads, progress)
        self._note_prefill(results, ratios[:, PREFILL_TIME])
        busy = np.fmax(loads[:, 0], loads[:, 1])
        stale = self._heartbeats.note(rows, at, progress, busy, self._still_seconds(results))
        return ratios, (missing, stale)

    def _still_seconds(self, results: Sequence[ScrapeResult]) -> FloatArray:
        known = self._standstills
        return np.array([known.get(it.target.name, np.nan) for it in results])

    def _missing(self, plan: PagePlan, results: Sequence[ScrapeResult]) -> FloatArray:
        if not plan.engines:
            return np.zeros(len(results))
        known = self._engines
        return np.array(
            [float(known.missing(it.target.name, plan.engines, it.at)) for it in results]
        )

    def _note(
        self, results: Sequence[ScrapeResult], loads: FloatArray, progress: FloatArray
    ) -> None:
        for result, load, steps in zip(results, loads.tolist(), progress.tolist(), strict=True):
            name = result.target.name
            self._loads[name] = WorkerLoad(*[None if it != it else it for it in load])  # noqa: PLR0124 - NaN
            if steps == steps:  # noqa: PLR0124 - NaN
                self._progress[name] = steps
            else:
                self._progress.pop(name, None)

    def _note_prefill(self, results: Sequence[ScrapeResult], ratios: FloatArray) -> None:
        for result, ratio in zip(results, ratios.tolist(), strict=True):
            if ratio == ratio:  # noqa: PLR0124 - NaN
                self._prefill_ratios[result.target.name] = ratio
            else:
                self._prefill_ratios.pop(result.target.name, None)

    def _rows_of(self, results: Sequence[ScrapeResult]) -> IntArray:
        fresh = [it.target.name for it in results if it.target.name not in self._rows]
        for name in fresh:
            self._rows[name] = self._free.pop() if self._free else len(self._rows)
        rows = np.array([self._rows[it.target.name] for it in results], dtype=np.intp)
        if fresh:
            new = np.array([self._rows[name] for name in fresh], dtype=np.intp)
            self._windows.clear(new)
            self._heartbeats.clear(new)
        return rows

    def _plan_of(self, result: ScrapeResult) -> _Compiled:
        """Return the plan of a page: an engine's is the same for all workers that show it."""
        shared = self._compiled.get((result.schema_id, ANYWHERE))
        if shared is None:
            shared = self._compile(result.schema_id, ANYWHERE)
        if shared.plan.engine and not shared.plan.local:
            return shared
        origin = _origin(shared.plan, result.target)
        return self._compiled.get((result.schema_id, origin)) or self._compile(
            result.schema_id, origin
        )

    def _compile(self, schema_id: int, origin: Origin) -> _Compiled:
        if len(self._compiled) >= _MOST_PLANS:
            for oldest in list(self._compiled)[: _MOST_PLANS // 2]:
                del self._compiled[oldest]
        schema = self.schemas.schema(schema_id)
        plan = plan_for(schema, origin)
        combined = self.schemas.intern((*schema.series, *plan.own)).id if plan.own else schema_id
        made = self._compiled[schema_id, origin] = _Compiled(plan, combined)
        return made


def _origin(plan: PagePlan, target: Target) -> Origin:
    is_worker = any(name == "worker" for name, _ in target.labels)
    if not plan.local:
        return Origin(is_worker=is_worker)
    return Origin(target.name, urlsplit(target.url).hostname or target.name, is_worker)


def _is_blind(plan: PagePlan, target: Target) -> bool:
    return target.group == FLEET_GROUP and not plan.engine


def _progress_of(plan: PagePlan, found: FloatArray) -> FloatArray:
    """Return for each page a number that changes whenever its engine does something, or NaN."""
    moving = found.take(plan.progress, axis=1)
    unknown = np.isnan(moving)
    moving[unknown] = 0.0
    progress: FloatArray = np.add.reduce(moving, axis=1)
    if np.count_nonzero(unknown):
        progress[unknown.all(axis=1)] = np.nan
    return progress
