"""The one place that puts the parts together, in a straight line, and takes them down again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from ds4watch import __version__
from ds4watch.actions.runner import Runner
from ds4watch.actions.set_level import SetLevel
from ds4watch.alerting.machine import restore
from ds4watch.alerting.rulefile import load_rules
from ds4watch.config.files import (
    LoadedSettings,
    load_profiles,
    policy_file,
    read_text,
    rule_files,
    wanted_workers,
)
from ds4watch.config.places import resolve_state_dir
from ds4watch.config.profile import Profile
from ds4watch.config.settings import Settings
from ds4watch.cost.prices import PriceEntry, price_entry
from ds4watch.engine.commands import Commands
from ds4watch.engine.jobs import Jobs, JobSettings, restored_quality
from ds4watch.engine.rulebook import RuleBook
from ds4watch.engine.signals import POOL, RequestTotals, midnight
from ds4watch.engine.status import Place, Sources, Status
from ds4watch.engine.tick import SELF, Engine, EngineSettings, Known, Parts
from ds4watch.fleet.backend import LocalBackend, LocalPlace, WorkerSpec
from ds4watch.fleet.board import BoardPublisher, last_fleet, last_policy
from ds4watch.fleet.client import WorkerClient
from ds4watch.fleet.gateways import GatewayKeeper
from ds4watch.fleet.lifecycle import LifeLimits
from ds4watch.fleet.lock import daemon_lock, make_state_dir, running_daemon
from ds4watch.fleet.plan import check_specs, find_vllm, wanted_specs
from ds4watch.fleet.process import ProcessTable
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.history.live import LiveBuffer
from ds4watch.history.rows import AuditEntry, AuditKind, RestoredState
from ds4watch.history.samples import SampleStore
from ds4watch.history.state import StateStore
from ds4watch.model.action import ActionKind, ActionStatus
from ds4watch.model.errors import StoreError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.notify.dispatcher import Channel, Dispatcher
from ds4watch.notify.journal import Journal
from ds4watch.notify.webhook import Webhook
from ds4watch.policy.ladder import LadderState
from ds4watch.policy.policyfile import PolicyFile, load_policy
from ds4watch.scrape.exposition import PageReader
from ds4watch.scrape.fetch import open_session
from ds4watch.scrape.gpu import GpuReader
from ds4watch.scrape.wave import Scraper
from ds4watch.telemetry.logging import configure
from ds4watch.telemetry.metrics import Telemetry
from ds4watch.web.app import create_app
from ds4watch.web.server import AdminServer, bind
from ds4watch.web.tokens import open_tokens

log = logging.getLogger(__name__)

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TELL_SECONDS = 5.0
_GATEWAY_START_SECONDS = 15.0


class SystemClock:
    """The real clock."""

    def now(self) -> UnixSeconds:
        """Return the wall-clock instant."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds on a clock that never steps."""
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class Blueprint:
    """Everything that is read before anything is started."""

    settings: Settings
    state_dir: Path
    specs: tuple[WorkerSpec, ...]
    profiles: Mapping[str, Profile]
    vllm_python: Path
    gpus: GpuReader
    has_gpu: bool
    rules: RuleBook
    policy: PolicyFile
    prices: tuple[PriceEntry, ...]


