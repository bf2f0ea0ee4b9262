"""The one place that puts the parts together, in a straight line, and takes them down again."""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import uvloop

from ds4watch.config.files import LoadedSettings
from ds4watch.config.places import resolve_state_dir
from ds4watch.config.settings import AdminSettings, RunBy, Settings
from ds4watch.engine.again import Reload, execute_anew, faults_of
from ds4watch.engine.api_keys import ApiKeys, board_keys, recovered
from ds4watch.engine.blueprint import Blueprint, read_blueprint
from ds4watch.engine.command_run import CommandRun
from ds4watch.engine.cost_plan import budgets_of, gentle_levels, gpu_model
from ds4watch.engine.external_alerts import KEPT, ExternalAlerts
from ds4watch.engine.gpu_journal import GpuJournal
from ds4watch.engine.installed import trial_told
from ds4watch.engine.ladder_journal import StateLadders, kept_ladders
from ds4watch.engine.own_books import OwnBooks
from ds4watch.engine.parts import EngineSettings, Known, Parts
from ds4watch.engine.person_wishes import PersonWishes, learned
from ds4watch.engine.place import Place, Standing
from ds4watch.engine.provision_setup import provisioning
from ds4watch.engine.remote_source import open_rounds
from ds4watch.engine.replica import Held, open_lease
from ds4watch.engine.restart import Stores, known_from, open_stores, remember, started
from ds4watch.engine.rolling_run import RollingRun
from ds4watch.engine.rolling_view import Sight, rolling_rules
from ds4watch.engine.running import Daemon
from ds4watch.engine.silence_desk import SilenceDesk
from ds4watch.engine.spool import Spools
from ds4watch.engine.standby import StandbyEngine, Watched
from ds4watch.engine.start_check import StartCheck, is_missed
from ds4watch.engine.steering_setup import open_acting
from ds4watch.engine.tallies import Tallies
from ds4watch.engine.tick import Engine
from ds4watch.engine.turn import Turn
from ds4watch.engine.warm_pool import WarmPool, warm_settings
from ds4watch.engine.worker_journal import WorkerJournal
from ds4watch.fleet.backend import LocalPlace
from ds4watch.fleet.backends import Backend
from ds4watch.fleet.board import CONTROL_SOCKET, BoardPublisher, last_fleet, last_keys, last_policy
from ds4watch.fleet.clients import WorkerClients
from ds4watch.fleet.ending import end_daemon, stop_units
from ds4watch.fleet.gateways import GatewayKeeper
from ds4watch.fleet.gpu_desk import GpuDesk, own_visible
from ds4watch.fleet.ladders import Ladders
from ds4watch.fleet.life import LifeLimits, stall_floor_seconds
from ds4watch.fleet.lock import daemon_lock, make_state_dir, replica_id, running_daemon
from ds4watch.fleet.open_backend import open_backend, running_pids
from ds4watch.fleet.process import ProcessTable
from ds4watch.fleet.start_times import StartTimes
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.fleet.watched import SilentBoard, WatchedFleet
from ds4watch.history.migrate import Which
from ds4watch.history.place import place_of, store_label
from ds4watch.history.samples import SampleStore
from ds4watch.history.state import StateStore
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.worker import FleetSnapshot
from ds4watch.notify.dispatcher import Channel, Dispatcher
from ds4watch.notify.journal import Journal
from ds4watch.notify.secret import secret_of
from ds4watch.scrape.descriptors import raise_limit
from ds4watch.scrape.discovery import Discovery
from ds4watch.scrape.exposition import PageReader
from ds4watch.scrape.gpu_probe import gpu_start_fault
from ds4watch.scrape.gpu_watch import GpuWatch
from ds4watch.scrape.nvml import GpuReader
from ds4watch.scrape.wave import Scraper
from ds4watch.telemetry.logging import configure
from ds4watch.telemetry.metrics import Telemetry
from ds4watch.telemetry.service_manager import ServiceManager, service_manager
from ds4watch.web.listen import bind, read_tls

log = logging.getLogger(__name__)

_GARBAGE_THRESHOLDS = (50_000, 20, 50)
"""Ticks make next to no garbage, and over 300 targets a full search holds all up for 30 ms."""
_GPU_SECONDS = 5.0
"""Time for NVML's answer before a worker is started."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class SystemClock:
    """The real clock."""

    def now(self) -> UnixSeconds:
        """Return the wall-clock instant."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds on a clock that never steps."""
        return time.monotonic()


