"""The supervisor over real processes: simulated workers that sleep, hang and die."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
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
from ds4watch.fleet.wish import By, Wanted, Wish
from ds4watch.model.worker import FleetSnapshot, WorkerLoad, WorkerPhase, WorkerView
from tests.edge.clock import SystemClock

LIMITS = LifeLimits(
    start_timeout_seconds=30,
    canary_interval_seconds=30,
    backoff_seconds=0.1,
    backoff_max_seconds=0.2,
    drain_seconds=0.1,
    stall_floor_seconds=0.5,
    quarantine_after=2,
)
NOBODY = FleetSnapshot(at=0.0)


class Journal:
    """Keeps the story of each worker."""

    def __init__(self) -> None:
        self.story: list[WorkerPhase] = []
        self.came_up: list[float] = []
        self.changed = asyncio.Event()

    async def worker_changed(self, view: WorkerView, old: WorkerPhase) -> None:
        assert old is not view.phase
        self.story.append(view.phase)
        self.changed.set()

    async def worker_came_up(self, view: WorkerView, took_seconds: float) -> None:
        assert view.phase is WorkerPhase.READY
        self.came_up.append(took_seconds)

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not reached():
                self.changed.clear()
                await self.changed.wait()


def spec(*more: str, name: str = "sim-0", url: str | None = None) -> WorkerSpec:
    arguments = ("--dev-mode", "--decode-tokens-per-second=1000", *more)
    profile = Profile(
        name="sim",
        engine=Engine.SIM,
        served_names=("sim",),
        max_model_len=8192,
        engine_args=arguments,
    )
    return WorkerSpec(name, profile, url=url)


class Mislabelled(WorkerClient):
    """Of a worker that serves less than its profile says."""

    async def models(self) -> tuple[str, ...]:
        return ("another",)


class Fleet:
    """A daemon's worth of fleet on one folder."""

    def __init__(
        self, folder: Path, session: aiohttp.ClientSession, limits: LifeLimits = LIMITS
    ) -> None:
        self.journal = Journal()
        self.session = session
        self.own_fault: Exception | None = None
        self.asked = 0
        self.client_type: type[WorkerClient] = WorkerClient
        self.table = ProcessTable(folder, SystemClock())
        place = LocalPlace(
            state_dir=folder,
            vllm_python=Path(sys.executable),
            has_gpu=False,
            first_port=21_000,
            stop_grace_seconds=2.0,
            gpu_fault=_no_fault,
        )
        self.supervisor = Supervisor(
            LocalBackend(place, self.table, SystemClock()),
            self.client_of,
            limits=limits,
            journal=self.journal,
            clock=SystemClock(),
        )

    def client_of(self, url: str) -> WorkerClient:
        if self.own_fault is not None:
            raise self.own_fault
        self.asked += self.client_type is Mislabelled
        return self.client_type(self.session, url, generation_timeout_seconds=0.7)

    @property
    def view(self) -> WorkerView:
        return self.supervisor.views()[0]

    async def until(self, phase: WorkerPhase) -> None:
        await self.journal.until(lambda: self.view.phase is phase)

    async def wish(self, wanted: Wanted) -> None:
        await self.supervisor.wish(By.PERSON, {"sim-0": wanted})

    async def fault(self, body: dict[str, object]) -> None:
        async with self.session.post(f"{self.view.url}/sim/fault", json=body) as answer:
            assert answer.status == 200, await answer.text()


async def _no_fault() -> str:
    return ""


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def fleet(tmp_path: Path, session: aiohttp.ClientSession) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path, session)
    yield fleet
    assert await fleet.supervisor.stop()
    assert not list(fleet.table.records())


async def test_a_worker_sleeps_and_wakes_and_answers_a_canary_before_it_is_ready(
    fleet: Fleet,
) -> None:
    await fleet.supervisor.start([spec()], NOBODY)
    await fleet.until(WorkerPhase.READY)
    pid = fleet.view.pid
    await fleet.wish(Wanted(Wish.ASLEEP))
    assert fleet.view.phase is WorkerPhase.DRAINING  # at once, before anything is done
    await fleet.until(WorkerPhase.ASLEEP)
    async with fleet.session.get(f"{fleet.view.url}/is_sleeping") as answer:
        assert (await answer.json())["is_sleeping"] is True
    await fleet.wish(Wanted(Wish.READY))
    await fleet.until(WorkerPhase.READY)
    assert fleet.view.pid == pid
    assert fleet.journal.story[-4:] == [
        WorkerPhase.DRAINING,
        WorkerPhase.ASLEEP,
        WorkerPhase.WARMING,
        WorkerPhase.READY,
    ]
    assert len(fleet.journal.came_up) == 1  # waking is no start


