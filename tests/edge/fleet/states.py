"""A fleet with a worker in every state at once; as a program, a daemon that is killed just then."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp

from ds4watch.config.profile import Engine, Profile
from ds4watch.fleet import enter
from ds4watch.fleet.backend import LocalBackend
from ds4watch.fleet.client import WorkerClient
from ds4watch.fleet.command import HOST
from ds4watch.fleet.life import LifeLimits
from ds4watch.fleet.process import ProcessTable
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.fleet.wish import By, Wanted, Wish
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView
from tests.conftest import ROOT
from tests.edge.clock import SystemClock
from tests.edge.fleet.fleets import place_of, port_of, processes_with

PATIENCE_SECONDS = 40.0
LIMITS = LifeLimits(
    start_timeout_seconds=30,
    canary_interval_seconds=1,
    backoff_seconds=0.1,
    backoff_max_seconds=0.2,
    drain_seconds=0.7,
    quarantine_after=10_000,
    can_sleep=True,
)
ARGUMENTS = {
    WorkerPhase.STARTING: (),
    WorkerPhase.LOADING: ("--startup-seconds=3",),
    WorkerPhase.WARMING: ("--first-request-seconds=3",),
    WorkerPhase.READY: (),
    WorkerPhase.ASLEEP: ("--dev-mode",),
    WorkerPhase.DRAINING: (),
    WorkerPhase.STOPPING: ("--shutdown-timeout=60",),
}
"""The states that a process has, and what keeps a worker in each for a while."""

LATER = (WorkerPhase.STARTING, WorkerPhase.LOADING, WorkerPhase.WARMING)
STOPPED = Wanted(Wish.STOPPED)


def spec_of(name: str, tag: str, *arguments: str) -> WorkerSpec:
    """Return a simulated worker whose processes are found by its name and a tag."""
    profile = Profile(
        name="sim",
        engine=Engine.SIM,
        served_names=(f"{name}@{tag}@",),
        max_model_len=8192,
        engine_args=arguments,
        environment={"PYTHONPATH": str(ROOT)},
    )
    return WorkerSpec(name, profile)


def all_specs(tag: str) -> list[WorkerSpec]:
    """Return one worker for each state, called by it."""
    return [spec_of(phase.value, tag, *more) for phase, more in ARGUMENTS.items()]


def wishes(restart_at: float) -> dict[str, Wanted]:
    """Return what each worker is to be in the end: ready, if it is not named."""
    return {
        WorkerPhase.ASLEEP.value: Wanted(Wish.ASLEEP),
        WorkerPhase.STOPPING.value: STOPPED,
        WorkerPhase.DRAINING.value: Wanted(None, restart_at=restart_at),
    }


GOALS = dict.fromkeys(ARGUMENTS, WorkerPhase.READY) | {
    WorkerPhase.ASLEEP: WorkerPhase.ASLEEP,
    WorkerPhase.STOPPING: WorkerPhase.ABSENT,
}
"""Where each worker is to be in the end."""


class Story:
    """Passes on every change of phase before anything else is done."""

    def __init__(self, heard: Callable[[WorkerView], None]) -> None:
        self._heard = heard

    async def worker_changed(self, view: WorkerView, old: WorkerPhase) -> None:
        assert old is not view.phase
        self._heard(view)

    async def worker_came_up(self, view: WorkerView, took_seconds: float) -> None:
        assert view.phase is WorkerPhase.READY
        assert took_seconds > 0


class Daemon:
    """What of a daemon tends the workers of a folder."""

    def __init__(
        self,
        state_dir: Path,
        first_port: int,
        session: aiohttp.ClientSession,
        heard: Callable[[WorkerView], None] = lambda _: None,
    ) -> None:
        self.tag = str(first_port)
        self.run_dir = state_dir / "run"
        self.session = session
        self.story = Story(heard)
        self.table = ProcessTable(state_dir, SystemClock())
        place = replace(place_of(state_dir, first_port), stop_grace_seconds=8.0)
        self.backend = LocalBackend(place, self.table, SystemClock())
        self.supervisor = Supervisor(
            self.backend,
            lambda url: WorkerClient(session, url, generation_timeout_seconds=10),
            limits=LIMITS,
            journal=self.story,
            clock=SystemClock(),
            look_seconds=0.1,
        )
        self.ports: set[int] = set()
        """Every port that a worker ever had."""

    def views(self) -> Mapping[str, WorkerView]:
        views = {view.id: view for view in self.supervisor.views()}
        self.ports |= {port_of(view.url) for view in views.values() if view.url}
        return views

    async def until(self, reached: Callable[[Mapping[str, WorkerView]], bool]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not reached(self.views()):  # reasons change without an event
                    await asyncio.sleep(0.05)
        except TimeoutError:
            told = [(it.id, it.phase.value, it.reason) for it in self.views().values()]
            raise AssertionError(told) from None

    async def until_each_is(self, phases: Mapping[WorkerPhase, WorkerPhase]) -> None:
        """Wait until the workers that are called by these states are in those."""
        await self.until(
            lambda views: all(views[name.value].phase is it for name, it in phases.items())
        )

    async def start(self, specs: Sequence[WorkerSpec]) -> None:
        await self.supervisor.start(specs, FleetSnapshot(at=0.0))

    async def wish(self, wanted: Mapping[str, Wanted]) -> None:
        await self.supervisor.wish(By.PERSON, wanted)

    def assert_one_process_each(self) -> None:
        """Each worker that is up has one process and its port; nothing else is there."""
        views = self.views()
        running = {
            name: [view.pid] for name, view in views.items() if view.phase is not WorkerPhase.ABSENT
        }
        found = {name: processes_with(f"{name}@{self.tag}@") for name in views}
        assert {name: pids for name, pids in found.items() if pids} == running
        kept = {f"worker-{name}.{kind}" for name in running for kind in ("json", "lock")}
        assert {path.name for path in self.run_dir.iterdir()} == kept
        self.assert_ports_free(
            self.ports - {port_of(view.url) for view in views.values() if view.url}
        )

    def assert_ports_free(self, ports: set[int]) -> None:
        for port in ports:
            held = enter.hold(port)
            assert held is not None, port
            held.close()
            assert enter.is_free(HOST, port), port

    async def stop(self) -> None:
        """Stop all, and see that nothing is left."""
        self.views()
        assert await self.supervisor.stop()
        assert not processes_with(f"@{self.tag}@")
        assert not list(self.run_dir.iterdir())
        self.assert_ports_free(self.ports)


@asynccontextmanager
async def stuck_request(daemon: Daemon, name: str) -> AsyncIterator[None]:
    """Keep a long answer open, which a worker that stops waits for."""
    view = daemon.views()[name]
    body = {
        "model": view.models[0],
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 8000,
        "ignore_eos": True,
        "stream": True,
    }
    url = f"{view.url}/v1/chat/completions"
    async with daemon.session.post(url, json=body) as answer:
        assert answer.status == 200, await answer.text()
        assert await answer.content.readline()
        yield


@asynccontextmanager
async def in_every_state(daemon: Daemon) -> AsyncIterator[float]:
    """Start all workers and bring each but the one called `starting` where its name says.

    Yields the instant of the restart that is wished. The last is started within the next look.
    """
    first = {phase.value: STOPPED for phase in LATER}
    await daemon.wish(first)
    await daemon.start(all_specs(daemon.tag))
    await daemon.until_each_is({it: WorkerPhase.READY for it in ARGUMENTS if it not in LATER})
    stopping, asleep = WorkerPhase.STOPPING, WorkerPhase.ASLEEP
    async with stuck_request(daemon, stopping.value):
        going = {asleep.value: Wanted(Wish.ASLEEP), stopping.value: STOPPED}
        await daemon.wish(first | going)
        await daemon.until_each_is({it: it for it in (asleep, stopping)})
        await daemon.wish(going | {WorkerPhase.STARTING.value: STOPPED})
        await daemon.until_each_is({it: it for it in (WorkerPhase.LOADING, WorkerPhase.WARMING)})
        restart_at = SystemClock().now()
        await daemon.wish(wishes(restart_at))
        yield restart_at


async def _die_in_every_state(state_dir: Path, first_port: int) -> None:
    restart_at = 0.0

    def heard(view: WorkerView) -> None:
        if view.phase.value == view.id == WorkerPhase.STARTING:
            states = {name: it.phase.value for name, it in daemon.views().items()}
            told = {"states": states, "ports": sorted(daemon.ports), "restart_at": restart_at}
            sys.stdout.write(json.dumps(told))
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    async with aiohttp.ClientSession() as session:
        daemon = Daemon(state_dir, first_port, session, heard)
        async with in_every_state(daemon) as restart_at:
            await asyncio.sleep(PATIENCE_SECONDS)


if __name__ == "__main__":
    asyncio.run(_die_in_every_state(Path(sys.argv[1]), int(sys.argv[2])))
