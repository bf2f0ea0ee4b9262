"""The backend that the settings name. What only one of them needs is loaded with it."""

from __future__ import annotations

import importlib
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

from ds4watch.config.settings import BackendKind, FleetSettings
from ds4watch.fleet.backend import LocalBackend, LocalPlace
from ds4watch.fleet.backends import Backend
from ds4watch.fleet.process import ProcessRecord, ProcessTable
from ds4watch.fleet.unit_record import UnitRecords
from ds4watch.model.errors import ConfigError, Located, WorkerError
from ds4watch.model.ports import Clock


async def open_backend(
    fleet: FleetSettings,
    place: LocalPlace,
    table: ProcessTable,
    clock: Clock,
    stack: AsyncExitStack,
) -> Backend:
    """Return the fleet's backend. Raises ConfigError if what it needs cannot be reached.

    Workers of this state folder that another backend of this machine runs are stopped.
    """
    for other in await _others(fleet, place, table, clock, stack):
        await other.adopt(())
    return await _own(fleet, place, table, clock, stack)


async def open_all(
    fleet: FleetSettings,
    place: LocalPlace,
    table: ProcessTable,
    clock: Clock,
    stack: AsyncExitStack,
) -> tuple[Backend, ...]:
    """Return every backend that may run workers of this state folder. Raises ConfigError."""
    others = await _others(fleet, place, table, clock, stack)
    return (*others, await _own(fleet, place, table, clock, stack))


async def _others(
    fleet: FleetSettings,
    place: LocalPlace,
    table: ProcessTable,
    clock: Clock,
    stack: AsyncExitStack,
) -> list[Backend]:
    """Return the backends of this machine that the settings do not name and that have workers."""
    found: list[Backend] = []
    if fleet.backend is not BackendKind.LOCAL:
        found.append(LocalBackend(place, table, clock))
    if fleet.backend is not BackendKind.SYSTEMD and any(UnitRecords(place.state_dir).all()):
        found.append(await _systemd(fleet, place, clock, stack))
    return found


async def _own(
    fleet: FleetSettings,
    place: LocalPlace,
    table: ProcessTable,
    clock: Clock,
    stack: AsyncExitStack,
) -> Backend:
    if fleet.backend is BackendKind.SYSTEMD:
        return await _systemd(fleet, place, clock, stack)
    if fleet.backend is BackendKind.RAY:
        return await _ray(fleet, place, clock, stack)
    return LocalBackend(place, table, clock)


def running_pids(state_dir: Path, table: ProcessTable) -> set[int]:
    """Return the processes of this machine that an earlier daemon started and that still run."""
    return {record.pid for record in recorded(state_dir, table) if record.is_alive()}


def recorded(state_dir: Path, table: ProcessTable) -> tuple[ProcessRecord, ...]:
    """Return what is written down of the processes of this machine, alive or not."""
    return (*table.records(), *(unit.process() for unit in UnitRecords(state_dir).all()))


async def _systemd(
    fleet: FleetSettings, place: LocalPlace, clock: Clock, stack: AsyncExitStack
) -> Backend:
    bus: Any = importlib.import_module("ds4watch.fleet.systemd_bus")
    systemd: Any = importlib.import_module("ds4watch.fleet.systemd")
    is_system = bus.is_system(fleet.systemd, os.environ, is_root=os.geteuid() == 0)
    manager = bus.Manager(is_system=is_system)
    stack.callback(manager.close)
    try:
        await manager.units(UnitRecords(place.state_dir).pattern)
    except WorkerError as error:
        mend = "set fleet.systemd.bus to the bus of a systemd that runs, or fleet.backend: local"
        raise ConfigError(Located(str(error), field="fleet.backend", mend=mend)) from error
    return cast("Backend", systemd.SystemdBackend(place, fleet.systemd, manager, clock))


async def _ray(
    fleet: FleetSettings, place: LocalPlace, clock: Clock, stack: AsyncExitStack
) -> Backend:
    jobs_module: Any = importlib.import_module("ds4watch.fleet.ray_jobs")
    ray: Any = importlib.import_module("ds4watch.fleet.ray")
    session = await stack.enter_async_context(jobs_module.open_session())
    own = fleet.ray.token.get_secret_value() if fleet.ray.token is not None else None
    jobs = jobs_module.RayJobs(session, fleet.ray.url, own or os.environ.get("RAY_AUTH_TOKEN"))
    try:
        await jobs.jobs()
    except WorkerError as error:
        mend = "name the address of the cluster's dashboard, as http://host:8265"
        raise ConfigError(Located(str(error), field="fleet.ray.url", mend=mend)) from error
    ray_place = ray.RayPlace(place.state_dir, fleet.ray, place.stop_grace_seconds)
    backend = ray.RayBackend(ray_place, jobs, clock)
    stack.push_async_callback(backend.close)
    return cast("Backend", backend)
