"""From a wave of scrapes to signals, loads and signs of progress."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from ds4watch.model.scrape import ScrapeResult, Target
from ds4watch.model.series import Labels, Sample, Schema, SeriesKey, labels_of
from ds4watch.model.worker import WorkerLoad
from ds4watch.vocabulary.plan import SignalPlan, load_of, plan_for, point_of, signals_of
from ds4watch.vocabulary.windows import (
    WINDOW_SECONDS,
    CounterPoint,
    derive,
    derived_signals,
)

MISSING = "ds4_vocabulary_missing"
_STEPS = "ds4_engine_steps_total"
_GENERATED = "ds4_generated_tokens_total"
_MAX_POINTS = 4096
_TARGET_LABELS = ("profile", "worker")


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
    """What the fleet's pages say after one wave.

    results: the wave's scrapes, each with the signals derived from it behind its own series.
    samples: every worker's signals as last read; a worker whose scrape is still under way keeps
        its last ones, one whose scrape failed has none.
    """

    results: tuple[ScrapeResult, ...]
    samples: tuple[Sample, ...]
    loads: Mapping[str, WorkerLoad]
    progress: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Last:
    """What a worker's newest good scrape said."""

    samples: tuple[Sample, ...]
    load: WorkerLoad
    progress: float


@dataclass(slots=True)
class Reader:
    """Reads results one wave after another; remembers plans and the last minute's counters."""

    schemas: Schemas
    _plans: dict[int, SignalPlan] = field(default_factory=dict)
    _points: dict[str, deque[CounterPoint]] = field(default_factory=dict)
    _last: dict[str, _Last] = field(default_factory=dict)
    _ids: dict[tuple[int, tuple[SeriesKey, ...]], int] = field(default_factory=dict)

    def read(self, results: Sequence[ScrapeResult]) -> Collected:
        """Return what the fleet's pages say now. A failed scrape says nothing: absent, not zero."""
        extended = tuple(self._read_one(result) for result in results)
        return Collected(
            results=extended,
            samples=tuple(sample for last in self._last.values() for sample in last.samples),
            loads={worker: last.load for worker, last in self._last.items()},
            progress={worker: last.progress for worker, last in self._last.items()},
        )

    def forget_all_but(self, workers: Sequence[str]) -> None:
        """Drop what is remembered of workers that are gone."""
        for name in set(self._points) - set(workers):
            del self._points[name]
            self._last.pop(name, None)

    def _read_one(self, result: ScrapeResult) -> ScrapeResult:
        worker = result.target.name
        plan = self._plan(result.schema_id) if result.failure is None else None
        if plan is None or not plan.has_engine:
            self._last.pop(worker, None)
            return result
        labels = worker_labels(result.target)
        samples = [
            *signals_of(plan, result.values, labels),
            *self._derived(plan, result, labels),
            *_missing(plan, labels),
        ]
        self._last[worker] = _Last(
            samples=tuple(samples),
            load=load_of(plan, result.values),
            progress=sum(it.value for it in samples if it.name in (_STEPS, _GENERATED)),
        )
        return self._extended(result, samples)

    def _extended(self, result: ScrapeResult, samples: Sequence[Sample]) -> ScrapeResult:
        """Put the signals behind the page's series: one row, one fate, one staleness."""
        page = self.schemas.schema(result.schema_id).series
        own = tuple(SeriesKey(it.name, _without_worker(it.labels)) for it in samples)
        return replace(
            result,
            schema_id=self._combined(result.schema_id, page, own),
            values=np.concatenate([result.values, [it.value for it in samples]]),
            page_samples=len(result.values),
        )

    def _plan(self, schema_id: int) -> SignalPlan:
        plan = self._plans.get(schema_id)
        if plan is None:
            plan = self._plans[schema_id] = plan_for(self.schemas.schema(schema_id))
        return plan

    def _derived(self, plan: SignalPlan, result: ScrapeResult, labels: Labels) -> list[Sample]:
        points = self._points.setdefault(result.target.name, deque(maxlen=_MAX_POINTS))
        points.append(point_of(plan, result.values, result.at))
        while points[0].at < result.at - WINDOW_SECONDS:
            points.popleft()
        own = labels_of({**dict(labels), "model": plan.model})
        return list(derived_signals(derive(tuple(points)), own))

    def _combined(
        self, schema_id: int, page: tuple[SeriesKey, ...], own: tuple[SeriesKey, ...]
    ) -> int:
        known = self._ids.get((schema_id, own))
        if known is None:
            known = self._ids[schema_id, own] = self.schemas.intern((*page, *own)).id
        return known


def _missing(plan: SignalPlan, labels: Labels) -> list[Sample]:
    return [
        Sample(MISSING, labels_of({**dict(labels), "signal": signal, "why": why}), 1.0)
        for signal, why in plan.missing
    ]


def worker_labels(target: Target) -> Labels:
    """Return the labels of a worker's signals: those of its target that name the worker."""
    return tuple(pair for pair in target.labels if pair[0] in _TARGET_LABELS)


def _without_worker(labels: Labels) -> Labels:
    """Leave out what the target's own labels say already."""
    return tuple(pair for pair in labels if pair[0] not in _TARGET_LABELS)
