"""What runs beside the ticks: the admin API and the calendar jobs.

Loaded after the first evaluation, which would otherwise wait for the web framework.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from ds4watch.config.files import LoadedSettings
from ds4watch.cost.attribution import part_of
from ds4watch.engine import ledger_jobs
from ds4watch.engine.admin_desk import AdminDesk
from ds4watch.engine.blueprint import Blueprint
from ds4watch.engine.care_run import LOOK_SECONDS, CareRun, CareSources
from ds4watch.engine.commands import Commands
from ds4watch.engine.cost_plan import offload_bytes_of, storage_prices_of
from ds4watch.engine.golden_asking import Asker
from ds4watch.engine.golden_questions import golden_questions
from ds4watch.engine.golden_runs import GoldenRuns
from ds4watch.engine.history_export import HistoryExport
from ds4watch.engine.jobs import Jobs, JobSettings
from ds4watch.engine.ledger_jobs import LedgerJobs
from ds4watch.engine.model_facts import look_at
from ds4watch.engine.notify_orders import ButtonOrders
from ds4watch.engine.notify_setup import Hooks, Told, open_notifier
from ds4watch.engine.notify_views import RuleViews
from ds4watch.engine.parts import Parts
from ds4watch.engine.prometheus_facts import PrometheusFacts
from ds4watch.engine.quality_port import Quality
from ds4watch.engine.quality_run import fixed_prompts
from ds4watch.engine.quality_table import QualityTable
from ds4watch.engine.query_process import QueryProcess
from ds4watch.engine.report_calendar import LOOK_SECONDS as REPORT_LOOK_SECONDS
from ds4watch.engine.report_calendar import ReportCalendar
from ds4watch.engine.restart import Stores
from ds4watch.engine.rolling_commands import RollingCommands
from ds4watch.engine.rolling_quality import compared
from ds4watch.engine.rolling_view import room
from ds4watch.engine.running import Daemon
from ds4watch.engine.status import Sources, Status
from ds4watch.engine.token_journal import TokenJournal
from ds4watch.fleet.clients import WorkerClients
from ds4watch.history.migrate import Which
from ds4watch.history.place import place_of
from ds4watch.history.rows import Retention
from ds4watch.web.listen import read_tls
from ds4watch.web.ports import Ports
from ds4watch.web.serve import admin_server
from ds4watch.web.server import AdminServer
from ds4watch.web.tokens import TokenFiles

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


async def open_beside(
    daemon: Daemon,
    blueprint: Blueprint,
    parts: Parts,
    stores: Stores,
    *,
    listener: socket.socket,
    client_of: WorkerClients,
    stack: AsyncExitStack,
) -> None:
    """Serve the admin API on `listener` and start the jobs, until the stack is unwound."""
    history = place_of(blueprint.settings.store, blueprint.state_dir, Which.SAMPLES)
    queries = await stack.enter_async_context(QueryProcess(history))
    if parts.provision is not None:
        parts.provision.planned = lambda: int(daemon.rolling.is_running)
    daemon.rolling.measure = partial(compared, client_of=client_of, prompts=fixed_prompts())
    most = blueprint.settings.fleet.rolling.surge
    rolling = RollingCommands(
        daemon.rolling, surge=lambda specs: room(parts.gpus.last, specs, most=most)
    )
    commands = Commands(daemon.engine, parts, daemon.wishes, rolling, daemon.keys, daemon.clock)
    hooks = await _notify(daemon, blueprint, parts, queries, commands, stack)
    asker = Asker(
        daemon.engine.known,
        client_of,
        profiles=daemon.rolling.profiles,
        prices=blueprint.prices,
        clock=daemon.clock,
    )
    golden = _golden(daemon, blueprint, stores, asker)
    quality = Quality(golden, _table(daemon, blueprint, stores), daemon.starts)
    doors = _Doors(rolling, queries, commands, hooks, quality)
    await stack.enter_async_context(_admin(daemon, blueprint, parts, doors, listener))
    queries.begin()
    if not daemon.place.standing.leads:
        return
    await stack.enter_async_context(golden)
    jobs = _jobs(daemon, blueprint, parts, stores, client_of)
    golden_at = blueprint.settings.quality.golden_at
    if golden_at is not None:
        nightly = partial(golden.nightly, blueprint.settings.quality.golden_questions)
        jobs.daily("golden", nightly, at=golden_at)
    if hooks.has_channels:
        reports = ReportCalendar(
            blueprint.settings.notify.reports, parts.state, hooks.tell_report, daemon.clock
        )
        jobs.also("reports", reports.look, seconds=REPORT_LOOK_SECONDS)
    await stack.enter_async_context(jobs)


async def _notify(
    daemon: Daemon,
    blueprint: Blueprint,
    parts: Parts,
    queries: QueryProcess,
    commands: Commands,
    stack: AsyncExitStack,
) -> Hooks:
    """Tell people, and return what others may call."""
    assert parts.external is not None
    told = Told(
        settings=blueprint.settings,
        environment=os.environ,
        state=parts.state,
        known=daemon.engine.known,
        external=parts.external,
        queries=queries,
        orders=ButtonOrders(commands, daemon.clock, daemon.commands.ask, parts.state.desk.command),
        views=RuleViews(parts.rules, queries),
        metrics=parts.telemetry.process,
        clock=daemon.clock,
    )
    notifier, hooks = await open_notifier(told, stack)
    daemon.also["messages"] = notifier.run
    return hooks


@dataclass(frozen=True, slots=True)
class _Doors:
    """What the admin API leads to."""

    rolling: RollingCommands
    queries: QueryProcess
    commands: Commands
    hooks: Hooks
    quality: Quality


def _admin(
    daemon: Daemon,
    blueprint: Blueprint,
    parts: Parts,
    doors: _Doors,
    listener: socket.socket,
) -> AdminServer:
    engine, place, clock = daemon.engine, daemon.place, daemon.clock
    sources = Sources(
        supervisor=parts.supervisor,
        keeper=daemon.keeper,
        board=parts.board,
        state=parts.state,
        live=parts.live,
        rules=parts.rules,
        gpus=parts.gpus,
        pool=parts.pool,
        rolling=doors.rolling,
        provision=parts.provision,
        steering=parts.steering,
    )
    ports = Ports(
        source=Status(engine.known, place, sources, clock=clock),
        commands=doors.commands,
        facts=PrometheusFacts(engine.known, parts.rules, blueprint.scrape.options),
        queries=doors.queries,
        hooks=doors.hooks,
        quality=doors.quality,
        desk=AdminDesk(
            desk=parts.state.desk,
            silences=daemon.commands.silences,
            run=daemon.commands,
            exports=HistoryExport(config=blueprint.file, state_dir=place.state_dir),
            settings=blueprint.settings,
            profiles_now=daemon.rolling.profiles,
            clock=clock,
            audit=parts.state.add_audit,
        ),
    )
    journal = TokenJournal(parts.state, clock)
    return admin_server(
        listener,
        ports,
        tokens=TokenFiles(place.state_dir, on_change=journal.note),
        render_metrics=parts.telemetry.render,
        clock=clock,
        open_reads=place.admin.host in _LOOPBACK,
        tls=read_tls(place.admin.tls_certificate, place.admin.tls_key, setting="admin"),
    )


def _golden(daemon: Daemon, blueprint: Blueprint, stores: Stores, asker: Asker) -> GoldenRuns:
    loaded = LoadedSettings(blueprint.settings, blueprint.file)
    return GoldenRuns(
        daemon.engine.known,
        stores.state.quality,
        asker,
        profiles=partial(_references, daemon),
        questions=partial(golden_questions, loaded),
        clock=daemon.clock,
        at_once=blueprint.settings.quality.golden_at_once,
    )


def _references(daemon: Daemon) -> dict[str, str | None]:
    return {name: it.reference for name, it in sorted(daemon.rolling.profiles.items())}


def _table(daemon: Daemon, blueprint: Blueprint, stores: Stores) -> QualityTable:
    def weights(name: str) -> float | None:
        profile = daemon.rolling.profiles.get(name)
        known = look_at(profile, blueprint.state_dir, os.environ) if profile else None
        return known.weights_bytes if known else None

    return QualityTable(
        daemon.engine.known,
        stores.state.quality,
        references=partial(_references, daemon),
        weights=weights,
        currency=daemon.place.currency,
        clock=daemon.clock,
        max_age_seconds=blueprint.settings.quality.max_age_seconds,
    )


def _jobs(
    daemon: Daemon, blueprint: Blueprint, parts: Parts, stores: Stores, client_of: WorkerClients
) -> Jobs:
    store = blueprint.settings.store
    settings = JobSettings(
        retention_seconds=store.retention_hours * 3600,
        rollups_seconds={
            60: store.minute_retention_days * 86_400,
            3600: store.hour_retention_days * 86_400,
        },
        state=Retention(
            audit_seconds=store.audit_retention_days * 86_400,
            ledger_seconds=store.ledger_retention_days * 86_400,
        ),
        quality_interval_seconds=blueprint.settings.quality.interval_seconds,
    )
    jobs = Jobs(
        daemon.engine.known,
        settings,
        samples=stores.samples,
        state=stores.state,
        profiles=daemon.rolling.profiles,
        client_of=client_of,
        metrics=parts.telemetry.process,
        clock=daemon.clock,
    )
    care = _care(daemon, blueprint, parts, client_of)
    jobs.also("care", partial(_if_leading, parts, care.look), seconds=LOOK_SECONDS)
    ledger = _ledger(daemon, blueprint)
    jobs.also("ledger", partial(_if_leading, parts, ledger.look), seconds=ledger_jobs.LOOK_SECONDS)
    return jobs


def _ledger(daemon: Daemon, blueprint: Blueprint) -> LedgerJobs:
    by_profile = offload_bytes_of(blueprint.profiles)
    known = daemon.engine.known
    return LedgerJobs(
        daemon.state.ledger,
        blueprint.state_dir,
        storage_prices_of(blueprint.settings),
        daemon.clock,
        kept_seconds=blueprint.settings.store.ledger_retention_days * 86_400,
        offload_bytes=lambda: sum(
            by_profile.get(it.profile, 0) for it in known.fleet.workers if part_of(it) is not None
        ),
    )


async def _if_leading(parts: Parts, work: Callable[[], Awaitable[None]]) -> None:
    if parts.may_act():
        await work()


def _care(daemon: Daemon, blueprint: Blueprint, parts: Parts, client_of: WorkerClients) -> CareRun:
    sources = CareSources(
        supervisor=parts.supervisor,
        is_step_back_due=parts.supervisor.ladders.is_step_back_due,
        state=parts.state,
        live=parts.live,
        profiles=blueprint.profiles,
        client_of=client_of,
        level=lambda: max(parts.board.policy().levels.values()),
        policy=blueprint.policy,
    )
    settings, min_hot = blueprint.settings.care, blueprint.settings.fleet.min_hot
    return CareRun(daemon.engine.known, settings, sources, daemon.clock, min_hot=min_hot)
