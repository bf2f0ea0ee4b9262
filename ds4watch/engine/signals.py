"""What ds4watch knows beyond the workers' own pages, as samples."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

from ds4watch.history.ledger_values import RequestTotals as StoredTotals
from ds4watch.history.samples import SampleStore
from ds4watch.history.state import StateStore
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Labels, Sample, labels_of
from ds4watch.model.service_policy import DEFAULT_POOL, ServicePolicy
from ds4watch.model.usage import RequestOutcome, RequestRecord, RetryReason
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.scrape.gpu import ALL, GpuReading, GpuReport
from ds4watch.vocabulary.names import REQUEST_EDGES

POOL = DEFAULT_POOL
ACCURACY_DROP = "accuracy_drop_points"
CLASS_LOSS, CLASS_LOSS_AT_LEAST = "class_loss_points", "class_loss_least_points"
CLASS_SIGN = "/"
"""Between such a metric and its class of work."""
_GOLDEN_NAMES = {
    ACCURACY_DROP: "ds4_quality_accuracy_drop_points",
    CLASS_LOSS: "ds4_quality_class_loss_points",
    CLASS_LOSS_AT_LEAST: "ds4_quality_class_loss_least_points",
}
_CAUSE_CHARACTERS = 120
NO_MODEL = "unknown"
"""The `model` label of requests that nobody served; the ledger books them under it too."""


@dataclass(slots=True)
class RequestTotals:
    """Counters over all requests since the state folder began; the histogram since the start."""

    by_outcome: Counter[tuple[RequestOutcome, str]] = field(default_factory=Counter)
    retries: Counter[RetryReason] = field(default_factory=Counter)
    buckets: list[int] = field(default_factory=lambda: [0] * (len(REQUEST_EDGES) + 1))
    duration_seconds: float = 0.0

    @classmethod
    def restored(cls, stored: StoredTotals) -> RequestTotals:
        """Return the counters as the ledger has them; the histogram begins anew."""
        totals = cls()
        for total in stored.requests:
            totals.by_outcome[total.outcome, total.model] += total.requests
        totals.retries.update(dict(stored.retries))
        return totals

    def add(self, records: Iterable[RequestRecord]) -> None:
        """Count finished requests."""
        for record in records:
            # What a client asked for is the client's text; what answered is ours, and bounded.
            self.by_outcome[record.outcome, record.model_served or NO_MODEL] += 1
            self.retries.update(reason for _, reason in record.retries)
            if record.outcome is RequestOutcome.OK:
                self.buckets[bisect_left(REQUEST_EDGES, record.duration_seconds)] += 1
                self.duration_seconds += record.duration_seconds

    def samples(self) -> list[Sample]:
        """Return the counters and the duration histogram of answered requests."""
        found = [
            Sample(
                "ds4_gateway_requests_total",
                labels_of({"outcome": outcome.value, "model": model}),
                float(count),
            )
            for (outcome, model), count in sorted(self.by_outcome.items())
        ]
        found += [
            Sample(
                "ds4_retry_count_total",
                labels_of({"reason": reason.value}),
                float(self.retries[reason]),
            )
            for reason in RetryReason
        ]
        return found + self._histogram()

    def _histogram(self) -> list[Sample]:
        name = "ds4_gateway_request_duration_seconds"
        found = []
        below = 0
        for edge, count in zip((*REQUEST_EDGES, float("inf")), self.buckets, strict=True):
            below += count
            le = "+Inf" if edge == float("inf") else repr(float(edge))
            found.append(Sample(f"{name}_bucket", (("le", le),), float(below)))
        found.append(Sample(f"{name}_sum", (), self.duration_seconds))
        found.append(Sample(f"{name}_count", (), float(below)))
        return found


@dataclass(frozen=True, slots=True)
class QualityReading:
    """The latest measured divergence of a profile from its reference."""

    profile: str
    reference: str
    metric: str
    value: float
    at: UnixSeconds


def midnight(at: UnixSeconds) -> UnixSeconds:
    """Return the start of the UTC day."""
    day = datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day.timestamp()


def worker_state_samples(workers: Sequence[WorkerView]) -> list[Sample]:
    """Return 1 for the phase that each worker is in and 0 for the others."""
    return [
        Sample("ds4_worker_state", labels, 1.0 if worker.phase is phase else 0.0)
        for worker in workers
        for phase, labels in _state_labels(worker.id, worker.profile)
    ]


@lru_cache(maxsize=4096)
def _state_labels(worker: str, profile: str) -> tuple[tuple[WorkerPhase, Labels], ...]:
    return tuple(
        (phase, labels_of({"worker": worker, "profile": profile, "state": phase.value}))
        for phase in WorkerPhase
    )


def failure_samples(workers: Sequence[WorkerView]) -> list[Sample]:
    """Return why workers are down, without the figures: a label has to have few values."""
    return [
        Sample(
            "ds4_worker_failure_info",
            labels_of({"worker": worker.id, "profile": worker.profile, "why": _cause(worker)}),
            1.0,
        )
        for worker in workers
        if worker.phase in (WorkerPhase.FAILED, WorkerPhase.QUARANTINED)
    ]


def _cause(worker: WorkerView) -> str:
    return worker.reason.partition(";")[0][:_CAUSE_CHARACTERS]


def standstill_samples(workers: Sequence[WorkerView], seconds: Mapping[str, float]) -> list[Sample]:
    """Return how long the requests of each worker stand still; absent where load is not known."""
    return [
        Sample(
            "ds4_worker_standstill_seconds",
            labels_of({"worker": worker.id, "profile": worker.profile}),
            seconds[worker.id],
        )
        for worker in workers
        if worker.id in seconds
    ]


def gpu_samples(report: GpuReport) -> list[Sample]:
    """Return what devices report; what one does not is absent, not zero, and said to be so."""
    if report.why_not:
        return [_gpu_lacks({}, ALL, report.why_not)]
    return [sample for reading in report.readings for sample in _samples_of(reading)]


def _samples_of(reading: GpuReading) -> list[Sample]:
    whose = {"gpu": str(reading.index), "uuid": reading.uuid, "mig": reading.mig}
    values = (
        ("ds4_gpu_memory_used_bytes", "", reading.memory_used_bytes),
        ("ds4_gpu_memory_total_bytes", "", reading.memory_total_bytes),
        ("ds4_gpu_utilization_ratio", "", reading.utilization_ratio),
        ("ds4_gpu_power_watts", "", reading.power_watts),
        ("ds4_gpu_temperature_celsius", "", reading.temperature_celsius),
        ("ds4_gpu_ecc_errors_total", "corrected", reading.ecc_corrected),
        ("ds4_gpu_ecc_errors_total", "uncorrected", reading.ecc_uncorrected),
    )
    return [
        Sample(name, labels_of({**whose, "kind": kind}), float(value))
        for name, kind, value in values
        if value is not None
    ] + [_gpu_lacks(whose, missing, why) for missing, why in reading.missing]


def _gpu_lacks(whose: Mapping[str, str], reading: str, why: str) -> Sample:
    labels = labels_of({**whose, "reading": reading, "why": why})
    return Sample("ds4_gpu_unavailable", labels, 1.0)


def store_samples(samples: SampleStore, state: StateStore) -> list[Sample]:
    """Return how the databases do."""
    asides = {"samples": samples.set_aside, "state": state.set_aside}
    return [
        Sample("ds4_store_waiting_rows", (), float(samples.waiting_rows)),
        Sample("ds4_store_lost_rows_total", (), float(samples.lost_rows)),
        Sample("ds4_store_damaged_parts_total", (), float(samples.damaged_parts)),
        *(
            Sample("ds4_store_set_aside_timestamp_seconds", (("store", name),), aside.at)
            for name, aside in asides.items()
            if aside is not None
        ),
    ]


def with_reading(
    readings: Iterable[QualityReading], new: QualityReading
) -> tuple[QualityReading, ...]:
    """Return the readings with one in place of the last of its kind."""
    kind = (new.profile, new.reference, new.metric)
    others = (it for it in readings if (it.profile, it.reference, it.metric) != kind)
    return (*others, new)


def quality_samples(
    readings: Iterable[QualityReading],
    now: UnixSeconds,
    max_age_seconds: float,
    golden_max_age_seconds: float,
) -> list[Sample]:
    """Return what was measured of each profile, and when; a reading that is too old is absent.

    golden_max_age_seconds: of what golden questions say; those are asked more seldom.
    """
    found = []
    for reading in readings:
        metric, _, work_class = reading.metric.partition(CLASS_SIGN)
        is_golden = metric in _GOLDEN_NAMES
        if now - reading.at > (golden_max_age_seconds if is_golden else max_age_seconds):
            continue
        pair = {"profile": reading.profile, "reference": reading.reference}
        if work_class:
            pair["class"] = work_class
        labels = labels_of({**pair, "metric": metric})
        if is_golden:
            found.append(Sample(_GOLDEN_NAMES[metric], labels_of(pair), reading.value))
        else:
            found.append(Sample("ds4_quantization_error", labels, reading.value))
        if not work_class:
            found.append(Sample("ds4_quality_measured_timestamp_seconds", labels, reading.at))
    return found


def policy_samples(policy: ServicePolicy, inflight: Mapping[str, int | None]) -> list[Sample]:
    """Return the level in force and, if all gateways said, the requests in flight."""
    found = [
        Sample("ds4_degradation_level", (("pool", pool),), float(level))
        for pool, level in policy.levels.items()
    ]
    known = [count for count in inflight.values() if count is not None]
    if known and len(known) == len(inflight):
        found.append(Sample("ds4_gateway_inflight_requests", (), float(sum(known))))
    return found
