"""What a daemon goes on from: the stores, the memory, and where the last one left off."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from ds4watch import __version__
from ds4watch.alerting.machine import restore
from ds4watch.engine.blueprint import Blueprint
from ds4watch.engine.observe import SELF
from ds4watch.engine.parts import Known
from ds4watch.engine.signals import POOL, QualityReading, RequestTotals, midnight
from ds4watch.engine.targets import is_discovered
from ds4watch.fleet.backend import WorkerSpec
from ds4watch.history.live import LiveBuffer
from ds4watch.history.migrate import Which
from ds4watch.history.place import place_of
from ds4watch.history.rows import AuditEntry, AuditKind, QualityRun, RestoredState
from ds4watch.history.samples import SampleStore
from ds4watch.history.state import StateStore
from ds4watch.model.ports import Clock
from ds4watch.model.worker import FleetSnapshot
from ds4watch.policy.ladder import LadderState


@dataclass(frozen=True, slots=True)
class Stores:
    """What outlives the daemon, opened, and what was found in it.

    removed: targets with history that are not in the fleet; of those, discovery may yet claim some.
    """

    samples: SampleStore
    state: StateStore
    live: LiveBuffer
    restored: RestoredState
    removed: frozenset[str]

    @property
    def unclaimed(self) -> frozenset[str]:
        """What discovery may yet claim."""
        return frozenset(filter(is_discovered, self.removed))


async def open_stores(blueprint: Blueprint, clock: Clock, stack: AsyncExitStack) -> Stores:
    """Open the databases; the memory is still empty."""
    stack.callback(blueprint.gpus.close)
    store, state_dir = blueprint.settings.store, blueprint.state_dir
    samples = SampleStore.open(place_of(store, state_dir, Which.SAMPLES), clock)
    stack.push_async_callback(samples.close)
    state = StateStore.open(place_of(store, state_dir, Which.STATE), clock)
    stack.push_async_callback(state.close)
    live = LiveBuffer(
        window_seconds=store.live_window_seconds,
        windows=blueprint.rules.windows_read(),
        interval_of={
            name: options.interval_seconds for name, options in blueprint.scrape.options.items()
        },
        budget_bytes=store.live_budget_bytes,
    )
    removed = await _removed(samples, blueprint.specs)
    return Stores(samples, state, live, await state.load(clock.now()), removed)


async def remember(stores: Stores, clock: Clock) -> None:
    """Fill the memory; the series of workers that are no longer in the fleet end."""
    await stores.live.reload(stores.samples, clock.now())
    for name in stores.removed - stores.unclaimed:
        stores.live.remove_target(name, clock.now())


async def _removed(samples: SampleStore, specs: Sequence[WorkerSpec]) -> frozenset[str]:
    """Return the targets with history that are no longer in the fleet."""
    wanted = {spec.id for spec in specs} | {SELF.name}
    return frozenset(await samples.targets()) - wanted


async def known_from(stores: Stores, fleet: FleetSnapshot, clock: Clock) -> Known:
    """Return what the engine goes on from.

    fleet: workers that ran on without a daemon; that time is charged like any other.
    """
    now, restored, state = clock.now(), stores.restored, stores.state
    last_tick_at = restored.last_tick_at if restored.last_tick_at is not None else now
    alerts = restore(restored.alerts, last_tick_at, now)
    today_at = midnight(now)
    versions = [int(it.plan.parameters.get("version", 0)) for it in restored.actions]
    return Known(
        alerts=alerts,
        ladder=LadderState(POOL, version=max([restored.policy_version, *versions])),
        holds=restored.holds,
        totals=RequestTotals.restored(await state.requests_totals()),
        charged_until={view.id: last_tick_at for view in fleet.workers},
        spent=await state.spent_total(),
        spent_today=sum(row.nanos for row in await state.cost_between(today_at, now)),
        today_at=today_at,
        quality=_readings(await state.latest_quality()),
        unclaimed=stores.unclaimed,
        jobs={run.name: run for run in await state.jobs()},
    )


def started(clock: Clock, restored: RestoredState) -> AuditEntry:
    """Return the audit row of a start."""
    again = "went on from stored state" if restored.last_tick_at is not None else "first start"
    summary = f"ds4watch {__version__} started: {again}"
    return AuditEntry(clock.now(), AuditKind.DAEMON, "daemon", summary, {"pid": os.getpid()})


def _readings(runs: Sequence[QualityRun]) -> tuple[QualityReading, ...]:
    """Return the readings of stored runs that succeeded."""
    return tuple(
        QualityReading(run.profile, run.reference, run.metric, run.value, run.at)
        for run in runs
        if run.value is not None
    )
