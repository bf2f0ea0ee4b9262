"""Care and provisioning, killed at every await: what they wish dies with them, what was done stays.

Both only wish; a wish is what a worker is to be, so to wish it again does nothing twice. What could
go wrong is a worker left drained or called by a dead daemon, or cured again by the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ds4watch.config.settings import CareSettings
from ds4watch.engine.care_run import CareRun, CareSources
from ds4watch.engine.load_ahead import LoadAhead
from ds4watch.engine.parts import Known
from ds4watch.engine.provision import Provisioning
from ds4watch.fleet.life import LifeLimits
from ds4watch.fleet.pool import Facts
from ds4watch.fleet.start_times import StartTimes
from ds4watch.fleet.wish import AS_SET, By, Wanted, Wish
from ds4watch.history.database import Database
from ds4watch.history.state import StateStore
from ds4watch.model.series import Labels
from ds4watch.model.worker import FleetSnapshot, WorkerLoad, WorkerPhase, WorkerView
from tests.edge.engine.mortal import live
from tests.unit.engine.test_provision import SETTINGS

READY, ASLEEP, DRAINING = WorkerPhase.READY, WorkerPhase.ASLEEP, WorkerPhase.DRAINING
IDLE, BUSY = WorkerLoad(running=0.0, waiting=0.0), WorkerLoad(running=40.0, waiting=60.0)


@dataclass
class World:
    """The workers and the time: what does not die with a daemon."""

    folder: Path
    views: dict[str, WorkerView]
    at: float = 30 * 86_400.0
    wishes: Mapping[str, Wanted] = field(default_factory=dict)
    restarts: list[str] = field(default_factory=list)
    woken: list[str] = field(default_factory=list)
    opened: list[Database] = field(default_factory=list)

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def open(self) -> StateStore:
        """Be a daemon that was just started: nobody wishes anything yet."""
        self.wishes = {}
        self.opened.clear()
        state = StateStore.open(self.folder / "state.db", self)
        self.opened.append(state._database._database)
        return state

    async def wish(self, by: By, wanted: Mapping[str, Wanted]) -> None:
        del by
        self.wishes = wanted

    def wanted(self, worker_id: str) -> Wanted:
        return self.wishes.get(worker_id, AS_SET)

    def limits_of(self, _worker: str) -> LifeLimits:
        return LifeLimits(60, 10, 1, 10)

    def facts(self, _above: By) -> dict[str, Facts]:
        return {name: Facts(can_sleep=True, is_spare=False) for name in self.views}

    def newest(self, _name: str) -> list[tuple[Labels, float]]:
        return []

    def fleet(self) -> FleetSnapshot:
        return FleetSnapshot(self.at, tuple(self.views.values()))

    def obey(self) -> None:
        """Let workers be as they are wished, at once, and count what that took."""
        for name, view in self.views.items():
            wanted = self.wanted(name)
            phase = DRAINING if wanted.wish is Wish.DRAINED else READY
            if wanted.wish is Wish.ASLEEP or (wanted == AS_SET and view.phase is ASLEEP):
                phase = ASLEEP
            if wanted.restart_at > view.since:
                self.restarts.append(name)
                self.views[name] = replace(view, phase=phase, since=self.at + 1)
            elif phase is not view.phase:
                self.woken += [name] if view.phase is ASLEEP else []
                self.views[name] = replace(view, phase=phase, since=self.at + 1)
        assert sum(it.phase is DRAINING for it in self.views.values()) <= 1


def view(name: str, phase: WorkerPhase, load: WorkerLoad) -> WorkerView:
    return WorkerView(name, "p", ("m",), f"http://{name}", phase, since=0.0, load=load)


async def care(world: World) -> None:
    """Go on until `a`, which is to be started anew, was cared for, and an hour longer."""
    state = world.open()
    known = Known()
    sources = CareSources(
        supervisor=world,
        is_step_back_due=lambda name: name == "a" and world.views[name].since == 0.0,
        state=state,
        live=world,
        profiles={},
        client_of=pytest.fail,
        level=lambda: 0,
    )
    run = CareRun(known, CareSettings(dry_run=False), sources, world, min_hot=2)
    for _ in range(100):
        world.at += 60
        known.fleet = world.fleet()
        await run.look()
        world.obey()
    await state.close()


async def provision(world: World) -> None:
    """Have a queue of sixty before one worker while another sleeps, then none."""
    state = world.open()
    ahead = LoadAhead(SETTINGS.profiles, StartTimes(), {}, coverage=SETTINGS.coverage)
    it = Provisioning(world, state, SETTINGS, ahead, world)
    for _ in range(6):
        world.at += 5
        await it.step(world.fleet(), (), ())
        world.obey()
    await state.close()


def through_every_death(world: World, kind: str, folder: Path) -> list[World]:
    """Return how the world stands after each death and the life that came after."""
    episode = care if kind == "care" else provision
    found: list[World] = []
    is_whole = False
    while not is_whole:
        fresh = replace(
            world,
            folder=folder / str(len(found)),
            views=dict(world.views),
            restarts=[],
            woken=[],
            opened=[],
        )
        is_whole = live(lambda it=fresh: episode(it), len(found), fresh.opened)  # type: ignore[misc]
        assert live(lambda it=fresh: episode(it), None, fresh.opened)  # type: ignore[misc]
        found.append(fresh)
    assert len(found) > 10
    return found


def test_care_that_dies_cures_nobody_twice_and_leaves_nobody_drained(tmp_path: Path) -> None:
    world = World(tmp_path, {name: view(name, READY, IDLE) for name in "abc"})
    for after in through_every_death(world, "care", tmp_path):
        assert after.restarts == ["a"]
        assert {it.phase for it in after.views.values()} == {READY}


def test_a_sleeper_that_was_called_is_woken_once_whenever_the_daemon_dies(tmp_path: Path) -> None:
    views = {"a": view("a", READY, BUSY), "b": view("b", ASLEEP, IDLE)}
    for after in through_every_death(World(tmp_path, views), "provisioning", tmp_path):
        assert after.woken == ["b"]
        assert after.views["b"].phase is READY
