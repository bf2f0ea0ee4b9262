"""The parts of the daemon that start and tend processes, look at machines, and listen."""

from __future__ import annotations

import logging
import socket
from contextlib import AsyncExitStack

from ds4watch.config.settings import AdminSettings, RunBy, Settings
from ds4watch.engine.blueprint import Blueprint
from ds4watch.engine.cost_plan import gpu_model
from ds4watch.engine.gpu_journal import GpuJournal
from ds4watch.engine.start_check import StartCheck, is_missed
from ds4watch.engine.worker_journal import WorkerJournal
from ds4watch.fleet.backend import LocalPlace
from ds4watch.fleet.backends import Backend
from ds4watch.fleet.clients import WorkerClients
from ds4watch.fleet.gateways import GatewayKeeper
from ds4watch.fleet.gpu_desk import GpuDesk, own_visible
from ds4watch.fleet.ladders import Ladders
from ds4watch.fleet.life import LifeLimits, stall_floor_seconds
from ds4watch.fleet.start_times import StartTimes
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.history.samples import SampleStore
from ds4watch.history.state import StateStore
from ds4watch.model.ports import Clock
from ds4watch.scrape.exposition import PageReader
from ds4watch.scrape.gpu_probe import gpu_start_fault
from ds4watch.scrape.gpu_watch import GpuWatch
from ds4watch.scrape.nvml import GpuReader
from ds4watch.scrape.wave import Scraper
from ds4watch.web.kept_listener import KeptListener
from ds4watch.web.listen import bind, read_tls

log = logging.getLogger(__name__)

_GPU_SECONDS = 5.0
"""Time for NVML's answer before a worker is started."""


def gpu_desk(
    blueprint: Blueprint, journal: GpuJournal, clock: Clock, stack: AsyncExitStack
) -> GpuDesk:
    """Return who gives GPUs to workers, with an eye of its own: a tick's look is never late."""
    watch = GpuWatch(GpuReader(clock, with_holders=True), patience_seconds=_GPU_SECONDS)
    stack.callback(watch.close)
    desk = GpuDesk(watch, journal, has_gpu=blueprint.has_gpu, visible=own_visible())
    stack.push_async_callback(desk.close)
    return desk


def local_place(blueprint: Blueprint, desk: GpuDesk) -> LocalPlace:
    """Return what local workers are started with."""
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


def new_supervisor(
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
    """Return who tends the workers, within the limits of the settings."""
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
    supervisor = kind(
        backend,
        client_of,
        limits=limits,
        journal=journal,
        clock=clock,
        start_times=start_times,
        ladders=ladders,
    )
    supervisor.deeds.keys = client_of.keys
    supervisor.deeds.lag = client_of.lag
    return supervisor


async def start_check(
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
        supervisor.deeds.vetting = starts
    return starts


async def start_gateways(keeper: GatewayKeeper, settings: Settings) -> None:
    """Adopt or start the gateways. Raises ConfigError if the port is taken."""
    adopted = await keeper.adopt()
    if not adopted and settings.gateway.run_by is RunBy.DAEMON:
        bind(settings.gateway.host, settings.gateway.port, setting="gateway").close()
    keeper.start_missing()


def new_scraper(blueprint: Blueprint, samples: SampleStore, clock: Clock) -> Scraper:
    """Return who scrapes the workers and the targets of others."""
    scrape = blueprint.settings.scrape
    return Scraper(
        blueprint.scrape.options,
        interval_seconds=scrape.interval_seconds,
        concurrency=scrape.concurrency,
        reader=PageReader(samples),
        clock=clock,
    )


def admin_listener(admin: AdminSettings, kept: KeptListener) -> socket.socket:
    """Return the admin API's socket; what it would be served with is looked at, too."""
    read_tls(admin.tls_certificate, admin.tls_key, setting="admin")
    return kept.listen(admin.host, admin.port)
