"""What a daemon goes on from: the stores, the memory, and where the last one left off."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import numpy as np

from ds4watch import __version__
from ds4watch.alerting.machine import restore
from ds4watch.cost.attribution import CostPart
from ds4watch.cost.book import CostBook
from ds4watch.cost.budgets import Budget, BudgetBook, first_needed
from ds4watch.cost.hours import HOUR_SECONDS, hour_of
from ds4watch.cost.recent import RecentHours
from ds4watch.engine.blueprint import Blueprint
from ds4watch.engine.observe import SELF
from ds4watch.engine.parts import Known
from ds4watch.engine.rule_pages import RulePages
from ds4watch.engine.rulebook import RuleBook
from ds4watch.engine.signals import QualityReading, RequestTotals, midnight
from ds4watch.engine.targets import is_discovered
from ds4watch.history.line import Fence
from ds4watch.history.live import LiveBuffer
from ds4watch.history.migrate import Which
from ds4watch.history.place import place_of
from ds4watch.history.quality_values import QualityRun
from ds4watch.history.rows import AuditEntry, AuditKind, RestoredState
from ds4watch.history.samples import SampleStore
from ds4watch.history.state import StateStore
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.scrape import RULE_PREFIX
from ds4watch.model.worker import FleetSnapshot
from ds4watch.promql.columns import NO_LABELS


@dataclass(frozen=True, slots=True)
class Stores:
    """What outlives the daemon, opened, and what was found in it.

    removed: targets with history that are not in the fleet; of those, discovery may yet claim some.
    pages: those of rules that have a past.
    """

    samples: SampleStore
    state: StateStore
    live: LiveBuffer
    restored: RestoredState
    removed: frozenset[str]
    pages: frozenset[str]

    @property
    def unclaimed(self) -> frozenset[str]:
        """What discovery may yet claim."""
        return frozenset(filter(is_discovered, self.removed))


async def open_stores(
    blueprint: Blueprint,
    clock: Clock,
    stack: AsyncExitStack,
    *,
    fence: Fence | None = None,
    leads: bool = True,
) -> Stores:
    """Open the databases; the memory is still empty. Who does not lead changes nothing in them."""
    stack.callback(blueprint.gpus.close)
    store, state_dir = blueprint.settings.store, blueprint.state_dir
    samples = SampleStore.open(place_of(store, state_dir, Which.SAMPLES), clock, fence=fence)
    stack.push_async_callback(samples.close)
    if leads:
        stack.push_async_callback(samples.append, ())  # what waited for the database
    state = StateStore.open(place_of(store, state_dir, Which.STATE), clock, fence=fence)
    stack.push_async_callback(state.close)
    live = LiveBuffer(
        window_seconds=store.live_window_seconds,
        windows=blueprint.rules.windows_read(),
        interval_of={
            name: options.interval_seconds for name, options in blueprint.scrape.options.items()
        },
        budget_bytes=store.live_budget_bytes,
    )
    stored = await samples.targets()
    pages = frozenset(name for name in stored if name.startswith(RULE_PREFIX))
    removed = frozenset(stored) - pages - {spec.id for spec in blueprint.specs} - {SELF.name}
    now = clock.now()
    restored = await state.load(now) if leads else await state.look(now)
    return Stores(samples, state, live, restored, removed, pages)


async def remember(stores: Stores, rules: RuleBook, clock: Clock) -> None:
    """Fill the memory; the series of workers and rules that are no longer there end."""
    await stores.live.reload(stores.samples, clock.now())
    for name in stores.removed - stores.unclaimed:
        stores.live.remove_target(name, clock.now())
    await _end_pages(stores, rules, clock.now())


async def _end_pages(stores: Stores, rules: RuleBook, now: UnixSeconds) -> None:
    """End the series of rules that are no longer there, in memory and in the history."""
    gone = [
        name
        for name in sorted(stores.pages - set(rules.pages))
        if (last := await stores.samples.last(name)) is not None and len(last.values)
    ]
    for name in gone:
        stores.live.write(name, NO_LABELS, np.empty(0), now)
    await stores.samples.append(RulePages(stores.samples.intern, gone).ended(now))


async def known_from(
    stores: Stores, fleet: FleetSnapshot, clock: Clock, *, budgets: Sequence[Budget] = ()
) -> Known:
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
        plan_version=max([restored.policy_version, *versions]),
        holds=restored.holds,
        silences=await state.desk.silences(now),
        totals=RequestTotals.restored(await state.ledger.requests_totals()),
        charged_until={view.id: last_tick_at for view in fleet.workers},
        spent=await state.ledger.spent_total(),
        spent_today=sum(row.nanos for row in await state.ledger.cost_between(today_at, now)),
        today_at=today_at,
        quality=_readings(await state.quality.latest_quality()),
        pages=stores.pages,
        unclaimed=stores.unclaimed,
        jobs={run.name: run for run in await state.jobs()},
        cost=CostBook.from_json(restored.carry),
        budgets=await budget_book(state, budgets, now),
        recent=await recent_hours(state, now),
        served_at={it: min(at, now) for it, at in (await state.ledger.last_served()).items()},
    )


async def recent_hours(state: StateStore, now: UnixSeconds) -> RecentHours:
    """Return what the ledger has of the running hour and of the one before."""
    recent = RecentHours()
    start = hour_of(now) - HOUR_SECONDS
    for cost in await state.ledger.cost_between(start, now):
        recent.add_money(int(cost.hour_at), cost.worker, CostPart(cost.part), cost.nanos)
    for it in await state.ledger.works_between(start, now):
        recent.add_work(it.hour_at, it.place, it.work)
    return recent


async def budget_book(state: StateStore, budgets: Sequence[Budget], now: UnixSeconds) -> BudgetBook:
    """Return the book with what the ledger has of all that budgets look at."""
    book = BudgetBook(budgets)
    if budgets:
        start = first_needed(now)
        for cost in await state.ledger.cost_between(start, now):
            book.add_money(int(cost.hour_at), cost.nanos)
        for work in await state.ledger.work_between(start, now):
            book.add_work(int(work.hour_at), work.key, work.model, work.usage)
    return book


def started(clock: Clock, restored: RestoredState, more: str = "") -> AuditEntry:
    """Return the audit row of a start; more: what else is to be said of it."""
    again = "went on from stored state" if restored.last_tick_at is not None else "first start"
    summary = f"ds4watch {__version__} started: {again}{more and f'; {more}'}"
    return AuditEntry(clock.now(), AuditKind.DAEMON, "daemon", summary, {"pid": os.getpid()})


def _readings(runs: Sequence[QualityRun]) -> tuple[QualityReading, ...]:
    """Return the readings of stored runs that succeeded."""
    return tuple(
        QualityReading(run.profile, run.reference, run.metric, run.value, run.at)
        for run in runs
        if run.value is not None
    )