def run(settings: Settings, *, config_file: Path | None, sim: bool) -> int:
    """Run until told to stop; return the exit code. Raises ConfigError on bad input."""
    configure("INFO", sys.stderr)
    state_dir = resolve_state_dir(settings, os.environ).absolute()
    make_state_dir(state_dir)
    raise_limit()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    with daemon_lock(state_dir):
        clock = SystemClock()
        loaded = LoadedSettings(settings, config_file)
        read = partial(read_blueprint, loaded, state_dir, clock, sim=sim)
        blueprint = read()
        for lint in blueprint.out_of_order:
            log.warning("%s", lint.found)
        manager = service_manager(os.environ)
        told, code = uvloop.run(_serve(blueprint, read, manager, clock))
    if told is signal.SIGHUP:
        execute_anew(sys.orig_argv)
    return code


def down(settings: Settings) -> int:
    """Stop daemon, gateways and workers of a state folder; return the exit code."""
    configure("INFO", sys.stderr)
    clock = SystemClock()
    state_dir = resolve_state_dir(settings, os.environ).absolute()
    if not state_dir.exists():
        sys.stdout.write(f"nothing runs: there is no state folder {state_dir}\n")
        return 0
    pid = running_daemon(state_dir)
    if pid is not None:
        sys.stdout.write(f"daemon {pid}: draining the gateway, stopping the workers …\n")
        end_daemon(pid, state_dir, settings, clock)
    with daemon_lock(state_dir):
        left = asyncio.run(stop_units(state_dir, settings, clock))
        (state_dir / CONTROL_SOCKET).unlink(missing_ok=True)
    sys.stdout.write("".join(f"{line}\n" for line in left or ("everything is stopped",)))
    return 1 if left else 0


async def _serve(
    blueprint: Blueprint, read: Callable[[], Blueprint], manager: ServiceManager, clock: Clock
) -> tuple[signal.Signals, int]:
    """Serve until a signal: lead, or stand by until the lease falls to us, and so on.

    Returns the signal and the exit code.
    """
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[signal.Signals] = loop.create_future()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _told_to_stop, stop, number)
    async with AsyncExitStack() as stack:
        held = await _lease(blueprint, clock, stack)
        turn = Turn(held.leadership if held is not None else None)
        await turn.choose()
        while (ended := await _take_turn(blueprint, manager, clock, turn, held, stop)) is None:
            await turn.choose()
            blueprint = read()
        return ended


async def _lease(blueprint: Blueprint, clock: Clock, stack: AsyncExitStack) -> Held | None:
    """Open the lease, where the database is one that several daemons may share."""
    settings, state_dir = blueprint.settings, blueprint.state_dir
    if settings.store.url is None:
        return None
    history = place_of(settings.store, state_dir, Which.STATE)
    return await open_lease(history, settings, replica_id(state_dir), clock, stack)


async def _take_turn(
    blueprint: Blueprint,
    manager: ServiceManager,
    clock: Clock,
    turn: Turn,
    held: Held | None,
    stop: asyncio.Future[signal.Signals],
) -> tuple[signal.Signals, int] | None:
    """Lead or stand by; return the signal and the exit code, or None when the turn is over.

    Put the parts together, run them, take them down as the end of it says.
    """
    async with turn, AsyncExitStack() as stack:
        daemon = await _assemble(blueprint, clock, manager, stack, turn=turn, held=held)
        turn.is_well = daemon.is_ticking
        gc.freeze()
        reload = Reload(
            lambda: faults_of(blueprint.file, sim=blueprint.sim),
            daemon.note,
            lambda: _told_to_stop(stop, signal.SIGHUP),
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload.ask)
        manager.ready()
        told = await turn.run(daemon, stop)
        if told is None:
            return None
        (manager.reloading if told is signal.SIGHUP else manager.stopping)()
        if told is signal.SIGINT:
            is_clean = not turn.leads or await daemon.stop_everything()
            await turn.release()
            return told, 0 if is_clean else 1
        await daemon.leave()
        return told, 0


def _told_to_stop(stop: asyncio.Future[signal.Signals], number: signal.Signals) -> None:
    if not stop.done():
        stop.set_result(number)


