"""Carries out what the warm pool decides: wishes told to the supervisor, an audit row for each."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ds4watch.config.settings import FleetSettings
from ds4watch.engine.signals import POOL
from ds4watch.fleet.board import GatewayView
from ds4watch.fleet.pool import (
    NO_FACTS,
    Asked,
    Change,
    Facts,
    Pool,
    PoolSettings,
    begun,
    goal,
    hot,
    to_rewarm,
)
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.fleet.tended import may_sleep
from ds4watch.fleet.warm import plan
from ds4watch.fleet.wish import By, Wish
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.history.state import StateStore
from ds4watch.model.action import Hold
from ds4watch.model.errors import StoreError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.series import Sample, labels_of
from ds4watch.model.worker import FleetSnapshot

log = logging.getLogger(__name__)

_DEMAND_SECONDS = 10.0
"""For so long a request that found nobody counts as asking."""
_DAY_SECONDS = 86_400.0
_DONE = {
    Wish.READY: "called",
    Wish.ASLEEP: "put to sleep",
    Wish.STOPPED: "stopped again",
}


@dataclass(frozen=True, slots=True)
class WarmSettings:
    """What the pool goes by; until `trial_until` putting to sleep is told and not done."""

    pool: PoolSettings
    rewarm_after_seconds: float = math.inf
    trial_until: UnixSeconds = 0.0


def warm_settings(fleet: FleetSettings, began_at: UnixSeconds) -> WarmSettings:
    """Return what the settings say; began_at: when ds4watch was installed."""
    return WarmSettings(
        PoolSettings(
            min_hot=fleet.min_hot,
            sleep_after_seconds=fleet.sleep_after_seconds or math.inf,
            wake_waiting=fleet.wake_waiting,
            wake_kv_usage_ratio=fleet.wake_kv_usage_ratio,
            wake_hold_seconds=fleet.wake_hold_seconds,
        ),
        rewarm_after_seconds=fleet.rewarm_after_seconds or math.inf,
        trial_until=began_at + fleet.sleep_trial_days * _DAY_SECONDS,
    )


class WarmPool:
    """Steps once a tick."""

    def __init__(
        self, supervisor: Supervisor, state: StateStore, settings: WarmSettings, clock: Clock
    ) -> None:
        self._supervisor = supervisor
        self._state = state
        self._settings = settings
        self._clock = clock
        self._pool = Pool()
        self._facts: Mapping[str, Facts] = {}
        self._demand = Demand()

    async def begin(self, specs: Sequence[WorkerSpec], before: FleetSnapshot) -> None:
        """Go on from the fleet as the last daemon saw it; to be done before workers are tended."""
        facts = {
            spec.id: Facts(can_sleep=may_sleep(spec), is_spare=spec.is_spare) for spec in specs
        }
        self._pool = begun(before, facts, self._clock.now())
        await self._tell()

    async def step(
        self,
        fleet: FleetSnapshot,
        holds: Sequence[Hold],
        gateways: Iterable[GatewayView],
        *,
        may_warm: bool = True,
    ) -> None:
        """Look at the fleet, decide, tell; what is told is audited.

        may_warm: workers that serve may be warmed up again.
        """
        now = self._clock.now()
        self._facts = _with_holds(self._supervisor.facts(), holds, now)
        demand = self._demand.note(gateways, now)
        asked = Asked(demand, is_trial=now < self._settings.trial_until)
        before = self._pool
        self._pool, changes = plan(fleet, self._facts, before, self._settings.pool, now, asked)
        if self._pool.resting != before.resting:
            await self._tell()
        if changes:
            await self._audit(changes, now)
        again = to_rewarm(fleet, self._facts, self._settings.rewarm_after_seconds, now)
        if again is not None and may_warm:
            self._supervisor.warm(again)

    def samples(self, fleet: FleetSnapshot) -> list[Sample]:
        """Return how many are ready and missing, what warm-ups took and how old they are."""
        ready = hot(fleet)
        missing = max(0, goal(fleet, self._settings.pool) - ready)
        found = [
            Sample("ds4_hot_workers", (), float(ready)),
            Sample("ds4_hot_workers_missing", (), float(missing)),
        ]
        now = self._clock.now()
        for view in fleet.workers:
            fact = self._facts.get(view.id, NO_FACTS)
            labels = labels_of({"worker": view.id, "profile": view.profile})
            if fact.warm_up_seconds is not None:
                found.append(Sample("ds4_worker_warmup_seconds", labels, fact.warm_up_seconds))
            if fact.warming_until is not None:
                age = max(0.0, now - fact.warming_until)
                found.append(Sample("ds4_worker_warmup_age_seconds", labels, age))
        return found

    def as_json(self, fleet: FleetSnapshot) -> dict[str, Any]:
        """Return how the pool stands, JSON-ready."""
        ready, wanted = hot(fleet), goal(fleet, self._settings.pool)
        sleeps = math.isfinite(self._settings.pool.sleep_after_seconds)
        is_trial = sleeps and self._clock.now() < self._settings.trial_until
        return {
            "min_hot": wanted,
            "hot": ready,
            "missing": max(0, wanted - ready),
            "resting": [
                {"worker": name, "wish": rest.wish.value, "since": rest.since, "why": rest.why}
                for name, rest in self._pool.resting.items()
                if not self._facts.get(name, NO_FACTS).is_taken  # others had them called
            ],
            "trial_until": self._settings.trial_until if is_trial else None,
        }

    async def _tell(self) -> None:
        await self._supervisor.wish(By.WARM_POOL, self._pool.wishes())

    async def _audit(self, changes: Sequence[Change], now: UnixSeconds) -> None:
        entries = [_entry(change, now) for change in changes]
        for entry in entries:
            log.info("%s: %s", entry.subject, entry.summary)
        try:
            await self._state.add_audit(*entries)
        except StoreError as error:
            log.warning("audit rows of the warm pool are lost: %s", error)


class Demand:
    """Which models requests found nobody for, from the gateways' counters."""

    def __init__(self) -> None:
        self._counts: dict[str, Mapping[str, int]] = {}
        self._asked_at: dict[str, UnixSeconds] = {}

    def note(self, gateways: Iterable[GatewayView], now: UnixSeconds) -> frozenset[str]:
        """Take in the counters; return the models that were asked for of late.

        A gateway that was not known is taken at its word: a wake too many costs little.
        """
        counts = {f"{view.name} {view.pid}": view.unserved for view in gateways}
        for name, unserved in counts.items():
            before = self._counts.get(name, {})
            for model, count in unserved.items():
                if count > before.get(model, 0):
                    self._asked_at[model] = now
        self._counts = counts
        self._asked_at = {
            model: at for model, at in self._asked_at.items() if now - at < _DEMAND_SECONDS
        }
        return frozenset(self._asked_at)


def _entry(change: Change, now: UnixSeconds) -> AuditEntry:
    what = _DONE[change.wish]
    told = f"would be {what}, in the trial only told: {change.why}"
    summary = told if change.is_trial else f"{what}: {change.why}"
    detail = {"by": "warm pool", "wish": change.wish.value, "dry_run": change.is_trial}
    return AuditEntry(now, AuditKind.WORKER, change.worker, summary, detail)


def _with_holds(
    facts: Mapping[str, Facts], holds: Sequence[Hold], now: UnixSeconds
) -> Mapping[str, Facts]:
    """Return the facts with those marked that a person holds: one worker, or all of them."""
    targets = {hold.target for hold in holds if hold.until_at > now}
    if not targets:
        return facts
    is_all = not targets.isdisjoint(("*", POOL))
    return {
        name: replace(fact, is_held=True) if is_all or name in targets else fact
        for name, fact in facts.items()
    }
