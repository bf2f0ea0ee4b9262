"""The state of everything, as the admin API, the page and `ds4watch status` show it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ds4watch import __version__
from ds4watch.alerting.silences import silenced_by
from ds4watch.engine.cost_report import cost_report, why_report
from ds4watch.engine.distances import distances
from ds4watch.engine.explained import explained
from ds4watch.engine.parts import Known
from ds4watch.engine.place import Place
from ds4watch.engine.provision import Provisioning
from ds4watch.engine.rolling_commands import RollingCommands
from ds4watch.engine.rulebook import RuleBook
from ds4watch.engine.steering import Steering
from ds4watch.engine.warm_pool import WarmPool
from ds4watch.fleet.board import BoardPublisher
from ds4watch.fleet.gateways import GatewayKeeper
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.history.ledger_rows import HOUR_SECONDS, hour_of
from ds4watch.history.live import LiveBuffer
from ds4watch.history.request_sums import SumBy
from ds4watch.history.rows import AuditEntry, AuditKind, JobRun
from ds4watch.history.state import StateStore
from ds4watch.model.alert import AlertState
from ds4watch.model.money import NANOS_PER_UNIT, Nanos
from ds4watch.model.ports import Clock
from ds4watch.model.series import Labels, Sample
from ds4watch.model.worker import WorkerView
from ds4watch.quality.distributions import Metric
from ds4watch.scrape.gpu_watch import GpuWatch

_FLEET_SUMS = (
    "ds4_queue_depth",
    "ds4_running_requests",
    "ds4_prompt_tokens_total",
    "ds4_prefill_tokens_total",
    "ds4_cached_tokens_total",
    "ds4_generated_tokens_total",
    "ds4_gateway_requests_total",
    "ds4_retry_count_total",
    "ds4_tokens_per_second",
    "ds4_gateway_inflight_requests",
    "ds4_gpu_memory_used_bytes",
    "ds4_gpu_memory_total_bytes",
    "ds4_engines_missing",
)
_FLEET_WORST = (
    "ds4_cache_miss_ratio",
    "ds4_prefill_token_ratio",
    "ds4_prefill_time_ratio",
    "ds4_kv_usage_ratio",
    "ds4_quantization_error",
)


@dataclass(frozen=True, slots=True)
class Sources:
    """Who knows what is shown."""

    supervisor: Supervisor
    keeper: GatewayKeeper
    board: BoardPublisher
    state: StateStore
    live: LiveBuffer
    rules: RuleBook
    gpus: GpuWatch
    pool: WarmPool
    rolling: RollingCommands
    provision: Provisioning | None = None
    steering: Steering | None = None


class Status:
    """Answers the admin API's reads (web.ports.AdminSource)."""

    def __init__(self, known: Known, place: Place, sources: Sources, *, clock: Clock) -> None:
        self._known = known
        self._place = place
        self._from = sources
        self._clock = clock

    def status(self) -> dict[str, Any]:
        """Return the state of everything, JSON-ready."""
        known, place, gpus = self._known, self._place, self._from.gpus.last
        by_worker = _by_worker(known.samples)
        # A worker may have left the fleet since the last tick saw it.
        present = {view.id for view in self._from.supervisor.views()}
        return {
            "version": __version__,
            "pid": os.getpid(),
            "state_dir": str(place.state_dir),
            "store": place.store,
            **place.standing.as_json(),
            "at": self._clock.now(),
            "started_at": place.started_at,
            "admin_url": place.admin_url,
            "gateway_url": place.gateway_url,
            "waiting_for": list(self._from.supervisor.waiting_for()),
            "fleet": [
                self._worker(view, by_worker.get(view.id, ()))
                for view in known.fleet.workers
                if view.id in present
            ],
            "pool": self._from.pool.as_json(known.fleet),
            "provisioning": self._provisioning(),
            "change": self.fleet_change(),
            "gateways": self._gateways(),
            "gpus": {"available": gpus.available, "why_not": gpus.why_not},
            "signals": fleet_signals(known.samples),
            "alerts": self._alerts(),
            "policy": self._from.board.policy().as_json(),
            "steering": self._steering(),
            "holds": [
                {
                    "target": hold.target,
                    "until_at": hold.until_at,
                    "who": hold.who,
                    "why": hold.why,
                    "placed_at": hold.placed_at,
                }
                for hold in known.holds
            ],
            "jobs": [job_json(run) for _name, run in sorted(known.jobs.items())],
            "cost": {
                "currency": place.currency,
                "per_hour": money(known.per_hour),
                "spent_today": money(known.spent_today),
                "spent_total": money(known.spent),
            },
        }

    async def audit(
        self, *, limit: int, before: int | None, kind: str | None
    ) -> list[dict[str, Any]]:
        """Return audit rows, newest first."""
        if kind is not None and kind not in AuditKind._value2member_map_:
            return []
        wanted = AuditKind(kind) if kind is not None else None
        entries = await self._from.state.audit(limit, before_id=before, kind=wanted)
        return [audit_json(entry) for entry in entries]

    async def cost(self, *, start_at: float, end_at: float) -> dict[str, Any]:
        """Return what was spent in the hours that begin in [start_at, end_at)."""
        currency = self._place.currency
        return await cost_report(self._from.state, currency, start_at=start_at, end_at=end_at)

    def cost_why(self, *, at: float) -> dict[str, Any]:
        """Return why an hour costs more or less than usual."""
        return why_report(self._known.cost, self._place.currency, at)

    async def requests(self, *, by: str, hours: int) -> dict[str, Any]:
        """Return what was asked and what it cost in so many hours, the running one included."""
        since = hour_of(self._clock.now()) - (hours - 1) * HOUR_SECONDS
        sums = await self._from.state.ledger.request_sums(SumBy(by), since)
        return {
            "by": by,
            "since_at": since,
            "currency": self._place.currency,
            "requests": [it.as_json() for it in sums],
        }

    def fleet_change(self) -> dict[str, Any] | None:
        """Return the rolling change under way, or the last; None if there was none."""
        return self._from.rolling.shown()

    def forecast(self, hours: float) -> dict[str, Any]:
        """Return the load of the next hours by profile, and the workers that it asks for."""
        provision = self._from.provision
        if provision is None:
            return {"at": self._clock.now(), "enabled": False, "profiles": []}
        return provision.as_json(hours)

    def explain(self, name: str) -> list[dict[str, Any]]:
        """Return what the rules of a name see now."""
        now = self._clock.now()
        return explained(self._from.rules.named(name), self._from.live, self._known.alerts, now)

    def rules(self) -> list[dict[str, Any]]:
        """Return how far alerts are from their tiers now."""
        now = self._clock.now()
        return distances(self._from.rules.all(), self._from.live, self._known.alerts, now)

    def rule_names(self) -> list[str]:
        """Return the names of all rules."""
        return list(self._from.rules.names())

    def _worker(self, view: WorkerView, own: Sequence[Sample]) -> dict[str, Any]:
        up = [
            value for labels, value in self._from.live.newest("up") if ("worker", view.id) in labels
        ]
        sight = self._known.sights.get(view.id)
        return view.as_json() | {
            "up": bool(up[0]) if up else None,
            "monitoring": sight.as_json() if sight is not None else None,
            "standstill_seconds": self._from.supervisor.standstills().get(view.id),
            "wanted": self._from.supervisor.wanted(view.id).as_json(),
            "memory_steps": [str(step) for step in self._from.supervisor.ladders.of(view.id).steps],
            "startup_seconds": self._from.supervisor.start_times.seconds(view.profile),
            "signals": fleet_signals(own),
            "log": str(self._from.supervisor.log_path(view.id)),
        }

    def _alerts(self) -> list[dict[str, Any]]:
        silences, now = self._known.silences, self._clock.now()
        return [
            alert_json(it)
            | {"silenced_by": [one.id for one in silenced_by(it.labels, silences, now)]}
            for it in self._known.alerts
        ]

    def explain_policy(self, labels: Mapping[str, str]) -> dict[str, Any]:
        """Return what alerts with these labels lead to now, guard by guard."""
        steering = self._from.steering
        if steering is None:
            return {"at": self._clock.now(), "alerts": []}
        return steering.explain(labels, self._known.alerts)

    def _steering(self) -> dict[str, Any] | None:
        steering = self._from.steering
        return steering.as_json() if steering is not None else None

    def _provisioning(self) -> dict[str, Any] | None:
        provision = self._from.provision
        return provision.status_json() if provision is not None else None

    def _gateways(self) -> list[dict[str, Any]]:
        connected = {view.name: view for view in self._from.board.gateways()}
        pids = {name: view.pid for name, view in connected.items()} | self._from.keeper.pids()
        return [
            {
                "name": name,
                "pid": pid,
                "connected": name in connected,
                "policy_version": connected[name].policy_version if name in connected else None,
                "inflight": connected[name].inflight if name in connected else None,
            }
            for name, pid in pids.items()
        ]


