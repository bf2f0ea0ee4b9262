"""Workers and daemons that are killed in any state: all end where they are wished, once each."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from ds4watch.fleet.wish import Wanted, Wish
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView
from tests.conftest import ROOT
from tests.edge.fleet.fleets import processes_with, until
from tests.edge.fleet.states import (
    ARGUMENTS,
    GOALS,
    Daemon,
    all_specs,
    in_every_state,
    spec_of,
    wishes,
)
from tests.flow.daemon import free_ports

ROUNDS = 5
EACH_IN_ITS_STATE = {phase.value: phase.value for phase in ARGUMENTS}


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def first_port() -> int:
    (port,) = free_ports(1)
    return port


@pytest.fixture
def swept(first_port: int) -> Iterator[None]:
    """End what a failed test leaves."""
    yield
    for pid in processes_with(f"@{first_port}@"):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.usefixtures("swept")
async def test_a_worker_killed_in_any_state_gets_where_it_is_wished(
    state_dir: Path, first_port: int, session: aiohttp.ClientSession
) -> None:
    killed: dict[str, WorkerView] = {}

    def heard(view: WorkerView) -> None:
        if view.phase.value == view.id == WorkerPhase.STARTING and not killed:
            killed.update(daemon.views())
            for it in killed.values():
                assert it.pid is not None
                os.kill(it.pid, signal.SIGKILL)

    daemon = Daemon(state_dir, first_port, session, heard)
    async with in_every_state(daemon):
        await daemon.until(lambda _: bool(killed))
    assert {name: it.phase.value for name, it in killed.items()} == EACH_IN_ITS_STATE
    before = {it.pid for it in killed.values()}
    await daemon.until(
        lambda views: (
            not before & {it.pid for it in views.values()}
            and all(views[name.value].phase is goal for name, goal in GOALS.items())
        )
    )
    daemon.assert_one_process_each()
    await daemon.stop()


@pytest.mark.usefixtures("swept")
async def test_a_daemon_killed_with_a_worker_in_any_state_leaves_the_next_one_all_of_them(
    state_dir: Path, first_port: int, session: aiohttp.ClientSession
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.edge.fleet.states", str(state_dir), str(first_port)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    output, _ = await process.communicate()
    assert process.returncode == -signal.SIGKILL
    told = json.loads(output)
    assert told["states"] == EACH_IN_ITS_STATE

    daemon = Daemon(state_dir, first_port, session)
    daemon.ports.update(told["ports"])
    await daemon.wish(wishes(told["restart_at"]))
    await daemon.start(all_specs(daemon.tag))
    await daemon.until_each_is(GOALS)
    daemon.assert_one_process_each()
    await daemon.stop()


@pytest.mark.usefixtures("swept")
async def test_a_few_kills_and_starts_leave_what_one_leaves(
    state_dir: Path, first_port: int, session: aiohttp.ClientSession
) -> None:
    daemon = Daemon(state_dir, first_port, session)
    await daemon.start([spec_of("one", daemon.tag)])
    files: list[set[Path]] = []
    descriptors: list[int] = []
    pids: set[int | None] = {None}
    for _ in range(ROUNDS):
        await daemon.until(
            lambda views: views["one"].phase is WorkerPhase.READY and views["one"].pid not in pids
        )
        daemon.assert_one_process_each()
        files.append(set(state_dir.rglob("*")))
        descriptors.append(len(list(Path("/proc/self/fd").iterdir())))
        pid = daemon.views()["one"].pid
        assert pid is not None
        pids.add(pid)
        os.kill(pid, signal.SIGKILL)
    assert files[1:] == files[:1] * (ROUNDS - 1)
    assert max(descriptors) <= descriptors[0] + 2, descriptors
    assert daemon.ports == {first_port}
    await daemon.stop()


@pytest.mark.usefixtures("swept")
async def test_a_worker_whose_daemon_died_before_it_was_written_down_is_not_in_the_way(
    state_dir: Path, first_port: int, session: aiohttp.ClientSession
) -> None:
    dead, spec = Daemon(state_dir, first_port, session), spec_of("one", str(first_port))
    await dead.backend.start(spec)
    daemon = Daemon(state_dir, first_port, session)
    await daemon.start([spec])
    assert daemon.views()["one"].pid is None, "not found: it is not written down yet"
    await daemon.until(lambda views: views["one"].phase is WorkerPhase.READY)
    dead.table._reap()
    daemon.assert_one_process_each()
    await daemon.stop()


@pytest.mark.slow
@pytest.mark.usefixtures("swept")
async def test_who_is_killed_while_it_is_drained_for_a_person_is_loaded_again(
    state_dir: Path, first_port: int, session: aiohttp.ClientSession
) -> None:
    daemon = Daemon(state_dir, first_port, session)
    await daemon.start([spec_of("one", daemon.tag)])
    await daemon.until(lambda views: views["one"].phase is WorkerPhase.READY)
    pid = daemon.views()["one"].pid
    assert pid is not None
    await daemon.wish({"one": Wanted(Wish.DRAINED)})
    os.kill(pid, signal.SIGKILL)
    await daemon.until(
        lambda views: views["one"].phase is WorkerPhase.DRAINING and views["one"].pid != pid
    )
    daemon.assert_one_process_each()
    await daemon.stop()


@pytest.mark.usefixtures("swept")
async def test_who_was_drained_and_died_while_no_daemon_ran_is_loaded_by_the_next(
    state_dir: Path, first_port: int, session: aiohttp.ClientSession
) -> None:
    first, spec = Daemon(state_dir, first_port, session), spec_of("one", str(first_port))
    drained = {"one": Wanted(Wish.DRAINED)}
    await first.start([spec])
    await first.until(lambda views: views["one"].phase is WorkerPhase.READY)
    await first.wish(drained)
    await first.supervisor.leave()
    before = FleetSnapshot(at=1.0, workers=tuple(first.views().values()))
    (pid,) = [view.pid for view in before.workers]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not first.backend.is_alive(spec), "its death")
    phases: list[WorkerPhase] = []
    daemon = Daemon(state_dir, first_port, session, lambda view: phases.append(view.phase))
    await daemon.wish(drained)
    await daemon.supervisor.start([spec], before)
    await daemon.until(lambda views: views["one"].phase is WorkerPhase.DRAINING)
    assert daemon.views()["one"].pid not in (None, pid)
    assert WorkerPhase.READY not in phases
    daemon.assert_one_process_each()
    await daemon.stop()
