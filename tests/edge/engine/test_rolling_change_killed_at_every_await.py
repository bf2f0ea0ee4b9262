"""A rolling change, killed at every await: each worker is started anew once, none is left between.

What does not die with a daemon is the world: the processes, and what they run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from ds4watch.config.profile import Engine, Profile
from ds4watch.engine.parts import Known
from ds4watch.engine.rolling_commands import RollingCommands
from ds4watch.engine.rolling_files import FleetFiles
from ds4watch.engine.rolling_run import RollingRun
from ds4watch.engine.rolling_view import Sight
from ds4watch.engine.tallies import Tallies
from ds4watch.fleet.life import LifeLimits
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.rolling import Rules
from ds4watch.fleet.rolling_plan import Slot
from ds4watch.fleet.rolling_watch import Answered
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.fleet.wish import By, Wanted
from ds4watch.history.database import Database
from ds4watch.history.state import StateStore
from ds4watch.model.worker import WorkerPhase, WorkerView
from tests.edge.engine.mortal import live

pytestmark = pytest.mark.timeout(300)

READY, STARTING, DRAINING = WorkerPhase.READY, WorkerPhase.STARTING, WorkerPhase.DRAINING
RULES = Rules(min_hot=1, settle_seconds=1, watch_seconds=2, watch_max_seconds=20, min_requests=5)
MOST_SECONDS = 120
NAMES = ("a-0", "a-1")


def fleet(revision: int) -> tuple[WorkerSpec, ...]:
    profile = Profile(name="a", engine=Engine.SIM, served_names=("m",), max_num_seqs=revision)
    return tuple(WorkerSpec(name, profile) for name in NAMES)


OLD, NEW = fleet(1), fleet(2)


@dataclass
class Process:
    spec: WorkerSpec
    started_at: float
    phase: WorkerPhase
    since: float


@dataclass
class World:
    """Processes, the time, and the file of the fleet; it is its own clock."""

    folder: Path
    breaks: bool = False
    """Whether requests to the new version fail."""
    at: float = 1_800_000_000.0
    processes: dict[str, Process] = field(default_factory=dict)
    specs: Mapping[str, WorkerSpec] = field(default_factory=dict)
    wishes: Mapping[str, Wanted] = field(default_factory=dict)
    started: list[tuple[str, int | None]] = field(default_factory=list)
    fewest_ready: int = len(NAMES)
    opened: list[Database] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.processes = {it.id: Process(it, self.at - 60, READY, self.at - 60) for it in OLD}

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    # The files.

    def read(self, file: Path | None = None) -> tuple[WorkerSpec, ...]:
        return OLD if file is None else NEW

    def slot(self, spec: WorkerSpec) -> Slot:
        return Slot(spec.id, "a", self.revision(spec), ("m",))

    def revision(self, spec: WorkerSpec) -> str:
        return str(spec.profile.max_num_seqs)

    # The supervisor.

    def start(self, specs: Sequence[WorkerSpec]) -> None:
        """Adopt what runs as it is wanted, and end the rest, as a daemon does first."""
        self.specs = {it.id: it for it in specs}
        for name, process in list(self.processes.items()):
            if self.specs.get(name) != process.spec:
                del self.processes[name]

    async def manage(self, specs: Sequence[WorkerSpec]) -> None:
        await asyncio.sleep(0)
        self.specs = {it.id: it for it in specs}

    async def wish(self, by: By, wanted: Mapping[str, Wanted]) -> None:
        assert by is By.ROLLING
        self.wishes = wanted
        await asyncio.sleep(0)

    def wishes_of(self, _by: By) -> Mapping[str, Wanted]:
        return {}

    async def runs(self, spec: WorkerSpec) -> bool:
        await asyncio.sleep(0)
        found = self.processes.get(spec.id)
        return found is not None and found.spec == spec

    def spec_of(self, name: str) -> WorkerSpec:
        found = self.processes.get(name)
        return found.spec if found is not None else self.specs[name]

    def limits_of(self, _name: str) -> LifeLimits:
        return LifeLimits(60, 10, 1, 10)

    def views(self) -> tuple[WorkerView, ...]:
        names = sorted({*self.processes, *self.specs})
        return tuple(self._view(name) for name in names)

    def _view(self, name: str) -> WorkerView:
        it = self.processes.get(name)
        phase = it.phase if it is not None else WorkerPhase.ABSENT
        return WorkerView(name, "a", ("m",), f"http://{name}", phase, it.since if it else self.at)

    def live(self) -> None:
        """Let a second go by: processes become what is wished."""
        self.at += 1
        for name in sorted({*self.processes, *self.specs}):
            self._step(name)
        ready = sum(it.phase is READY for it in self.processes.values())
        self.fewest_ready = min(self.fewest_ready, ready)

    def _step(self, name: str) -> None:
        it, spec = self.processes.get(name), self.specs.get(name)
        is_old = it is not None and it.started_at < self.wishes.get(name, Wanted()).restart_at
        if it is None and spec is not None:
            self.processes[name] = Process(spec, self.at, STARTING, self.at)
            self.started.append((name, spec.profile.max_num_seqs))
        elif it is not None and (spec is None or is_old):
            if it.phase is DRAINING:
                del self.processes[name]
            it.phase, it.since = DRAINING, self.at
        elif it is not None and it.phase is not READY:
            it.phase, it.since = READY, self.at

    # What the gateway books.

    def since(self, workers: Iterable[str], _at: float) -> list[Answered]:
        return [
            Answered(self.at, ok=not (self.breaks and self._is_new(name)), duration_seconds=0.1)
            for name in workers
            for _ in range(20)
        ]

    def _is_new(self, name: str) -> bool:
        it = self.processes.get(name)
        return it is not None and it.spec.profile == NEW[0].profile

    def forget_all_but(self, _workers: Iterable[str]) -> None:
        return


async def episode(world: World) -> None:
    """Be a daemon that is asked for the new fleet, until it is there or given back."""
    world.opened.clear()
    world.wishes = {}
    state = StateStore.open(world.folder / "state.db", world)
    world.opened.append(state._database._database)
    sight = Sight(
        cast("Supervisor", world),
        Known(),
        cast("Tallies", world),
        cast("FleetFiles", world),
        RULES,
        world,
    )
    run = RollingRun(sight, state, wake=asyncio.Event())
    specs = await run.restore(OLD)
    await run.foretell()
    world.start(specs)
    await run.tell()
    if run.kept is None:
        commands = RollingCommands(run, surge=lambda _: 1)
        await commands.apply(file="new.yml", plan=None, dry_run=False, who="ann", why="a test")
    for _ in range(MOST_SECONDS):
        if not run.is_running:
            break
        async with run.turn:
            await run.look()
        world.live()
    assert not run.is_running, run.waiting
    for _ in range(10):
        world.live()
    await state.close()


def through_every_death(folder: Path, stride: int, *, breaks: bool) -> list[World]:
    """Return how the world stands after each death and the life that came after."""
    found: list[World] = []
    is_whole = False
    while not is_whole:
        world = World(folder / str(len(found)), breaks)
        world.folder.mkdir()
        is_whole = live(lambda it=world: episode(it), len(found) * stride, world.opened)  # type: ignore[misc]
        assert live(lambda it=world: episode(it), None, world.opened)  # type: ignore[misc]
        found.append(world)
    assert len(found) > 5
    return found


async def _audit(world: World) -> list[str]:
    state = StateStore.open(world.folder / "state.db", world)
    rows: list[Any] = await state.audit(100)
    await state.close()
    return [it.summary for it in rows]


def running(world: World) -> dict[str, tuple[int | None, WorkerPhase]]:
    found = world.processes.items()
    return {name: (it.spec.profile.max_num_seqs, it.phase) for name, it in sorted(found)}


STRIDES = [5, pytest.param(1, marks=pytest.mark.slow)]


@pytest.mark.parametrize("stride", STRIDES)
def test_each_worker_is_brought_to_the_new_version_once(tmp_path: Path, stride: int) -> None:
    for world in through_every_death(tmp_path, stride, breaks=False):
        assert running(world) == dict.fromkeys(NAMES, (2, READY))
        of_fleet = sorted(it for it in world.started if it[0] in NAMES)
        assert of_fleet == [(name, 2) for name in NAMES], world.started
        assert len(world.started) - len(of_fleet) <= 1, "one that stands in, started once"
        assert world.fewest_ready >= len(NAMES)
        told = asyncio.run(_audit(world))
        assert sum(it.startswith("rolling change begun") for it in told) == 1
        assert sum(it.startswith("done") for it in told) == 1


@pytest.mark.parametrize("stride", STRIDES)
def test_a_version_that_fails_is_given_back_once(tmp_path: Path, stride: int) -> None:
    for world in through_every_death(tmp_path, stride, breaks=True):
        assert running(world) == dict.fromkeys(NAMES, (1, READY))
        assert all(world.started.count(it) == 1 for it in world.started), world.started
        assert world.fewest_ready >= RULES.min_hot
        told = asyncio.run(_audit(world))
        assert sum(it.startswith("halted") for it in told) == 1
        assert sum(it.startswith("returned") for it in told) == 1