async def test_the_next_daemon_finds_a_sleeper_asleep_and_does_not_take_it_for_hung(
    tmp_path: Path, session: aiohttp.ClientSession, fleet: Fleet
) -> None:
    await fleet.supervisor.start([spec()], NOBODY)
    await fleet.wish(Wanted(Wish.ASLEEP))
    await fleet.until(WorkerPhase.ASLEEP)
    pid = fleet.view.pid
    await fleet.supervisor.leave()
    later = Fleet(tmp_path, session)
    await later.wish(Wanted(Wish.ASLEEP))
    await later.supervisor.start([spec()], FleetSnapshot(0.0, fleet.supervisor.views()))
    await later.until(WorkerPhase.ASLEEP)
    assert later.view.pid == pid
    assert WorkerPhase.FAILED not in later.journal.story
    assert await later.supervisor.stop()


async def test_a_worker_is_stopped_started_and_restarted_by_wish(fleet: Fleet) -> None:
    await fleet.supervisor.start([spec()], NOBODY)
    await fleet.until(WorkerPhase.READY)
    first = fleet.view.pid
    await fleet.wish(Wanted(Wish.STOPPED))
    await fleet.until(WorkerPhase.ABSENT)
    assert fleet.view.pid is None
    assert not list(fleet.table.records())
    assert fleet.supervisor.waiting_for() == ()
    await fleet.wish(Wanted(None))
    await fleet.until(WorkerPhase.READY)
    second = fleet.view.pid
    await fleet.wish(Wanted(None, restart_at=SystemClock().now()))
    await fleet.until(WorkerPhase.DRAINING)
    await fleet.until(WorkerPhase.READY)
    assert len({first, second, fleet.view.pid}) == 3


async def test_a_process_that_a_dead_daemon_told_to_end_is_awaited_and_counts_as_restarted(
    tmp_path: Path, session: aiohttp.ClientSession, fleet: Fleet
) -> None:
    await fleet.supervisor.start([spec()], NOBODY)
    await fleet.until(WorkerPhase.READY)
    before, old = FleetSnapshot(0.0, fleet.supervisor.views()), fleet.view.pid
    assert old is not None
    os.kill(old, signal.SIGSTOP)  # what is told to end does so later
    await fleet.wish(Wanted(None, restart_at=SystemClock().now()))
    await fleet.until(WorkerPhase.STOPPING)
    await fleet.journal.until(lambda: any(it.is_ending for it in fleet.table.records()))
    await fleet.supervisor.leave()
    later = Fleet(tmp_path, session)
    assert await later.supervisor.started_at(spec()) is None  # the start to come is the restart
    await later.supervisor.start([spec()], before)
    assert (later.view.phase, later.view.pid) == (WorkerPhase.STOPPING, old)
    try:
        os.kill(old, signal.SIGCONT)
        await later.until(WorkerPhase.READY)
        assert later.view.pid != old
        # a quick start is over before anybody sees it load
        story = [it for it in later.journal.story if it is not WorkerPhase.LOADING]
        started = [WorkerPhase.STARTING, WorkerPhase.WARMING, WorkerPhase.READY]
        assert story == [WorkerPhase.ABSENT, *started]
        assert await later.supervisor.started_at(spec()) is not None
    finally:
        assert await later.supervisor.stop()


async def test_an_engine_that_hangs_with_work_in_it_is_found_by_its_lack_of_progress(
    fleet: Fleet,
) -> None:
    await fleet.supervisor.start([spec()], NOBODY)
    await fleet.until(WorkerPhase.READY)
    await fleet.fault({"fault": "hang", "on": True})
    async with fleet.session.get(f"{fleet.view.url}/health") as answer:
        assert answer.status == 200
    busy, now = WorkerLoad(running=1.0, waiting=2.0), SystemClock().now()
    fleet.supervisor.note({"sim-0": busy}, {"sim-0": 7.0}, {"sim-0": now})
    fleet.supervisor.note_prefill({"sim-0": 1e9})
    await fleet.until(WorkerPhase.FAILED)  # its next canary would be due in half a minute
    assert "with work in it, and no answer to a canary" in fleet.view.reason
    await fleet.until(WorkerPhase.READY)