def _by_worker(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        for name, value in sample.labels:
            if name == "worker":
                found.setdefault(value, []).append(sample)
    return found


_SHOWN_ERROR = Metric.MEAN_ABS_DELTA_LOGP.value


def fleet_signals(samples: Iterable[Sample]) -> dict[str, float]:
    """Return one value a signal: sums of what adds up, the worst of what is a share."""
    found: dict[str, float] = {}
    for sample in samples:
        if not math.isfinite(sample.value) or dict(sample.labels).get("mig"):
            continue  # an instance's memory is in the whole GPU's already
        if dict(sample.labels).get("metric", _SHOWN_ERROR) != _SHOWN_ERROR:
            continue  # shares and ratios are no errors
        name = _with_kind(sample.name, sample.labels)
        if sample.name in _FLEET_SUMS:
            found[name] = found.get(name, 0.0) + sample.value
        elif sample.name in _FLEET_WORST:
            found[name] = max(found.get(name, 0.0), sample.value)
    return found


def _with_kind(name: str, labels: Labels) -> str:
    kind = dict(labels).get("kind")
    return f'{name}{{kind="{kind}"}}' if kind else name


def alert_json(alert: AlertState) -> dict[str, Any]:
    """Return an alert as the API shows it."""
    annotations = dict(alert.annotations)
    return {
        "name": alert.name,
        "severity": alert.tier.value,
        "phase": alert.phase.value,
        "since": alert.fired_at if alert.fired_at is not None else alert.active_at,
        "value": alert.value if math.isfinite(alert.value) else None,
        "labels": dict(alert.labels),
        "summary": annotations.get("summary", ""),
        "runbook_url": annotations.get("runbook_url", ""),
        "held": alert.held,
        "fingerprint": alert.fingerprint,
    }


def job_json(run: JobRun) -> dict[str, Any]:
    """Return a job's last run as the API shows it."""
    return {
        "name": run.name,
        "last_started_at": run.last_started_at,
        "last_finished_at": run.last_finished_at,
        "took_seconds": run.took_seconds,
        "result": run.result,
        "ok": run.ok,
        "last_succeeded_at": run.last_succeeded_at,
    }


def audit_json(entry: AuditEntry) -> dict[str, Any]:
    """Return an audit row as the API shows it."""
    return {
        "id": entry.id,
        "at": entry.at,
        "kind": entry.kind.value,
        "who": entry.who or "ds4watch",
        "target": entry.subject,
        "summary": entry.summary,
        "detail": dict(entry.detail),
    }


def money(nanos: Nanos) -> str:
    """Return a sum as a decimal string, to the sixth place."""
    return f"{Decimal(nanos) / NANOS_PER_UNIT:.6f}"
