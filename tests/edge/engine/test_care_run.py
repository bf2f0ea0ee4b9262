"""Care over hours of virtual time, with a real simulated worker where a cache is emptied."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from ds4watch.config.profile import Engine, Profile
from ds4watch.config.settings import CareSettings
from ds4watch.engine.care_run import CareRun, CareSources
from ds4watch.engine.parts import Known
from ds4watch.fleet.client import WorkerClient
from ds4watch.fleet.life import LifeLimits
from ds4watch.fleet.wish import AS_SET, By, Wanted, Wish
from ds4watch.history.rows import AuditEntry
from ds4watch.model.action import Hold
from ds4watch.model.series import Labels
from ds4watch.model.worker import FleetSnapshot, WorkerLoad, WorkerPhase, WorkerView
from ds4watch.policy.policyfile import load_policy
from ds4watch.sim.server import RunningWorker
from ds4watch.sim.settings import SimSettings

IDLE = WorkerLoad(running=0.0, waiting=0.0)
PROFILE = Profile(name="sim", engine=Engine.SIM, served_names=("m",), engine_args=("--dev-mode",))
GPU: Labels = (("gpu", "0"),)
NAMES = ("a", "b", "c")


class World:
    """A fleet of three, its readings, and what care wishes and tells."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.at = 1_000_000.0
        self.known = Known()
        self.wishes: Mapping[str, Wanted] = {}
        self.told: list[str] = []
        self.values: dict[str, Any] = {}
        self.memory: float | None = None
        self.misses: dict[str, float] = {}
        self.prompt_tokens_per_second = 100.0
        self.warmup_age_seconds: float | None = None
        self.views = [
            WorkerView(name, "sim", ("m",), url, WorkerPhase.READY, since=0.0, load=IDLE)
            for name in NAMES
        ]
        self._session = session

    def care(self, *, dry_run: bool | None = False) -> CareRun:
        sources = CareSources(
            supervisor=self,
            is_step_back_due=lambda _: False,
            state=self,
            live=self,
            profiles={"sim": PROFILE},
            client_of=lambda url: WorkerClient(self._session, url),
            level=lambda: 0,
            policy=load_policy("pools: {chat: {profiles: [sim]}}\n", "policy.yml"),
        )
        return CareRun(self.known, CareSettings(dry_run=dry_run), sources, self, min_hot=2)

    async def minutes(self, care: CareRun, count: int) -> None:
        for _ in range(count):
            self.at += 60
            self.known.fleet = FleetSnapshot(self.at, tuple(self.views))
            await care.look()
            self.obey()

    def obey(self) -> None:
        """Let workers be as they are wished, at once."""
        for index, view in enumerate(self.views):
            wanted = self.wishes.get(view.id, AS_SET)
            phase = WorkerPhase.DRAINING if wanted.wish is Wish.DRAINED else WorkerPhase.READY
            if phase is not view.phase or wanted.restart_at > view.since:
                self.views[index] = replace(view, phase=phase, since=self.at + 1)

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def newest(self, name: str) -> list[tuple[Labels, float]]:
        if name == "ds4_cache_miss_ratio":
            return [((("worker", worker),), miss) for worker, miss in self.misses.items()]
        if name == "ds4_tokens_per_second":
            speed = self.prompt_tokens_per_second
            return [((("kind", "prompt"), ("worker", worker)), speed) for worker in self.misses]
        if name == "ds4_worker_warmup_age_seconds":
            age = self.warmup_age_seconds
            return [] if age is None else [((("worker", it),), age) for it in self.misses]
        if self.memory is None:
            return []
        return [(GPU, 100.0 if name == "ds4_gpu_memory_total_bytes" else self.memory)]

    async def wish(self, by: By, wanted: Mapping[str, Wanted]) -> None:
        assert by is By.CARE
        assert len(wanted) <= 1
        self.wishes = wanted

    def wanted(self, worker_id: str) -> Wanted:
        return self.wishes.get(worker_id, AS_SET)

    def limits_of(self, worker_id: str) -> LifeLimits:
        assert worker_id in NAMES
        return LifeLimits(1.0, 1.0, 1.0, 1.0)

    async def add_audit(self, *entries: AuditEntry) -> None:
        self.told += [f"{it.subject}: {it.summary}" for it in entries]

    async def keep_value(self, name: str, value: Any) -> None:
        self.values[name] = value

    async def kept_values(self) -> dict[str, Any]:
        return self.values


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with (
        RunningWorker(SimSettings(dev_mode=True)) as running,
        aiohttp.ClientSession() as session,
    ):
        yield World(session, running.url)


async def creeping(world: World, care: CareRun, count: int) -> None:
    for _ in range(count):
        world.memory = (50.0 if world.memory is None else world.memory) + 0.2
        await world.minutes(care, 1)


async def test_memory_that_creeps_has_a_worker_started_anew_and_then_starts_counting_anew(
    world: World,
) -> None:
    await creeping(world, world.care(), 40)
    assert world.told[0].startswith("a: restart of a when drained: the least memory used rose by")
    assert world.told[1].startswith("a: care is over: ready after")


async def test_the_first_week_only_tells_and_then_it_is_done(world: World) -> None:
    care = world.care(dry_run=None)
    await creeping(world, care, 40)
    assert [line[:9] for line in world.told] == ["a: would:", "b: would:", "c: would:"]
    assert {view.since for view in world.views} == {0.0}
    world.at += 8 * 86_400
    world.told.clear()
    await creeping(world, world.care(dry_run=None), 40)
    assert world.told[0].startswith("a: restart of a")


async def test_a_hit_rate_that_decays_has_the_drained_workers_cache_emptied(world: World) -> None:
    care = world.care()
    world.misses = {"b": 0.2}
    await world.minutes(care, 45)
    assert world.told == []
    world.misses = {"b": 0.9}
    await world.minutes(care, 30)
    assert world.told == [
        "b: reset of b when drained: the prefix hit rate fell from 80% to 10%",
        "b: care is over: its prefix cache is empty",
    ]
    assert [view.phase for view in world.views] == [WorkerPhase.READY] * 3


@pytest.mark.parametrize(("speed", "age"), [(2.0, None), (50.0, 30.0)])
async def test_canaries_and_warm_ups_of_ours_alone_are_no_decay(
    world: World, speed: float, age: float | None
) -> None:
    care = world.care()
    world.misses = {"b": 0.2}
    await world.minutes(care, 45)
    world.misses = {"b": 1.0}
    world.prompt_tokens_per_second, world.warmup_age_seconds = speed, age
    await world.minutes(care, 60)
    assert world.told == []


async def test_nothing_is_done_under_load_nor_to_who_is_held(world: World) -> None:
    world.views = [replace(it, load=WorkerLoad(running=2.0, waiting=0.0)) for it in world.views]
    await creeping(world, world.care(), 45)
    world.views = [replace(it, load=WorkerLoad()) for it in world.views]
    await creeping(world, world.care(), 45)
    world.views = [replace(it, load=IDLE) for it in world.views]
    for target in ("*", "chat", "default"):
        world.known.holds = (Hold(target, world.at + 1e9, "ann", "looking", world.at),)
        await creeping(world, world.care(), 45)
        assert world.told == []
