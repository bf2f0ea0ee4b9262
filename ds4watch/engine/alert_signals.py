"""The alerts as they stand, as signals: what dashboards show beside the load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from ds4watch.model.alert import AlertPhase, AlertState, Tier
from ds4watch.model.series import Labels, Sample, labels_of
from ds4watch.model.worker import WorkerView

_SHOWN = (AlertPhase.PENDING, AlertPhase.FIRING)


def alert_samples(tiers: Iterable[tuple[str, Tier]], alerts: Iterable[AlertState]) -> list[Sample]:
    """Return how many alerts of each loaded name and tier are pending and firing.

    Zeros too: series that come and go with each alert make a new row layout each time.
    """
    counts = Counter((alert.name, _tier(alert), alert.phase) for alert in alerts)
    return [
        Sample("ds4_alerts", _labels(name, tier, phase), float(counts[name, tier, phase]))
        for name, tier in tiers
        for phase in _SHOWN
    ]


@lru_cache(maxsize=4096)
def _labels(name: str, tier: Tier, phase: AlertPhase) -> Labels:
    return labels_of({"alertname": name, "severity": tier.value, "state": phase.value})


def worker_tier_samples(
    workers: Sequence[WorkerView], alerts: Iterable[AlertState]
) -> list[Sample]:
    """Return the highest tier that fires about each worker, by its rank."""
    ranks: dict[str, int] = {}
    for alert in alerts:
        if alert.phase is AlertPhase.FIRING:
            worker = dict(alert.labels).get("worker", "")
            ranks[worker] = max(ranks.get(worker, 0), _tier(alert).rank)
    return [
        Sample(
            "ds4_worker_alert_tier",
            labels_of({"worker": worker.id, "profile": worker.profile}),
            float(ranks.get(worker.id, 0)),
        )
        for worker in workers
    ]


def _tier(alert: AlertState) -> Tier:
    value = dict(alert.labels).get("severity", "")
    return Tier(value) if value in Tier._value2member_map_ else Tier.NONE
