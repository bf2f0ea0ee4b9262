"""Simulated workers that run out of memory, as processes under a supervisor."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import pytest

from ds4watch.config.profile import Engine, Profile
from ds4watch.fleet.backend import LocalBackend, LocalPlace
from ds4watch.fleet.client import WorkerClient
from ds4watch.fleet.kernel_kills import kernel_kills
from ds4watch.fleet.ladders import Ladders
from ds4watch.fleet.life import LifeLimits
from ds4watch.fleet.memory_ladder import Ladder, Lever, Step
from ds4watch.fleet.oom import OomKind
from ds4watch.fleet.process import ProcessTable
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.fleet.wish import By, Wanted
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView
from tests.edge.clock import SystemClock

LIMITS = LifeLimits(
    start_timeout_seconds=30,
    canary_interval_seconds=60,
    backoff_seconds=0.1,
    backoff_max_seconds=0.2,
    drain_seconds=0.1,
    quarantine_after=2,
)
NOBODY = FleetSnapshot(at=0.0)


def spec(*faults: str, seqs: int = 4) -> WorkerSpec:
    arguments = ("--decode-tokens-per-second=50", *(f"--fault={fault}" for fault in faults))
    profile = Profile(
        name="sim",
        engine=Engine.SIM,
        served_names=("sim",),
        max_num_seqs=seqs,
        engine_args=arguments,
    )
    return WorkerSpec("sim-0", profile)


class Story:
    """What was told, of workers and of their ladders."""

    def __init__(self) -> None:
        self.views: list[WorkerView] = []
        self.told: list[str] = []
        self.kept: Mapping[str, Ladder] = {}
        self.changed = asyncio.Event()

    async def worker_changed(self, view: WorkerView, old: WorkerPhase) -> None:
        assert old is not view.phase
        self.views.append(view)
        self.changed.set()

    async def worker_came_up(self, view: WorkerView, took_seconds: float) -> None:
        assert view.phase is WorkerPhase.READY
        assert took_seconds >= 0

    async def ladder_changed(
        self, worker_id: str, told: str, ladders: Mapping[str, Ladder]
    ) -> None:
        assert worker_id == "sim-0"
        self.told.append(told)
        self.kept = ladders

    def count(self, phase: WorkerPhase) -> int:
        return sum(view.phase is phase for view in self.views)

    async def until(self, phase: WorkerPhase, times: int = 1) -> WorkerView:
        async with asyncio.timeout(60):
            while self.count(phase) < times:
                self.changed.clear()
                await self.changed.wait()
        return [view for view in self.views if view.phase is phase][-1]


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


class Fleet:
    """A daemon's worth of fleet on one folder."""

    def __init__(
        self,
        folder: Path,
        session: aiohttp.ClientSession,
        known: Mapping[str, Ladder] | None = None,
    ) -> None:
        clock = SystemClock()
        self.story = Story()
        self.table = ProcessTable(folder, clock)
        place = LocalPlace(
            state_dir=folder,
            vllm_python=Path(sys.executable),
            has_gpu=False,
            first_port=23_000,
            stop_grace_seconds=2.0,
            gpu_fault=no_fault,
        )
        self.ladders = Ladders(known or {}, self.story, clock)
        self.supervisor = Supervisor(
            LocalBackend(place, self.table, clock),
            lambda url: WorkerClient(session, url),
            limits=LIMITS,
            journal=self.story,
            clock=clock,
            ladders=self.ladders,
        )

    def arguments(self) -> list[str]:
        (record,) = self.table.records()
        return Path(f"/proc/{record.pid}/cmdline").read_bytes().decode().split("\0")


async def no_fault() -> str:
    return ""


def seqs_of(arguments: list[str]) -> str:
    return arguments[arguments.index("--max-num-seqs") + 1]


async def burst(session: aiohttp.ClientSession, url: str, count: int) -> None:
    body = {"model": "sim", "prompt": "x", "max_tokens": 200, "ignore_eos": True}

    async def ask() -> None:
        async with session.post(f"{url}/v1/completions", json=body) as response:
            await response.read()

    await asyncio.gather(*(ask() for _ in range(count)), return_exceptions=True)


async def test_one_that_runs_out_under_load_comes_back_with_fewer_sequences_and_stays_up(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    fleet = Fleet(tmp_path, session)
    await fleet.supervisor.start([spec("oom_over=2")], NOBODY)
    ready = await fleet.story.until(WorkerPhase.READY)
    assert (ready.max_inflight, seqs_of(fleet.arguments())) == (64, "4")
    await burst(session, ready.url, 4)
    again = await fleet.story.until(WorkerPhase.READY, times=2)
    failed = next(view for view in fleet.story.views if view.phase is WorkerPhase.FAILED)
    assert "for want of memory (gpu_run)" in failed.reason
    assert "CUDA out of memory" in failed.reason
    assert failed.reason.endswith("next start with max_num_seqs 2")
    assert fleet.story.told == ["out of memory (gpu_run): from now on started with max_num_seqs 2"]
    assert (again.max_inflight, seqs_of(fleet.arguments())) == (32, "2")
    await burst(session, again.url, 4)
    assert fleet.story.count(WorkerPhase.FAILED) == 1
    assert [(it.kind, it.deaths) for it in fleet.ladders.deaths()] == [(OomKind.GPU_RUN, 1)]

    await fleet.supervisor.leave()
    (record,) = fleet.table.records()
    later = Fleet(tmp_path, session, fleet.story.kept)
    await later.supervisor.start([spec("oom_over=2")], FleetSnapshot(0.0, (again,)))
    (adopted,) = later.supervisor.views()
    assert (adopted.phase, adopted.pid) == (WorkerPhase.READY, again.pid)
    assert adopted.max_inflight == 32

    await later.ladders.forget("sim-0", "taken back")
    await later.supervisor.wish(By.PERSON, {"sim-0": Wanted(restart_at=SystemClock().now())})
    await later.story.until(WorkerPhase.READY)
    assert seqs_of(later.arguments()) == "4"
    assert later.story.kept == {}
    assert await later.supervisor.stop()
    assert fleet.table.exit_code(record) is not None


async def test_at_the_ladders_end_it_is_quarantined_after_more_starts_than_others_get(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    fleet = Fleet(tmp_path, session)
    await fleet.supervisor.start([spec("oom_at_start", seqs=8)], NOBODY)
    down = await fleet.story.until(WorkerPhase.QUARANTINED)
    assert "nothing is left to lower" in down.reason
    assert fleet.story.count(WorkerPhase.STARTING) == 4
    steps = fleet.ladders.of("sim-0").steps
    assert steps == tuple(Step(Lever.SEQUENCES, seqs) for seqs in (4, 2, 1))
    assert await fleet.supervisor.stop()


async def test_a_step_that_has_held_for_long_is_taken_back_at_the_next_start(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    long_ago = SystemClock().now() - 2 * 86_400
    known = {"sim-0": Ladder((Step(Lever.SEQUENCES, 2), Step(Lever.SEQUENCES, 1)), long_ago)}
    fleet = Fleet(tmp_path, session, known)
    await fleet.supervisor.start([spec()], NOBODY)
    await fleet.story.until(WorkerPhase.READY)
    assert seqs_of(fleet.arguments()) == "2"
    assert fleet.story.told == ["memory held for long: started without the step to max_num_seqs 1"]
    assert await fleet.supervisor.stop()


def test_the_kernels_count_of_its_kills_can_be_read_here() -> None:
    count = kernel_kills()
    assert count is None or count >= 0