async def _assemble(
    blueprint: Blueprint,
    clock: Clock,
    manager: ServiceManager,
    stack: AsyncExitStack,
    *,
    turn: Turn,
    held: Held | None,
) -> Daemon:
    """Build every part in the order in which they need each other.

    On standby the same parts are built; those that act are not begun, and see what is stored.
    """
    settings, state_dir = blueprint.settings, blueprint.state_dir
    fence = held.fence if held is not None else None
    leads = turn.leads
    stores = await open_stores(blueprint, clock, stack, fence=fence, leads=leads)
    state = stores.state

    client_of = await stack.enter_async_context(
        WorkerClients(generation_timeout_seconds=settings.fleet.canary_timeout_seconds)
    )
    table = ProcessTable(state_dir, clock)
    fleet = last_fleet(state_dir, running_pids(state_dir, table))
    board, keys = await _board(stores, blueprint, fleet, clock, stack, leads=leads)
    telemetry = Telemetry()
    telemetry.process.leader.set_function(lambda: float(turn.may_act()))
    dispatcher = Dispatcher(
        state, await _channel(settings, clock, stack), metrics=telemetry.process, clock=clock
    )
    wake = asyncio.Event()
    desk = _gpu_desk(blueprint, GpuJournal(state, telemetry.process, clock), clock, stack)
    backend = await open_backend(settings.fleet, _local_place(blueprint, desk), table, clock, stack)
    supervisor = _supervisor(
        blueprint,
        backend,
        WorkerJournal(state, wake=wake, clock=clock),
        start_times=learned(await state.start_times()),
        ladders=Ladders(
            kept_ladders(await state.kept_values()),
            StateLadders(state, clock),
            clock,
            good_seconds=settings.care.memory_good_seconds,
        ),
        client_of=client_of,
        clock=clock,
        kind=Supervisor if leads else WatchedFleet,
    )
    starts = await _start_check(blueprint, supervisor, state, clock)
    wishes = PersonWishes(supervisor, state, clock, await state.worker_wishes())
    acting = await open_acting(
        blueprint,
        stores,
        board,
        supervisor,
        metrics=telemetry.process,
        clock=clock,
        turn=turn,
        wake=wake.set,
    )
    began_at = acting.look.installed_at
    pool = WarmPool(supervisor, state, warm_settings(settings.fleet, began_at), clock)
    provision = provisioning(
        blueprint, supervisor, state, await state.kept_values(), clock, began_at=began_at
    )
    tallies = Tallies()
    keeper = GatewayKeeper(table, settings.gateway, state_dir, clock)
    discovery = await stack.enter_async_context(
        Discovery(blueprint.scrape.groups, telemetry.process)
    )
    parts = Parts(
        supervisor=supervisor,
        discovery=discovery,
        scraper=await stack.enter_async_context(_scraper(blueprint, stores.samples, clock)),
        gpus=blueprint.gpus,
        board=board,
        samples=stores.samples,
        state=state,
        live=stores.live,
        rules=blueprint.rules,
        policy=blueprint.policy,
        runner=acting.runner,
        dispatcher=dispatcher,
        telemetry=telemetry,
        pool=pool,
        provision=provision,
        steering=acting.steering,
        spools=_spools(stores, state_dir, held, leads=leads),
        rounds=open_rounds(
            blueprint.remote, settings, blueprint.rules, stack, wake=wake, clock=clock
        ),
        tallies=tallies,
        external=ExternalAlerts(
            state,
            (await state.kept_values()).get(KEPT),
            clock,
            fresh_seconds=settings.notify.alertmanager.fresh_seconds,
        ),
        keys=keys,
        may_act=turn.may_act,
    )
    known = acting.look.known = await known_from(stores, fleet, clock, budgets=budgets_of(settings))
    known.start_doubts = starts.doubts
    sight = Sight(
        supervisor, known, tallies, blueprint.fleet_files, rolling_rules(settings.fleet), clock
    )
    rolling = RollingRun(sight, state, wake=wake)
    standing = Standing(leads=leads)
    place = _place(blueprint, clock, standing)
    engine = _engine(blueprint, parts, known, held, standing, wake=wake, clock=clock)

    listener = _listener(settings.admin)
    stack.callback(listener.close)
    if leads:
        # Gateways come up, or come back, while the memory fills; the first tick waits for neither.
        await _start_gateways(keeper, settings)
        await _begin(blueprint, parts, wishes, rolling, fleet)
    await remember(stores, blueprint.rules, clock)
    await engine.beat()
    daemon = Daemon(
        engine=engine,
        discovery=discovery,
        runner=acting.runner,
        dispatcher=dispatcher,
        supervisor=supervisor,
        wishes=wishes,
        keys=keys,
        commands=CommandRun(
            state,
            SilenceDesk(state.desk, known, clock),
            wake=engine.wake,
            clock=clock,
            carry=acting.orders.carry(),
        ),
        starts=starts,
        own_books=OwnBooks(client_of.own_use, supervisor, state, clock),
        rolling=rolling,
        keeper=keeper,
        board=board,
        state=state,
        place=place,
        manager=manager,
        clock=clock,
    )
    if leads:
        told = (held.message if held else "", trial_told(began_at, clock.now()))
        await state.add_audit(started(clock, stores.restored, "; ".join(filter(None, told))))
    # What goes beside the ticks takes a while to load: the rules are evaluated before.
    module: Any = importlib.import_module("ds4watch.daemon_beside")
    beside: _BesideModule = module
    await beside.open_beside(
        daemon, blueprint, parts, stores, listener=listener, client_of=client_of, stack=stack
    )
    return daemon


