"""Fleets of simulated workers, one for each backend; what the contract test runs over."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

import aiohttp

from ds4watch.config.profile import Engine, Profile
from ds4watch.config.settings import Bus, RaySettings, SystemdSettings
from ds4watch.fleet.backend import LocalBackend, LocalPlace
from ds4watch.fleet.backends import Backend
from ds4watch.fleet.process import ProcessTable
from ds4watch.fleet.ray import RayBackend, RayPlace
from ds4watch.fleet.ray_jobs import RayJobs
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.systemd import SystemdBackend
from ds4watch.fleet.systemd_bus import Manager
from tests.conftest import ROOT
from tests.edge.clock import SystemClock

GRACE_SECONDS = 5.0
PATIENCE_SECONDS = 30.0


class Fleet(Protocol):
    """One state folder. `daemon` returns a backend as a new daemon would make it."""

    async def daemon(self) -> Backend: ...


async def no_fault() -> str:
    return ""


def place_of(state_dir: Path, first_port: int) -> LocalPlace:
    return LocalPlace(
        state_dir=state_dir,
        vllm_python=Path("/nowhere/python"),
        has_gpu=False,
        first_port=first_port,
        stop_grace_seconds=GRACE_SECONDS,
        gpu_fault=no_fault,
    )


class LocalFleet:
    """Keeps the tables of earlier daemons: in a test their children are still its own."""

    def __init__(self, place: LocalPlace) -> None:
        self._place = place
        self.tables: list[ProcessTable] = []

    async def daemon(self) -> LocalBackend:
        self.tables.append(ProcessTable(self._place.state_dir, SystemClock()))
        return LocalBackend(self._place, self.tables[-1], SystemClock())

    def reap(self) -> None:
        for table in self.tables:
            table._reap()


class SystemdFleet:
    def __init__(
        self, state_dir: Path, first_port: int, address: str, stack: AsyncExitStack
    ) -> None:
        self._place = place_of(state_dir, first_port)
        self._address = address
        self._stack = stack

    async def daemon(self) -> SystemdBackend:
        manager = Manager(is_system=False, address=self._address)
        self._stack.callback(manager.close)
        settings = SystemdSettings(bus=Bus.USER)
        return SystemdBackend(self._place, settings, manager, SystemClock())


class RayFleet:
    def __init__(
        self,
        state_dir: Path,
        first_port: int,
        url: str,
        stack: AsyncExitStack,
        *,
        cpus: float = 0.1,
    ) -> None:
        settings = RaySettings(
            url=url, python="/nowhere/python", has_gpu=False, cpus=cpus, first_port=first_port
        )
        self._place = RayPlace(state_dir, settings, GRACE_SECONDS)
        self._stack = stack

    async def daemon(self) -> RayBackend:
        session = await self._stack.enter_async_context(aiohttp.ClientSession())
        jobs = RayJobs(session, self._place.settings.url)
        backend = RayBackend(self._place, jobs, SystemClock())
        self._stack.push_async_callback(backend.close)
        return backend


def sim(worker_id: str = "sim-0", *arguments: str) -> WorkerSpec:
    """Return a spec of a simulated worker."""
    profile = Profile(
        name="sim",
        engine=Engine.SIM,
        served_names=("sim",),
        engine_args=arguments,
        environment={"PYTHONPATH": str(ROOT)},
    )
    return WorkerSpec(worker_id, profile)


async def until(look: Callable[[], object], what: str) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not look():
                await asyncio.sleep(0.02)
            return
    raise AssertionError(f"not within {PATIENCE_SECONDS:g} s: {what}")


async def answers(url: str) -> bool:
    """Return whether a worker answers there."""
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{url}/health") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def until_up(backend: Backend, spec: WorkerSpec) -> str:
    """Wait until a worker answers; return its address."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (backend.url(spec) and await answers(backend.url(spec))):
            assert backend.is_alive(spec), read(backend.log_path(spec))
            await asyncio.sleep(0.05)
    return backend.url(spec)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else "no log"


def processes_with(text: str) -> list[int]:
    """Return the processes whose command line has a text, those that only wait aside."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if text in line and "ds4watch sim" in line:
                found.append(int(entry.name))
    return found


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@contextlib.contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """Listen on a port the way vLLM does: a second one may."""
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        thief.bind(("127.0.0.1", port))
        thief.listen()
        yield thief
