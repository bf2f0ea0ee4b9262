"""What memory ladders come to, as samples; and how full the GPUs of this host are."""

from __future__ import annotations

from collections.abc import Sequence

from ds4watch.fleet.ladders import Ladders
from ds4watch.model.series import Sample, labels_of
from ds4watch.model.worker import WorkerView
from ds4watch.scrape.gpu import GpuReport


def memory_samples(ladders: Ladders, workers: Sequence[WorkerView]) -> list[Sample]:
    """Return the steps of workers that have any, and how often workers ran out of memory."""
    found = [
        Sample(
            "ds4_worker_memory_steps",
            labels_of({"worker": view.id, "profile": view.profile}),
            float(len(steps)),
        )
        for view in workers
        if (steps := ladders.of(view.id).steps)
    ]
    found += [
        Sample(
            "ds4_worker_oom_total",
            labels_of({"worker": count.worker, "kind": count.kind.value}),
            float(count.deaths),
        )
        for count in ladders.deaths()
    ]
    return found


def used_ratio(report: GpuReport) -> float | None:
    """Return the used share of the fullest GPU or instance; None if none is told."""
    shares = [
        reading.memory_used_bytes / reading.memory_total_bytes
        for reading in report.readings
        if reading.memory_used_bytes is not None and reading.memory_total_bytes
    ]
    return max(shares, default=None)