def _listener(admin: AdminSettings) -> socket.socket:
    """Return the admin API's socket; what it would be served with is looked at, too."""
    read_tls(admin.tls_certificate, admin.tls_key, setting="admin")
    return bind(admin.host, admin.port, setting="admin")


def _scraper(blueprint: Blueprint, samples: SampleStore, clock: Clock) -> Scraper:
    scrape = blueprint.settings.scrape
    return Scraper(
        blueprint.scrape.options,
        interval_seconds=scrape.interval_seconds,
        concurrency=scrape.concurrency,
        reader=PageReader(samples),
        clock=clock,
    )


async def _begin(
    blueprint: Blueprint,
    parts: Parts,
    wishes: PersonWishes,
    rolling: RollingRun,
    fleet: FleetSnapshot,
) -> None:
    """Begin to tend the workers, from how the last daemon left them."""
    await wishes.tell()
    specs = await rolling.restore(blueprint.specs)
    await rolling.foretell()
    await parts.pool.begin(specs, fleet)
    await parts.supervisor.start(specs, fleet)
    await rolling.tell()


async def _board(
    stores: Stores,
    blueprint: Blueprint,
    fleet: FleetSnapshot,
    clock: Clock,
    stack: AsyncExitStack,
    *,
    leads: bool,
) -> tuple[BoardPublisher, ApiKeys]:
    """Open the way to the gateways, with the policy, the fleet and the keys as they were last."""
    state_dir = blueprint.state_dir
    stored_keys = await stores.state.keys()
    if stores.state.set_aside is not None and not stored_keys:
        stored_keys = recovered(last_keys(state_dir))
    kind = BoardPublisher if leads else SilentBoard
    board = await stack.enter_async_context(
        kind(
            state_dir,
            clock,
            policy=last_policy(state_dir, stores.restored.policy),
            fleet=fleet,
            keys=tuple(board_keys(stored_keys, clock.now())),
        )
    )
    gentle = gentle_levels(blueprint.settings, blueprint.policy)
    keys = ApiKeys(stored_keys, stores.state, board, clock, gentle=gentle)
    await keys.refresh()
    return board, keys


def _spools(stores: Stores, state_dir: Path, held: Held | None, *, leads: bool) -> Spools:
    """Return our gateways' spools. Who does not lead reads none: they keep until it does."""
    folder, offsets = state_dir / "spool", stores.restored.spool_offsets
    if not leads:
        return Spools(folder / "none", stores.state, {})
    return Spools(folder, stores.state, offsets, owner=held.spool_owner if held else "")


def _engine(
    blueprint: Blueprint,
    parts: Parts,
    known: Known,
    held: Held | None,
    standing: Standing,
    *,
    wake: asyncio.Event,
    clock: Clock,
) -> Engine:
    settings = _engine_settings(blueprint)
    fleet, board = parts.supervisor, parts.board
    if held is None or not isinstance(fleet, WatchedFleet) or not isinstance(board, SilentBoard):
        return Engine(parts, settings, known, wake=wake, clock=clock)
    watched = Watched(held, standing, fleet, board)
    return StandbyEngine(parts, settings, known, watched, wake=wake, clock=clock)


def _place(blueprint: Blueprint, clock: Clock, standing: Standing) -> Place:
    settings = blueprint.settings
    return Place(
        state_dir=blueprint.state_dir,
        store=store_label(settings.store, blueprint.state_dir),
        started_at=clock.now(),
        admin_url=f"{settings.admin.scheme}://{settings.admin.host}:{settings.admin.port}",
        gateway_url=f"http://{settings.gateway.host}:{settings.gateway.port}",
        admin=settings.admin,
        currency=settings.cost.currency,
        standing=standing,
    )


