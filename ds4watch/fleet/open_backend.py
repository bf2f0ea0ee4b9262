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
from ds4watch.fleet.process import ProcessTable
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
    if fleet.backend is not BackendKind.LOCAL:
        await LocalBackend(place, table, clock).adopt(())
    if fleet.backend is not BackendKind.SYSTEMD and any(UnitRecords(place.state_dir).all()):
        await (await _systemd(fleet, place, clock, stack)).adopt(())
    if fleet.backend is BackendKind.SYSTEMD:
        return await _systemd(fleet, place, clock, stack)
    if fleet.backend is BackendKind.RAY:
        return await _ray(fleet, place, clock, stack)
    return LocalBackend(place, table, clock)


def running_pids(state_dir: Path, table: ProcessTable) -> set[int]:
    """Return the processes of this machine that an earlier daemon started and that still run."""
    processes = [*table.records(), *(unit.process() for unit in UnitRecords(state_dir).all())]
    return {record.pid for record in processes if record.is_alive()}


async def _systemd(
    fleet: FleetSettings, place: LocalPlace, clock: Clock, stack: AsyncExitStack
) -> Backend:
    bus: Any = importlib.import_module("ds4watch.fleet.systemd_bus")
    systemd: Any = importlib.import_module("ds4watch.fleet.systemd")
    manager = bus.Manager(is_system=systemd.is_system(fleet.systemd))
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
