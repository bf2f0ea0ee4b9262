"""What the newest hours of the ledger say: parts, lengths of prompts, and OpenCost's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ds4watch.cost.attribution import per_hour
from ds4watch.cost.hours import hour_of
from ds4watch.cost.parts import Method, Part, busy_of, method_of
from ds4watch.cost.prices import PriceEntry
from ds4watch.cost.recent import RecentHours, WorkerHour
from ds4watch.model.money import NANOS_PER_UNIT, Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Sample, labels_of
from ds4watch.model.work import Work
from ds4watch.model.worker import WorkerView

_KEPT_SECONDS = 10.0
"""Rules ask every 15 s."""
_LEAST_TOKENS = 1000
_MILLION = 1_000_000
_OPENCOST_METHODS = {
    Method.STAGE_TIME: "compute_time",
    Method.BOTH: "compute_time",
    Method.TOKENS: "multiplier",
}


class LedgerSignals:
    """Reckons anew every ten seconds."""

    def __init__(self, prices: Sequence[PriceEntry], currency: str) -> None:
        self._prices = tuple(prices)
        self._currency = currency
        self._at: UnixSeconds = float("-inf")
        self._samples: tuple[Sample, ...] = ()

    def samples(
        self, recent: RecentHours, workers: Sequence[WorkerView], now: UnixSeconds
    ) -> tuple[Sample, ...]:
        """Return the samples."""
        if not 0 <= now - self._at < _KEPT_SECONDS:
            self._at = now
            self._samples = (
                *part_samples(recent.workers(hour_of(now)).values(), self._currency),
                *band_samples(recent, now, self._currency),
                *opencost_samples(recent, workers, self._prices, now),
            )
        return self._samples


def part_samples(hours: Iterable[WorkerHour], currency: str) -> list[Sample]:
    """Return the running hour's money by part, and how each part is known."""
    sums: Counter[tuple[Part, str]] = Counter()
    for hour in hours:
        found = hour.parts()
        for part, nanos in found.nanos.items():
            sums[part, method_of(part, found.method)] += nanos
    return [
        Sample(
            "ds4_cost_hour_part",
            labels_of({"part": part.value, "method": method, "currency": currency}),
            nanos / NANOS_PER_UNIT,
        )
        for (part, method), nanos in sorted(sums.items())
    ]


def band_samples(recent: RecentHours, now: UnixSeconds, currency: str) -> list[Sample]:
    """Return the running hour's requests by the length of their prompts."""
    found = []
    for band, (nanos, work) in recent.by_band(hour_of(now)).items():
        labels = (("band", band),)
        of_money = labels_of({"band": band, "currency": currency})
        found += [
            Sample("ds4_cost_hour_context", of_money, nanos / NANOS_PER_UNIT),
            Sample("ds4_context_hour_requests", labels, float(work.requests)),
            Sample("ds4_context_hour_seconds", labels, work.held_ms / 1000),
            Sample("ds4_context_hour_kv_token_seconds", labels, work.kv_token_ms / 1000),
        ]
    return found


@dataclass(slots=True)
class _Model:
    """What workers of a model cost in the newest two hours, and what they did."""

    workers: list[WorkerView] = field(default_factory=list)
    spent: Nanos = 0
    used: Nanos = 0
    prefill: Nanos = 0
    decode: Nanos = 0
    work: Work = field(default_factory=Work)
    methods: set[Method] = field(default_factory=set)

    def add(self, hour: WorkerHour) -> None:
        """Add an hour of a worker."""
        parts = hour.parts()
        self.spent += sum(hour.spent.values())
        self.used += busy_of(hour.spent)
        self.prefill += parts.nanos.get(Part.PREFILL, 0) + parts.nanos.get(Part.PREFILL_AGAIN, 0)
        self.decode += parts.nanos.get(Part.DECODE, 0)
        self.work = self.work.plus(hour.work)
        self.methods.add(parts.method)

    @property
    def method(self) -> str:
        """Return how input and output are told apart, as OpenCost calls it."""
        known = {_OPENCOST_METHODS[it] for it in self.methods if it in _OPENCOST_METHODS}
        return min(known, default="")


def opencost_samples(
    recent: RecentHours,
    workers: Sequence[WorkerView],
    prices: Sequence[PriceEntry],
    now: UnixSeconds,
) -> list[Sample]:
    """Return what OpenCost's inference cost tracking (1.121) exposes, of each model."""
    models: dict[str, _Model] = {}
    model_of = {}
    for view in workers:
        if view.models:
            model_of[view.id] = view.models[0]
            models.setdefault(view.models[0], _Model()).workers.append(view)
    for worker, hour in recent.lately(now):
        if worker in model_of:
            models[model_of[worker]].add(hour)
    return [
        sample
        for name, model in sorted(models.items())
        for sample in _of_model(name, model, per_hour(model.workers, prices, now))
    ]


def _of_model(name: str, model: _Model, hourly: Nanos) -> list[Sample]:
    labels = {
        "model_name": name,
        "model_version": "unknown",
        "namespace": "ds4watch",
        "workload_type": "inference",
    }
    found = []
    used_ratio = model.used / model.spent if model.spent > 0 else 0.0
    for basis, nanos, share in (
        ("allocation", model.spent, 1.0),
        ("usage", model.used, used_ratio),
    ):
        of_basis = {**labels, "cost_basis": basis}
        rate = hourly * share / NANOS_PER_UNIT
        found.append(Sample("llm_total_hourly_cost", labels_of(of_basis), rate))
        found += _rates(model, nanos, of_basis)
    usage = model.work.usage
    if usage.prompt >= _LEAST_TOKENS:
        fraction = usage.cached / usage.prompt
        found.append(Sample("llm_cache_savings_fraction", labels_of(labels), fraction))
    return found


def _rates(model: _Model, nanos: Nanos, labels: dict[str, str]) -> list[Sample]:
    usage = model.work.usage
    tokens = usage.prompt + usage.completion
    if tokens < _LEAST_TOKENS:
        return []
    staged = model.prefill + model.decode
    shares = [("", 1.0, tokens)]
    if staged > 0:
        prefill = model.prefill / staged
        shares += [("prompt", prefill, usage.prompt), ("generation", 1 - prefill, usage.completion)]
    return [
        Sample(
            "llm_cost_per_million_tokens",
            labels_of({**labels, "phase": phase, "allocation_method": phase and model.method}),
            nanos * share * _MILLION / count / NANOS_PER_UNIT,
        )
        for phase, share, count in shares
        if count > 0
    ]