async def test_a_worker_that_fails_at_every_start_is_quarantined_until_a_person_says_start(
    tmp_path: Path, session: aiohttp.ClientSession, fleet: Fleet
) -> None:
    broken = spec("--fault=crash")
    await fleet.supervisor.start([broken], NOBODY)
    await fleet.until(WorkerPhase.QUARANTINED)
    assert "not started any more after 2 failures in a row" in fleet.view.reason
    assert fleet.journal.story.count(WorkerPhase.STARTING) == 2
    later = Fleet(tmp_path, session)  # a new daemon leaves it down as well
    before = FleetSnapshot(0.0, fleet.supervisor.views())
    await later.supervisor.start([spec()], before)
    assert later.view.phase is WorkerPhase.QUARANTINED
    await later.wish(Wanted(None, pardon_at=SystemClock().now()))
    await later.until(WorkerPhase.READY)
    assert await later.supervisor.stop()


async def test_who_is_to_run_something_else_is_not_current(fleet: Fleet) -> None:
    await fleet.supervisor.start([spec()], NOBODY)
    await fleet.until(WorkerPhase.READY)
    assert fleet.view.is_current
    await fleet.supervisor.manage([spec("--seed=7")])
    assert not fleet.view.is_current
    assert not fleet.view.is_for_long


async def test_who_is_dropped_from_the_fleet_is_stopped_and_forgotten(fleet: Fleet) -> None:
    await fleet.supervisor.start([spec()], NOBODY)
    await fleet.until(WorkerPhase.READY)
    await fleet.supervisor.manage([spec(name="sim-1")])
    await fleet.journal.until(
        lambda: (
            [(it.id, it.phase) for it in fleet.supervisor.views()][-1]
            == ("sim-1", WorkerPhase.READY)
        )
    )
    async with asyncio.timeout(10):
        while len(fleet.supervisor.views()) > 1:
            await asyncio.sleep(0.05)
    assert fleet.view.id == "sim-1"


async def test_somebody_elses_worker_that_cannot_be_reached_is_unknown_until_it_answers(
    fleet: Fleet, tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    await fleet.supervisor.start([spec()], NOBODY)
    await fleet.until(WorkerPhase.READY)
    watcher = Fleet(tmp_path / "other", session)
    await watcher.supervisor.start([spec(url="http://127.0.0.1:9")], NOBODY)
    await watcher.until(WorkerPhase.UNKNOWN)
    await watcher.supervisor.leave()
    reaching = Fleet(tmp_path / "other", session)
    await reaching.supervisor.start([spec(url=fleet.view.url)], NOBODY)
    await reaching.until(WorkerPhase.READY)
    await reaching.wish(Wanted(Wish.STOPPED))
    await reaching.until(WorkerPhase.DRAINING)
    await reaching.supervisor.leave()
    assert fleet.view.phase is WorkerPhase.READY


async def test_who_does_not_list_the_names_of_its_profile_is_not_ready_until_it_does(
    fleet: Fleet,
) -> None:
    fleet.client_type = Mislabelled
    await fleet.supervisor.start([spec("--startup-seconds=0.1")], NOBODY)
    await fleet.until(WorkerPhase.WARMING)
    async with asyncio.timeout(10):
        while fleet.asked < 3:
            await asyncio.sleep(0.02)
    assert fleet.view.phase is WorkerPhase.WARMING
    fleet.client_type = WorkerClient
    await fleet.until(WorkerPhase.READY)


async def test_the_time_in_each_state_adds_up(fleet: Fleet) -> None:
    began = SystemClock().now()
    await fleet.supervisor.start([spec()], NOBODY)
    await fleet.until(WorkerPhase.READY)
    (stay,) = fleet.supervisor.stays()
    took = SystemClock().now() - began
    assert sum(stay.seconds.values()) == pytest.approx(took, abs=0.3)
    assert stay.seconds[WorkerPhase.WARMING] > 0
    assert fleet.supervisor.start_times.seconds("sim") == fleet.journal.came_up[0]


async def test_a_fault_in_the_care_of_a_worker_is_raised_and_leaves_nobody_unwatched_in_silence(
    fleet: Fleet,
) -> None:
    watching = asyncio.create_task(fleet.supervisor.watch())
    fleet.own_fault = ZeroDivisionError()
    await fleet.supervisor.start([spec()], NOBODY)
    async with asyncio.timeout(10):
        with pytest.raises(ZeroDivisionError):
            await watching


async def test_case_41_a_worker_that_loads_longer_than_it_may_and_talks_is_not_started_anew(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """A limit that is shorter than the load makes a crash loop (kserve/kserve#5062)."""
    fleet = Fleet(tmp_path, session, replace(LIMITS, start_timeout_seconds=4.0))
    await fleet.supervisor.start([spec("--startup-seconds=5")], NOBODY)
    await fleet.until(WorkerPhase.READY)
    assert await fleet.supervisor.stop()
    assert WorkerPhase.FAILED not in fleet.journal.story
