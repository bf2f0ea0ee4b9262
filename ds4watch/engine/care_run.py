"""Carries out periodic care: takes readings each minute, asks the planner, does what it says."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ds4watch.config.profile import Profile
from ds4watch.config.settings import CareSettings
from ds4watch.engine.installed import TRIAL_SECONDS, installed_at
from ds4watch.engine.parts import Known
from ds4watch.fleet.care import (
    Care,
    CareLimits,
    Cure,
    Patient,
    Told,
    is_reset_due,
    step,
    was_reset,
    wishes,
)
from ds4watch.fleet.client import WorkerClient
from ds4watch.fleet.command import has_dev_endpoints
from ds4watch.fleet.life import LifeLimits
from ds4watch.fleet.wear import Reading, creeps, decays
from ds4watch.fleet.wish import By, Wanted, Wish
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.model.errors import StoreError, WorkerError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.series import Labels
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.policy.policyfile import PolicyFile
from ds4watch.policy.pools import pools_of

log = logging.getLogger(__name__)

LOOK_SECONDS = 60
_KEPT = 120
_CALM_LOOKS = 5
_SAWING = "GpuMemorySawing"
_LEAST_TOKENS_PER_SECOND = 10.0
"""Of prompts: canaries of ours alone come to less."""
_OWN_SECONDS = 90.0
"""For so long after a warm-up what shares of 60 s say may be of ours."""


class Newest(Protocol):
    """Where the newest values of a series are."""

    def newest(self, name: str) -> list[tuple[Labels, float]]:
        """Return the labels and the value of each series of a name."""
        ...


class Tending(Protocol):
    """Who tends the workers."""

    async def wish(self, by: By, wanted: Mapping[str, Wanted]) -> None:
        """Make this all that `by` wishes."""
        ...

    def wanted(self, worker_id: str) -> Wanted:
        """Return what a worker is to be when all are heard."""
        ...

    def limits_of(self, worker_id: str) -> LifeLimits:
        """Return what the machine goes by for a worker."""
        ...


class Book(Protocol):
    """Where things are kept and told."""

    async def add_audit(self, *entries: AuditEntry) -> None:
        """Store audit rows. Raises StoreError."""
        ...

    async def keep_value(self, name: str, value: Any) -> None:
        """Keep a JSON value under a name. Raises StoreError."""
        ...

    async def kept_values(self) -> dict[str, Any]:
        """Return every value that is kept by name. Raises StoreError."""
        ...


@dataclass(frozen=True, slots=True)
class CareSources:
    """What care reads and whom it asks. level: the degradation level in force."""

    supervisor: Tending
    is_step_back_due: Callable[[str], bool]
    state: Book
    live: Newest
    profiles: Mapping[str, Profile]
    client_of: Callable[[str], WorkerClient]
    level: Callable[[], int]
    policy: PolicyFile = field(default_factory=PolicyFile)
    """Its pools: a hold on one holds its workers."""


class CareRun:
    """Looks after the workers, one at a time."""

    def __init__(
        self,
        known: Known,
        settings: CareSettings,
        sources: CareSources,
        clock: Clock,
        *,
        min_hot: int,
    ) -> None:
        """Never leave fewer than `min_hot` ready."""
        self._known = known
        self._settings = settings
        self._min_hot = min_hot
        self._from = sources
        self._clock = clock
        self._care = Care()
        self._memory: deque[Reading] = deque(maxlen=_KEPT)
        self._hits: dict[str, deque[Reading]] = {}
        self._calm_looks = 0
        self._installed_at: UnixSeconds | None = None

    async def look(self) -> None:
        """Take readings and go on with care. Raises StoreError."""
        now = self._clock.now()
        self._read(now)
        patients = tuple(self._patient(view) for view in self._known.fleet.workers)
        quiet = self._calm_looks >= _CALM_LOOKS
        limits = replace(self._limits(), dry_run=await self._is_dry(now))
        if is_reset_due(self._care, patients):
            await self._reset(now)
        was_under = self._care.under
        self._care, told = step(self._care, patients, limits, now, quiet=quiet)
        if was_under is not None and self._care.under is None:
            self._memory.clear()  # what was measured before tells nothing of what is now
        await self._from.supervisor.wish(By.CARE, wishes(self._care))
        await self._tell(told, now)

    def _limits(self) -> CareLimits:
        return CareLimits(self._settings.interval_seconds, self._min_hot)

    async def _is_dry(self, now: UnixSeconds) -> bool:
        if self._settings.dry_run is not None:
            return self._settings.dry_run
        if self._installed_at is None:
            self._installed_at = await installed_at(self._from.state, now)
        return now - self._installed_at < TRIAL_SECONDS

    def _read(self, now: UnixSeconds) -> None:
        used = _fullest(self._from.live)
        if used is not None:
            self._memory.append((now, used))
        ready = {it.id: it for it in self._known.fleet.workers if it.phase is WorkerPhase.READY}
        for gone in self._hits.keys() - ready.keys():
            del self._hits[gone]
        used_by_others = _used_by_others(self._from.live)
        for labels, miss in self._from.live.newest("ds4_cache_miss_ratio"):
            name = dict(labels).get("worker", "")
            if name in ready and name in used_by_others and 0 <= miss <= 1:
                self._hits.setdefault(name, deque(maxlen=_KEPT)).append((now, 1 - miss))
        self._calm_looks = self._calm_looks + 1 if self._is_calm(ready.values()) else 0

    def _is_calm(self, ready: Iterable[WorkerView]) -> bool:
        """Return whether nothing waits, less runs than there are workers, and nothing is amiss."""
        loads = [worker.load for worker in ready]
        if any(load.running is None or load.waiting for load in loads):
            return False
        running = sum(load.running or 0.0 for load in loads)
        return running < max(1, len(loads)) and self._from.level() == 0

    def _patient(self, view: WorkerView) -> Patient:
        profile = self._from.profiles.get(view.profile)
        is_foreign = self._from.supervisor.limits_of(view.id).is_foreign
        why, cure = ("", Cure.RESTART) if is_foreign else self._need(view, profile)
        load = view.load
        return Patient(
            worker=view.id,
            phase=view.phase,
            since=view.since,
            models=view.models,
            why=why,
            cure=cure,
            is_idle=load.running == 0 and not load.waiting,
            held=self._is_held(view),
        )

    def _need(self, view: WorkerView, profile: Profile | None) -> tuple[str, Cure]:
        if self._from.is_step_back_due(view.id):
            return "memory held for long: to be tried with one step less", Cure.RESTART
        if profile is not None and (why := self._memory_wears()):
            return why, Cure.RESTART
        if why := decays(tuple(self._hits.get(view.id, ()))):
            can_reset = profile is not None and has_dev_endpoints(profile)
            return why, Cure.RESET if can_reset else Cure.RESTART
        return "", Cure.RESTART

    def _memory_wears(self) -> str:
        if any(_is_firing(alert, _SAWING) for alert in self._known.alerts):
            return "memory of a GPU saws"
        return creeps(tuple(self._memory))

    def _is_held(self, view: WorkerView) -> bool:
        """Return whether a person holds it, or somebody wishes it elsewhere already."""
        now, names = self._clock.now(), {"*", view.id, *pools_of(self._from.policy, view.profile)}
        held = any(it.target in names and now < it.until_at for it in self._known.holds)
        return held or self._from.supervisor.wanted(view.id).wish is not Wish.READY

    async def _reset(self, now: UnixSeconds) -> None:
        under = self._care.under
        view = next(
            (it for it in self._known.fleet.workers if under and it.id == under.worker), None
        )
        if view is None:
            return
        try:
            emptied = await self._from.client_of(view.url).reset_prefix_cache()
            told = "its prefix cache is empty" if emptied else "its prefix cache is still in use"
        except WorkerError as error:
            told = f"its prefix cache could not be emptied: {error}"
        self._care = was_reset(self._care, now)
        self._hits.pop(view.id, None)
        await self._tell((Told(view.id, f"care is over: {told}"),), now)

    async def _tell(self, told: Iterable[Told], now: UnixSeconds) -> None:
        for line in told:
            log.info("%s: %s", line.worker, line.summary)
            detail = {"dry_run": line.is_dry, "part": "care"}
            entry = AuditEntry(now, AuditKind.WORKER, line.worker, line.summary, detail)
            try:
                await self._from.state.add_audit(entry)
            except StoreError as error:
                log.warning("the audit row of %s is lost: %s", line.worker, error)


def _is_firing(alert: AlertState, name: str) -> bool:
    return alert.name == name and alert.phase is AlertPhase.FIRING


def _used_by_others(live: Newest) -> set[str]:
    """Return the workers whose prompts of the last minute are not only our own."""
    speeds = [(dict(labels), speed) for labels, speed in live.newest("ds4_tokens_per_second")]
    warmed = live.newest("ds4_worker_warmup_age_seconds")
    used = {
        own.get("worker", "")
        for own, speed in speeds
        if own.get("kind") == "prompt" and speed >= _LEAST_TOKENS_PER_SECOND
    }
    return used - {dict(labels).get("worker", "") for labels, age in warmed if age < _OWN_SECONDS}


def _fullest(live: Newest) -> float | None:
    """Return how full the fullest GPU of this host is; None without one."""
    totals = dict(live.newest("ds4_gpu_memory_total_bytes"))
    shares = [
        used / total
        for labels, used in live.newest("ds4_gpu_memory_used_bytes")
        if (total := totals.get(labels, 0.0)) > 0
    ]
    return max(shares, default=None)