class WorkerJournal:
    """Notes what becomes of workers: a log line, an audit row, a row of the workers' table."""

    def __init__(self, state: StateStore, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    async def worker_changed(self, view: WorkerView, old: WorkerPhase) -> None:
        """Note the change; a database that fails costs the row, not the worker."""
        told = f"{old.value} → {view.phase.value}" + (f": {view.reason}" if view.reason else "")
        log.info("%s %s", view.id, told)
        entry = AuditEntry(self._clock.now(), AuditKind.WORKER, view.id, told, {"url": view.url})
        try:
            await self._state.add_audit(entry)
        except StoreError as error:
            log.warning("the audit row of %s is lost: %s", view.id, error)


def run(settings: Settings, *, config_file: Path | None, sim: bool) -> int:
    """Run until told to stop; return the exit code. Raises ConfigError on bad input."""
    configure("INFO", sys.stderr)
    state_dir = resolve_state_dir(settings, os.environ).absolute()
    make_state_dir(state_dir)
    with daemon_lock(state_dir):
        blueprint = read_blueprint(LoadedSettings(settings, config_file), state_dir, sim=sim)
        return uvloop.run(_serve(blueprint, SystemClock()))


def read_blueprint(loaded: LoadedSettings, state_dir: Path, *, sim: bool) -> Blueprint:
    """Read and check all files. Raises ConfigError with the findings."""
    settings = loaded.settings
    workers = wanted_workers(settings, sim=sim)
    profiles = load_profiles(loaded, tuple(worker.profile for worker in workers))
    vllm_python = find_vllm(settings.fleet, loaded.base, os.environ)
    specs = wanted_specs(workers, profiles, settings.fleet)
    check_specs(specs, vllm_python, str(loaded.file) if loaded.file else None)
    gpus = GpuReader()
    return Blueprint(
        settings=settings,
        state_dir=state_dir,
        specs=specs,
        profiles=profiles,
        vllm_python=vllm_python,
        gpus=gpus,
        has_gpu=bool(gpus.read()),
        rules=RuleBook(
            [
                group
                for file in rule_files(loaded)
                for group in load_rules(read_text(file), str(file))
            ]
        ),
        policy=load_policy(read_text(policy_file(loaded)), str(policy_file(loaded))),
        prices=tuple(
            price_entry(price.profile, price.per_hour, price.valid_from.timestamp())
            for price in settings.cost.prices
        ),
    )


def down(settings: Settings) -> int:
    """Stop daemon, gateways and workers of a state folder; return the exit code."""
    configure("INFO", sys.stderr)
    state_dir = resolve_state_dir(settings, os.environ).absolute()
    if not state_dir.exists():
        sys.stdout.write(f"nothing runs: there is no state folder {state_dir}\n")
        return 0
    pid = running_daemon(state_dir)
    if pid is not None:
        sys.stdout.write(f"daemon {pid}: draining the gateway, stopping the workers …\n")
        os.kill(pid, signal.SIGINT)
        while running_daemon(state_dir) is not None:
            time.sleep(0.1)
    with daemon_lock(state_dir):
        gone = asyncio.run(_stop_units(state_dir, settings))
    sys.stdout.write("everything is stopped\n" if gone else "some processes survive SIGKILL\n")
    return 0 if gone else 1


async def _stop_units(state_dir: Path, settings: Settings) -> bool:
    """Stop what a daemon that is gone has left: gateways first, so that they can drain."""
    table = ProcessTable(state_dir, SystemClock())
    records = sorted(table.records(), key=lambda record: record.unit)
    drain_seconds = settings.gateway.drain_seconds + settings.fleet.stop_grace_seconds
    gone = True
    for kind in ("gateway/", "worker/"):
        stops = [
            table.stop(record, grace_seconds=drain_seconds)
            for record in records
            if record.unit.startswith(kind)
        ]
        gone = all(await asyncio.gather(*stops)) and gone
    return gone


async def _serve(blueprint: Blueprint, clock: Clock) -> int:
    """Put the parts together, serve until a signal, take them down as the signal says."""
    stop: asyncio.Future[signal.Signals] = asyncio.get_running_loop().create_future()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _told_to_stop, stop, number)
    async with AsyncExitStack() as stack:
        daemon = await _assemble(blueprint, clock, stack)
        told = await _until_stopped(daemon, stop)
        if told is signal.SIGINT:
            return 0 if await daemon.stop_everything() else 1
        await daemon.leave()
    return 0


def _told_to_stop(stop: asyncio.Future[signal.Signals], number: signal.Signals) -> None:
    if not stop.done():
        stop.set_result(number)


async def _until_stopped(daemon: Daemon, stop: asyncio.Future[signal.Signals]) -> signal.Signals:
    """Run the loops until a signal comes. A loop that breaks ends the daemon, with its fault."""
    tasks = [asyncio.create_task(loop, name=name) for name, loop in daemon.loops().items()]
    waited: list[asyncio.Future[Any]] = [*tasks, stop]
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    if stop.done():
        return stop.result()
    await daemon.leave()
    raise next(error for error in ended if isinstance(error, Exception))


