"""The one place that puts the parts together, in a straight line."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol, cast

from ds4watch.config.settings import Settings
from ds4watch.daemon_fleet import (
    admin_listener,
    gpu_desk,
    local_place,
    new_scraper,
    new_supervisor,
    start_check,
    start_gateways,
)
from ds4watch.engine.api_keys import ApiKeys, board_keys, recovered
from ds4watch.engine.blueprint import Blueprint
from ds4watch.engine.command_run import CommandRun
from ds4watch.engine.cost_plan import budgets_of, gentle_levels
from ds4watch.engine.external_alerts import KEPT, ExternalAlerts
from ds4watch.engine.gpu_journal import GpuJournal
from ds4watch.engine.installed import trial_told
from ds4watch.engine.ladder_journal import StateLadders, kept_ladders
from ds4watch.engine.model_easing import ModelEasing
from ds4watch.engine.own_books import OwnBooks
from ds4watch.engine.parts import EngineSettings, Known, Parts
from ds4watch.engine.person_wishes import PersonWishes, learned
from ds4watch.engine.place import Place, Standing
from ds4watch.engine.provision_setup import provisioning
from ds4watch.engine.remote_source import open_rounds
from ds4watch.engine.replica import Held
from ds4watch.engine.restart import Stores, known_from, open_stores, remember, started
from ds4watch.engine.rolling_run import RollingRun
from ds4watch.engine.rolling_view import Sight, rolling_rules
from ds4watch.engine.running import Daemon
from ds4watch.engine.silence_desk import SilenceDesk
from ds4watch.engine.spool import Spools
from ds4watch.engine.standby import StandbyEngine, Watched
from ds4watch.engine.steering_setup import open_acting
from ds4watch.engine.tallies import Tallies
from ds4watch.engine.tick import Engine
from ds4watch.engine.turn import Turn
from ds4watch.engine.warm_pool import WarmPool, warm_settings
from ds4watch.engine.worker_journal import WorkerJournal
from ds4watch.fleet.board import BoardPublisher, last_fleet, last_keys, last_policy
from ds4watch.fleet.clients import WorkerClients
from ds4watch.fleet.gateways import GatewayKeeper
from ds4watch.fleet.ladders import Ladders
from ds4watch.fleet.open_backend import open_backend, running_pids
from ds4watch.fleet.process import ProcessTable
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.fleet.watched import SilentBoard, WatchedFleet
from ds4watch.fleet.worker_keys import WorkerKeys
from ds4watch.history.place import store_label
from ds4watch.model.ports import Clock
from ds4watch.model.worker import FleetSnapshot
from ds4watch.notify.dispatcher import Channel, Dispatcher
from ds4watch.notify.journal import Journal
from ds4watch.notify.secret import secret_of
from ds4watch.policy.pools import with_pools
from ds4watch.scrape.discovery import Discovery
from ds4watch.telemetry.metrics import Telemetry
from ds4watch.telemetry.service_manager import ServiceManager
from ds4watch.web.kept_listener import KeptListener

log = logging.getLogger(__name__)


async def assemble(
    blueprint: Blueprint,
    clock: Clock,
    manager: ServiceManager,
    stack: AsyncExitStack,
    *,
    turn: Turn,
    held: Held | None,
    kept_listener: KeptListener,
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
        WorkerClients(
            generation_timeout_seconds=settings.fleet.canary_timeout_seconds,
            keys=WorkerKeys(state_dir, os.environ),
        )
    )
    table = ProcessTable(state_dir, clock)
    fleet = last_fleet(state_dir, running_pids(state_dir, table))
    board, keys, models = await _board(stores, blueprint, fleet, clock, stack, leads=leads)
    telemetry = Telemetry()
    telemetry.process.leader.set_function(lambda: float(turn.may_act()))
    dispatcher = Dispatcher(
        state, await _channel(settings, clock, stack), metrics=telemetry.process, clock=clock
    )
    wake = asyncio.Event()
    desk = gpu_desk(blueprint, GpuJournal(state, telemetry.process, clock), clock, stack)
    backend = await open_backend(settings.fleet, local_place(blueprint, desk), table, clock, stack)
    supervisor = new_supervisor(
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
    starts = await start_check(blueprint, supervisor, state, clock)
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
        scraper=await stack.enter_async_context(new_scraper(blueprint, stores.samples, clock)),
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
            metrics=telemetry.process,
        ),
        keys=keys,
        models=models,
        may_act=turn.may_act,
    )
    known = acting.look.known = await known_from(stores, fleet, clock, budgets=budgets_of(settings))
    known.start_doubts = starts.doubts
    keys.set_apart = known.budgets.of_keys
    models.standings = known.budgets.of_models
    sight = Sight(
        supervisor,
        known,
        tallies,
        blueprint.fleet_files,
        rolling_rules(settings.fleet),
        clock,
        client_of.lag,
    )
    rolling = RollingRun(sight, state, wake=wake)
    standing = Standing(leads=leads)
    place = _place(blueprint, clock, standing)
    engine = _engine(blueprint, parts, known, held, standing, wake=wake, clock=clock)

    listener = admin_listener(settings.admin, kept_listener)
    stack.callback(listener.close)
    if leads:
        # Gateways come up, or come back, while the memory fills; the first tick waits for neither.
        await start_gateways(keeper, settings)
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
        models=models,
        commands=CommandRun(
            state,
            SilenceDesk(state.desk, known, clock),
            wake=engine.wake,
            clock=clock,
            carry=acting.orders.carry(),
        ),
        starts=starts,
        own_books=OwnBooks(client_of.own_use, supervisor, state.ledger, clock),
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
) -> tuple[BoardPublisher, ApiKeys, ModelEasing]:
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
            policy=with_pools(last_policy(state_dir, stores.restored.policy), blueprint.policy),
            fleet=fleet,
            keys=tuple(board_keys(stored_keys, clock.now())),
        )
    )
    gentle = gentle_levels(blueprint.settings, blueprint.policy)
    keys = ApiKeys(stored_keys, stores.state, board, clock, gentle=gentle)
    await keys.refresh()
    return board, keys, ModelEasing(board, clock, gentle=gentle)


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
