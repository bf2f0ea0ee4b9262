"""Alerts as signals: what dashboards show of them."""

from __future__ import annotations

from ds4watch.engine.alert_signals import alert_samples, worker_tier_samples
from ds4watch.model.alert import AlertPhase, AlertState, Tier
from ds4watch.model.series import Sample, labels_of
from ds4watch.model.worker import WorkerPhase, WorkerView

TIERS = (("QueueHigh", Tier.WARNING), ("QueueHigh", Tier.CRITICAL), ("KvHigh", Tier.WARNING))


def alert(name: str, severity: str, phase: AlertPhase, worker: str = "") -> AlertState:
    labels = labels_of({"alertname": name, "severity": severity, "worker": worker})
    return AlertState(rule_id=name, labels=labels, phase=phase, active_at=0.0, value=1.0)


def worker(name: str) -> WorkerView:
    return WorkerView(id=name, profile="p", models=(), url="", phase=WorkerPhase.READY, since=0.0)


def shown(samples: list[Sample]) -> dict[tuple[str, str, str], float]:
    labels = [(dict(it.labels), it.value) for it in samples]
    return {(it["alertname"], it["severity"], it["state"]): value for it, value in labels}


def test_alerts_are_counted_by_name_tier_and_state_and_are_zero_where_there_is_none() -> None:
    alerts = (
        alert("KvHigh", "warning", AlertPhase.FIRING, "a"),
        alert("KvHigh", "warning", AlertPhase.FIRING, "b"),
        alert("KvHigh", "warning", AlertPhase.PENDING, "c"),
        alert("QueueHigh", "critical", AlertPhase.RESOLVED),
    )
    assert shown(alert_samples(TIERS, alerts)) == {
        ("QueueHigh", "warning", "pending"): 0,
        ("QueueHigh", "warning", "firing"): 0,
        ("QueueHigh", "critical", "pending"): 0,
        ("QueueHigh", "critical", "firing"): 0,
        ("KvHigh", "warning", "pending"): 1,
        ("KvHigh", "warning", "firing"): 2,
    }


def test_a_severity_of_somebody_elses_counts_as_none() -> None:
    found = alert_samples((("Odd", Tier.NONE),), (alert("Odd", "page", AlertPhase.FIRING),))
    assert shown(found)["Odd", "none", "firing"] == 1


def test_a_worker_has_the_highest_tier_that_fires_about_it() -> None:
    alerts = (
        alert("KvHigh", "critical", AlertPhase.PENDING, "a"),
        alert("KvHigh", "warning", AlertPhase.FIRING, "a"),
        alert("Prefill", "info", AlertPhase.FIRING, "a"),
        alert("QueueHigh", "critical", AlertPhase.FIRING),
    )
    found = worker_tier_samples((worker("a"), worker("b")), alerts)
    assert {dict(it.labels)["worker"]: it.value for it in found} == {"a": 2, "b": 0}
