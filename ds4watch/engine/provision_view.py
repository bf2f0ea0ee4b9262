"""What provisioning saw of a profile and wants for it: for the audit, metrics and people. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ds4watch.cost.forecast import Forecast, Point
from ds4watch.model.series import Sample, labels_of
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.policy.provision import Decision, ProvisioningLimits, Standing
from ds4watch.policy.provisioning import expected_workers

IS_PAID = frozenset(WorkerPhase) - {WorkerPhase.ABSENT, WorkerPhase.FAILED}
_STANDINGS = {
    WorkerPhase.ABSENT: Standing.AWAY,
    WorkerPhase.STARTING: Standing.COMING,
    WorkerPhase.LOADING: Standing.COMING,
    WorkerPhase.WARMING: Standing.COMING,
    WorkerPhase.READY: Standing.HOT,
    WorkerPhase.ASLEEP: Standing.ASLEEP,
    WorkerPhase.DRAINING: Standing.LEAVING,
    WorkerPhase.STOPPING: Standing.LEAVING,
}


@dataclass(frozen=True, slots=True)
class Seen:
    """A look at a profile. ahead: requests open at the upper end of the interval, at the peak."""

    profile: str
    in_flight: float | None
    waiting: float
    lead_seconds: float
    service_seconds: float
    point: Point | None = None
    calendar: str = ""
    decision: Decision | None = None

    @property
    def ahead(self) -> float | None:
        """Requests that are open at most until the lead is over, as far as that is forecast."""
        if self.point is None or not self.service_seconds:
            return None
        return self.point.high * self.service_seconds

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict: all values that a decision went by."""
        found: dict[str, Any] = {
            "profile": self.profile,
            "in_flight": _rounded(self.in_flight),
            "waiting": self.waiting,
            "lead_seconds": round(self.lead_seconds, 1),
            "service_seconds": round(self.service_seconds, 2),
            "forecast": point_json(self.point) if self.point is not None else None,
            "ahead": _rounded(self.ahead),
            "calendar": self.calendar,
        }
        decision = self.decision
        if decision is not None:
            found |= {
                "wanted": decision.wanted,
                "kept": decision.kept,
                "hot": decision.hot,
                "starting": decision.coming,
                "asks": {reason.value: count for reason, count in decision.asks.items()},
                "refused": decision.refused,
            }
        return found


def standing_of(phase: WorkerPhase) -> Standing:
    """Return where a worker stands, as far as it matters for provisioning."""
    return _STANDINGS.get(phase, Standing.LOST)


def waiting_in(views: Iterable[WorkerView]) -> float:
    """Return the requests that wait at ready workers."""
    ready = (view for view in views if view.phase is WorkerPhase.READY)
    return sum(view.load.waiting or 0.0 for view in ready)


def kv_usage_in(views: Iterable[WorkerView]) -> float:
    """Return how full the KV caches of the ready workers are on average; 0 if that is not told."""
    ready = [view.load.kv_usage_ratio for view in views if view.phase is WorkerPhase.READY]
    known = [usage for usage in ready if usage is not None]
    return sum(known) / len(known) if known else 0.0


def open_in(views: Sequence[WorkerView]) -> float | None:
    """Return the requests that are open at ready workers; None if one does not tell, or none is."""
    hot = [view.load for view in views if view.phase is WorkerPhase.READY]
    if not hot or any(load.running is None for load in hot):
        return None
    return sum((load.running or 0.0) + (load.waiting or 0.0) for load in hot)


def point_json(point: Point) -> dict[str, float]:
    """Return a point, JSON-ready: in requests a second."""
    return {
        "at": point.at,
        "expected": round(point.expected, 4),
        "low": round(point.low, 4),
        "high": round(point.high, 4),
    }


def forecast_json(
    look: Seen, ahead: Forecast | None, bins: int, limits: ProvisioningLimits
) -> dict[str, Any]:
    """Return a profile's next hours, JSON-ready, with the workers that each bin asks for."""
    points = ahead.points[:bins] if ahead is not None else ()
    known = look.service_seconds > 0
    return look.as_json() | {
        "points": [
            point_json(it)
            | {
                "workers": expected_workers(it.high * look.service_seconds, limits)
                if known
                else None
            }
            for it in points
        ]
    }


def provision_samples(seen: Iterable[Seen], *, is_dry: bool) -> list[Sample]:
    """Return the forecast for when a worker called now is ready, and how many are wanted."""
    found = [Sample("ds4_provisioning_dry_run", (), float(is_dry))]
    for look in seen:
        found += _of_profile(look)
    return found


def _of_profile(look: Seen) -> Iterator[Sample]:
    labels = labels_of({"profile": look.profile})
    yield Sample("ds4_forecast_lead_seconds", labels, look.lead_seconds)
    if look.point is not None:
        yield Sample("ds4_forecast_requests_per_second", labels, look.point.expected)
        yield Sample("ds4_forecast_requests_per_second_low", labels, look.point.low)
        yield Sample("ds4_forecast_requests_per_second_high", labels, look.point.high)
    decision = look.decision
    if decision is not None:
        counts = {"wanted": decision.wanted, "hot": decision.hot, "starting": decision.coming}
        for kind, count in counts.items():
            of = labels_of({"profile": look.profile, "kind": kind})
            yield Sample("ds4_provisioning_workers", of, float(count))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
