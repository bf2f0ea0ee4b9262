"""From a wave of scrapes to signals, loads and signs of progress."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ds4watch.model.scrape import ScrapeResult, Target
from ds4watch.model.series import Labels, Sample, Schema, labels_of
from ds4watch.model.worker import WorkerLoad, WorkerPhase, WorkerView
from ds4watch.vocabulary.plan import SignalPlan, load_of, plan_for, point_of, signals_of
from ds4watch.vocabulary.windows import (
    WINDOW_SECONDS,
    CounterPoint,
    derive,
    derived_signals,
)

_SCRAPED = (WorkerPhase.WARMING, WorkerPhase.READY, WorkerPhase.ASLEEP, WorkerPhase.DRAINING)
MISSING = "ds4_vocabulary_missing"
_STEPS = "ds4_engine_steps_total"
_GENERATED = "ds4_generated_tokens_total"
_MAX_POINTS = 4096


@dataclass(frozen=True, slots=True)
class Collected:
    """What one wave told. `by_worker` has each worker's signals without their labels."""

    results: tuple[ScrapeResult, ...]
    samples: tuple[Sample, ...]
    loads: Mapping[str, WorkerLoad]
    progress: Mapping[str, float]


def targets_of(workers: Sequence[WorkerView]) -> tuple[Target, ...]:
    """Return what to scrape: workers whose port answers, with the labels of their pages."""
    return tuple(
        Target(
            name=worker.id,
            url=f"{worker.url}/metrics",
            labels=labels_of(
                {
                    "job": "vllm",
                    "instance": worker.url.partition("://")[2],
                    "worker": worker.id,
                    "profile": worker.profile,
                }
            ),
        )
        for worker in workers
        if worker.phase in _SCRAPED and worker.url
    )


@dataclass(slots=True)
class Reader:
    """Reads results one wave after another; remembers plans and the last minute's counters."""

    schema_of: Callable[[int], Schema]
    _plans: dict[int, SignalPlan] = field(default_factory=dict)
    _points: dict[str, deque[CounterPoint]] = field(default_factory=dict)

    def read(self, results: Sequence[ScrapeResult]) -> Collected:
        """Return what the results say. A failed scrape says nothing: absent, not zero."""
        samples: list[Sample] = []
        loads: dict[str, WorkerLoad] = {}
        progress: dict[str, float] = {}
        for result in results:
            if result.failure is not None:
                continue
            plan = self._plan(result.schema_id)
            if not plan.has_engine:
                continue
            worker = result.target.name
            own = signals_of(plan, result.values, worker_labels(result.target))
            samples += own
            samples += self._derived(plan, result)
            samples += _missing(plan, worker_labels(result.target))
            loads[worker] = load_of(plan, result.values)
            progress[worker] = sum(it.value for it in own if it.name in (_STEPS, _GENERATED))
        return Collected(tuple(results), tuple(samples), loads, progress)

    def forget_all_but(self, workers: Sequence[str]) -> None:
        """Drop what is remembered of workers that are gone."""
        for name in set(self._points) - set(workers):
            del self._points[name]

    def _plan(self, schema_id: int) -> SignalPlan:
        plan = self._plans.get(schema_id)
        if plan is None:
            plan = self._plans[schema_id] = plan_for(self.schema_of(schema_id))
        return plan

    def _derived(self, plan: SignalPlan, result: ScrapeResult) -> list[Sample]:
        points = self._points.setdefault(result.target.name, deque(maxlen=_MAX_POINTS))
        points.append(point_of(plan, result.values, result.at))
        while points[0].at < result.at - WINDOW_SECONDS:
            points.popleft()
        labels = labels_of({**dict(worker_labels(result.target)), "model": plan.model})
        return list(derived_signals(derive(tuple(points)), labels))


def _missing(plan: SignalPlan, labels: Labels) -> list[Sample]:
    return [
        Sample(MISSING, labels_of({**dict(labels), "signal": signal, "why": why}), 1.0)
        for signal, why in plan.missing
    ]


def worker_labels(target: Target) -> Labels:
    """Return the labels of a worker's signals: those of its target that name the worker."""
    return tuple(pair for pair in target.labels if pair[0] in ("profile", "worker"))
