"""Case 74: a GPU that no new engine can use stops starts, and nothing else."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from ds4watch.config.profile import Engine, Profile
from ds4watch.fleet.backend import LocalBackend, LocalPlace
from ds4watch.fleet.client import WorkerClient
from ds4watch.fleet.life import LifeLimits
from ds4watch.fleet.process import ProcessTable
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView
from tests.edge.clock import SystemClock

FAULT = "driver and NVML library do not match: reboot"
LIMITS = LifeLimits(
    start_timeout_seconds=30,
    canary_interval_seconds=30,
    backoff_seconds=0.1,
    backoff_max_seconds=0.1,
)


class Driver:
    """The machine's driver, which can be mended."""

    fault = FAULT

    async def no_start(self) -> str:
        return self.fault


class Journal:
    """Hands on each change of a phase."""

    def __init__(self) -> None:
        self.changes: asyncio.Queue[WorkerView] = asyncio.Queue()

    async def worker_changed(self, view: WorkerView, old: WorkerPhase) -> None:
        assert old is not view.phase
        await self.changes.put(view)

    async def worker_came_up(self, view: WorkerView, took_seconds: float) -> None:
        assert view.phase is WorkerPhase.READY
        assert took_seconds >= 0


def spec(engine: Engine) -> WorkerSpec:
    profile = Profile(name=engine.value, engine=engine, served_names=("m",), model="m")
    return WorkerSpec(f"{engine.value}-0", profile)


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def backend(tmp_path: Path, driver: Driver) -> LocalBackend:
    return backend_of(tmp_path, driver, has_gpu=True)


def backend_of(folder: Path, driver: Driver, *, has_gpu: bool) -> LocalBackend:
    place = LocalPlace(
        state_dir=folder,
        vllm_python=Path(sys.executable),
        has_gpu=has_gpu,
        first_port=20_000,
        stop_grace_seconds=1.0,
        gpu_fault=driver.no_start,
    )
    return LocalBackend(place, ProcessTable(folder, SystemClock()), SystemClock())


@pytest.fixture
async def supervisor(backend: LocalBackend, journal: Journal) -> AsyncIterator[Supervisor]:
    async with aiohttp.ClientSession() as session:
        supervisor = Supervisor(
            backend,
            lambda url: WorkerClient(session, url),
            limits=LIMITS,
            journal=journal,
            clock=SystemClock(),
        )
        yield supervisor
        await supervisor.stop()


async def test_no_engine_is_started_and_its_state_says_why_until_the_driver_is_mended(
    supervisor: Supervisor, journal: Journal, driver: Driver
) -> None:
    await supervisor.start([spec(Engine.VLLM)], FleetSnapshot(at=0.0))
    async with asyncio.timeout(10):
        refused = await journal.changes.get()
        assert refused.phase is WorkerPhase.FAILED
        assert refused.reason == f"not started: {FAULT}"
        assert refused.pid is None
        driver.fault = ""
        assert (await journal.changes.get()).phase is WorkerPhase.STARTING


async def test_a_simulated_worker_needs_no_driver(backend: LocalBackend) -> None:
    simulated = spec(Engine.SIM)
    await backend.start(simulated)
    assert backend.pid(simulated)
    await backend.stop(simulated)


async def test_a_worker_on_the_cpu_needs_no_driver(tmp_path: Path, driver: Driver) -> None:
    backend = backend_of(tmp_path, driver, has_gpu=False)
    on_cpu = spec(Engine.VLLM)
    await backend.start(on_cpu)
    assert backend.pid(on_cpu)
    await backend.stop(on_cpu)