@dataclass(frozen=True, slots=True)
class Daemon:
    """The running parts that need to be ended with care."""

    engine: Engine
    runner: Runner
    dispatcher: Dispatcher
    supervisor: Supervisor
    keeper: GatewayKeeper
    state: StateStore
    place: Place
    clock: Clock

    def loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Return what runs until the end."""
        return {
            "engine": self.engine.run(),
            "actions": self.runner.run(),
            "notify": self.dispatcher.run(),
            "gateways": self.keeper.keep(),
            "tell": self._tell(),
        }

    async def stop_everything(self) -> bool:
        """Drain the gateways, stop the workers. Returns False if something survived."""
        log.info("stopping: draining the gateway")
        drained = await self.keeper.stop()
        log.info("stopping: ending the workers")
        stopped = await self.supervisor.stop()
        await self._audit("stopped everything")
        log.info("stopped")
        return drained and stopped

    async def leave(self) -> None:
        """End the daemon alone; workers and gateways go on for the next one to adopt."""
        await self.supervisor.leave()
        await self._audit("the daemon left; workers and gateway go on")
        log.info("left: workers and gateway go on")

    async def _audit(self, summary: str) -> None:
        entry = AuditEntry(self.clock.now(), AuditKind.DAEMON, "daemon", summary)
        with contextlib.suppress(StoreError):
            await self.state.add_audit(entry)

    async def _tell(self) -> None:
        """Tell the person at the terminal what is waited for, and once nothing is."""
        was_waiting = True
        while True:
            await asyncio.sleep(_TELL_SECONDS if was_waiting else 1.0)
            waiting = self.supervisor.waiting_for()
            for line in waiting:
                log.info("waiting for %s", line)
            if was_waiting and not waiting:
                log.info("all workers are ready: gateway at %s/v1", self.place.gateway_url)
                log.info("status page at %s", self.place.admin_url)
            was_waiting = bool(waiting)


async def _assemble(blueprint: Blueprint, clock: Clock, stack: AsyncExitStack) -> Daemon:
    """Build every part in the order in which they need each other."""
    settings, state_dir = blueprint.settings, blueprint.state_dir
    samples = SampleStore.open(state_dir / "samples.db", clock)
    stack.push_async_callback(samples.close)
    state = StateStore.open(state_dir / "state.db")
    stack.push_async_callback(state.close)
    restored = await state.load(clock.now())

    live = LiveBuffer(
        window_seconds=settings.store.live_window_seconds, names=blueprint.rules.names_read()
    )
    await live.reload(samples, clock.now() - settings.store.live_window_seconds)
    for name in await _removed(samples, blueprint.specs):
        live.remove_target(name, clock.now())

    session = await stack.enter_async_context(aiohttp.ClientSession())
    client_of = _client_factory(session, settings)
    policy = last_policy(state_dir, restored.policy)
    table = ProcessTable(state_dir, clock)
    running = {record.pid for record in table.records() if record.is_alive()}
    fleet = last_fleet(state_dir, running)
    board = await stack.enter_async_context(
        BoardPublisher(state_dir, clock, policy=policy, fleet=fleet)
    )
    telemetry = Telemetry()
    runner = Runner(
        state,
        {
            ActionKind.SET_LEVEL: SetLevel(
                board, clock, lease_seconds=settings.gateway.lease_seconds
            )
        },
        metrics=telemetry.process,
        clock=clock,
    )
    await runner.recover(
        record.plan
        for record in restored.actions
        if record.status in (ActionStatus.PLANNED, ActionStatus.RUNNING)
    )

    supervisor = _supervisor(blueprint, table, state, client_of=client_of, clock=clock)
    keeper = GatewayKeeper(table, settings.gateway, state_dir, clock)
    known = await _known(restored, state, clock)
    dispatcher = Dispatcher(
        state, _channel(settings, session), metrics=telemetry.process, clock=clock
    )
    reader = PageReader(samples)
    scraper = await stack.enter_async_context(
        Scraper(lambda: open_session(settings.scrape), settings.scrape, reader=reader, clock=clock)
    )
    stack.callback(blueprint.gpus.close)
    parts = Parts(
        supervisor=supervisor,
        scraper=scraper,
        gpus=blueprint.gpus,
        board=board,
        samples=samples,
        state=state,
        live=live,
        rules=blueprint.rules,
        policy=blueprint.policy,
        runner=runner,
        dispatcher=dispatcher,
        telemetry=telemetry,
        spool_dir=state_dir / "spool",
    )
    engine = Engine(parts, _engine_settings(blueprint), known, clock=clock)

    place = Place(
        state_dir=state_dir,
        started_at=clock.now(),
        admin_url=f"http://{settings.admin.host}:{settings.admin.port}",
        gateway_url=f"http://{settings.gateway.host}:{settings.gateway.port}",
        currency=settings.cost.currency,
    )
    sources = Sources(
        supervisor=supervisor,
        keeper=keeper,
        board=board,
        state=state,
        live=live,
        gpus=blueprint.gpus,
    )
    status = Status(known, place, sources, clock=clock)
    app = create_app(
        source=status,
        commands=Commands(engine, state, clock),
        tokens=open_tokens(state_dir),
        render_metrics=telemetry.render,
        clock=clock,
        open_reads=settings.admin.host in _LOOPBACK,
    )
    await stack.enter_async_context(AdminServer(app, settings.admin.host, settings.admin.port))
    await _start_gateways(keeper, board, settings)
    await supervisor.start(blueprint.specs, fleet)
    await state.add_audit(_started(clock, restored))
    await stack.enter_async_context(
        Jobs(
            known,
            JobSettings(
                retention_seconds=settings.store.retention_hours * 3600,
                quality_interval_seconds=settings.quality.interval_seconds,
            ),
            samples=samples,
            state=state,
            profiles=blueprint.profiles,
            client_of=client_of,
            clock=clock,
        )
    )
    return Daemon(
        engine=engine,
        runner=runner,
        dispatcher=dispatcher,
        supervisor=supervisor,
        keeper=keeper,
        state=state,
        place=place,
        clock=clock,
    )


async def _removed(samples: SampleStore, specs: Sequence[WorkerSpec]) -> set[str]:
    """Return the targets with history that are no longer in the fleet."""
    wanted = {spec.id for spec in specs} | {SELF.name}
    return set(await samples.targets()) - wanted


def _client_factory(
    session: aiohttp.ClientSession, settings: Settings
) -> Callable[[str], WorkerClient]:
    timeout = settings.fleet.canary_timeout_seconds
    return lambda url: WorkerClient(session, url, generation_timeout_seconds=timeout)


def _supervisor(
    blueprint: Blueprint,
    table: ProcessTable,
    state: StateStore,
    *,
    client_of: Callable[[str], WorkerClient],
    clock: Clock,
) -> Supervisor:
    fleet = blueprint.settings.fleet
    place = LocalPlace(
        state_dir=blueprint.state_dir,
        vllm_python=blueprint.vllm_python,
        has_gpu=blueprint.has_gpu,
        first_port=fleet.first_port,
        stop_grace_seconds=fleet.stop_grace_seconds,
    )
    limits = LifeLimits(
        start_timeout_seconds=fleet.start_timeout_seconds,
        canary_interval_seconds=fleet.canary_interval_seconds,
        backoff_seconds=fleet.restart_backoff_seconds,
        backoff_max_seconds=fleet.restart_backoff_max_seconds,
    )
    return Supervisor(
        LocalBackend(place, table, clock),
        client_of,
        limits=limits,
        journal=WorkerJournal(state, clock),
        clock=clock,
    )


async def _known(restored: RestoredState, state: StateStore, clock: Clock) -> Known:
    """Return what the engine goes on from."""
    now = clock.now()
    last_tick_at = restored.last_tick_at if restored.last_tick_at is not None else now
    alerts = restore(restored.alerts, last_tick_at, now)
    today_at = midnight(now)
    versions = [int(it.plan.parameters.get("version", 0)) for it in restored.actions]
    return Known(
        alerts=alerts,
        ladder=LadderState(POOL, version=max([restored.policy_version, *versions])),
        holds=restored.holds,
        totals=RequestTotals.restored(await state.requests_totals()),
        offsets=dict(restored.spool_offsets),
        spent=await state.spent_total(),
        spent_today=sum(row.nanos for row in await state.cost_between(today_at, now)),
        today_at=today_at,
        quality=restored_quality(await state.latest_quality()),
    )


def _channel(settings: Settings, session: aiohttp.ClientSession) -> Channel:
    url = settings.notify.webhook_url
    return Webhook(session, url) if url is not None else Journal()


def _engine_settings(blueprint: Blueprint) -> EngineSettings:
    settings = blueprint.settings
    return EngineSettings(
        interval_seconds=settings.scrape.interval_seconds,
        currency=settings.cost.currency,
        prices=blueprint.prices,
        quality_max_age_seconds=settings.quality.max_age_seconds,
    )


async def _start_gateways(keeper: GatewayKeeper, board: BoardPublisher, settings: Settings) -> None:
    """Adopt or start the gateways and wait for them. Raises ConfigError if the port is taken."""
    adopted = await keeper.adopt()
    if not adopted:
        bind(settings.gateway.host, settings.gateway.port, setting="gateway").close()
    keeper.start_missing()
    if not await board.connected(
        settings.gateway.processes, timeout_seconds=_GATEWAY_START_SECONDS
    ):
        log.warning("a gateway does not answer: %s", keeper.last_words() or "see its log")


def _started(clock: Clock, restored: RestoredState) -> AuditEntry:
    again = "went on from stored state" if restored.last_tick_at is not None else "first start"
    summary = f"ds4watch {__version__} started: {again}"
    return AuditEntry(clock.now(), AuditKind.DAEMON, "daemon", summary, {"pid": os.getpid()})