class _BesideModule(Protocol):
    """What is used of `ds4watch.daemon_beside`."""

    async def open_beside(
        self,
        daemon: Daemon,
        blueprint: Blueprint,
        parts: Parts,
        stores: Stores,
        *,
        listener: socket.socket,
        client_of: WorkerClients,
        stack: AsyncExitStack,
    ) -> None:
        """Serve the admin API and start the jobs."""
        ...


def _gpu_desk(
    blueprint: Blueprint, journal: GpuJournal, clock: Clock, stack: AsyncExitStack
) -> GpuDesk:
    """Return who gives GPUs to workers, with an eye of its own: a tick's look is never late."""
    watch = GpuWatch(GpuReader(clock, with_holders=True), patience_seconds=_GPU_SECONDS)
    stack.callback(watch.close)
    desk = GpuDesk(watch, journal, has_gpu=blueprint.has_gpu, visible=own_visible())
    stack.push_async_callback(desk.close)
    return desk


def _local_place(blueprint: Blueprint, desk: GpuDesk) -> LocalPlace:
    fleet = blueprint.settings.fleet
    return LocalPlace(
        state_dir=blueprint.state_dir,
        vllm_python=blueprint.vllm_python,
        has_gpu=blueprint.has_gpu,
        gpu_fault=gpu_start_fault,
        first_port=fleet.first_port,
        stop_grace_seconds=fleet.stop_grace_seconds,
        gpus=desk,
    )


def _supervisor(
    blueprint: Blueprint,
    backend: Backend,
    journal: WorkerJournal,
    *,
    start_times: StartTimes,
    ladders: Ladders,
    client_of: WorkerClients,
    clock: Clock,
    kind: type[Supervisor],
) -> Supervisor:
    fleet, scrape = blueprint.settings.fleet, blueprint.settings.scrape
    limits = LifeLimits(
        start_timeout_seconds=fleet.start_timeout_seconds,
        canary_interval_seconds=fleet.canary_interval_seconds,
        backoff_seconds=fleet.restart_backoff_seconds,
        backoff_max_seconds=fleet.restart_backoff_max_seconds,
        drain_seconds=fleet.drain_seconds,
        quarantine_after=fleet.quarantine_after,
        quarantine_window_seconds=fleet.quarantine_window_seconds,
        stall_floor_seconds=stall_floor_seconds(scrape.interval_seconds, scrape.timeout_seconds),
    )
    return kind(
        backend,
        client_of,
        limits=limits,
        journal=journal,
        clock=clock,
        start_times=start_times,
        ladders=ladders,
    )


async def _start_check(
    blueprint: Blueprint, supervisor: Supervisor, state: StateStore, clock: Clock
) -> StartCheck:
    """Return who knows what profiles gave before, and let it judge workers, if that is wanted."""
    settings = blueprint.settings
    starts = StartCheck(
        await state.kept_values(),
        state,
        clock,
        is_missed=lambda profile: is_missed(supervisor.views(), profile, settings.fleet.min_hot),
        device=lambda: gpu_model(blueprint.gpus.last),
    )
    if settings.quality.start_check:
        supervisor.vet_by(starts)
    return starts


async def _channel(settings: Settings, clock: Clock, stack: AsyncExitStack) -> Channel:
    notify = settings.notify
    if notify.webhook_url is None:
        return Journal()
    module: Any = importlib.import_module("ds4watch.notify.webhook")
    session = await stack.enter_async_context(module.open_session())
    secret = secret_of(notify.webhook_secret, notify.webhook_secret_file)
    return cast(
        "Channel", module.Webhook(session, notify.webhook_url, secret=secret, now=clock.now)
    )


def _engine_settings(blueprint: Blueprint) -> EngineSettings:
    settings = blueprint.settings
    return EngineSettings(
        interval_seconds=settings.scrape.interval_seconds,
        currency=settings.cost.currency,
        prices=blueprint.prices,
        quality_max_age_seconds=settings.quality.max_age_seconds,
        slo_seconds=settings.quality.slo_seconds,
        golden_max_age_seconds=settings.quality.golden_max_age_seconds,
    )


async def _start_gateways(keeper: GatewayKeeper, settings: Settings) -> None:
    """Adopt or start the gateways. Raises ConfigError if the port is taken."""
    adopted = await keeper.adopt()
    if not adopted and settings.gateway.run_by is RunBy.DAEMON:
        bind(settings.gateway.host, settings.gateway.port, setting="gateway").close()
    keeper.start_missing()
