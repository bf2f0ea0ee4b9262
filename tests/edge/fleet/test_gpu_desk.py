"""GPUs are given, taken back, remembered, and what a dead worker left on one is told."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ds4watch.config.profile import Engine, Profile
from ds4watch.fleet.devices import Holding
from ds4watch.fleet.gpu_desk import DeskTimes, GpuDesk, Leftover
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.model.errors import WorkerError
from ds4watch.scrape.gpu import GpuReading, GpuReport
from tests.edge.fleet.fleets import LocalFleet, place_of, until
from tests.edge.scrape.nvml import fake_nvml

GIB = 1 << 30
QUICK = DeskTimes(settle_seconds=0.03, look_seconds=0.01, look_again_seconds=0.01)

PROGRAM = """
import asyncio, json, sys
from ds4watch.config.profile import Profile
from ds4watch.fleet.gpu_desk import GpuDesk
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.model.errors import WorkerError
from ds4watch.scrape.gpu_watch import GpuWatch
from ds4watch.scrape.nvml import GpuReader
from tests.edge.clock import SystemClock

async def main():
    watch = GpuWatch(GpuReader(SystemClock(), with_holders=True), patience_seconds=5.0)
    desk = GpuDesk(watch, has_gpu=True)
    profile = Profile(name="p", served_names=("m",), model="m")
    for number in range(int(sys.argv[1])):
        try:
            print(json.dumps(dict(await desk.take(WorkerSpec(f"w-{number}", profile)))))
        except WorkerError as error:
            print(json.dumps(str(error)))
    watch.close()

asyncio.run(main())
"""


@dataclass
class Machine:
    """GPUs as NVML would tell of them; changed by the test."""

    report: GpuReport

    async def read(self) -> GpuReport:
        return self.report

    def use(self, index: int, gib: float, *pids: int) -> None:
        readings = list(self.report.readings)
        used = int(gib * GIB)
        readings[index] = replace(readings[index], memory_used_bytes=used, holders=pids)
        self.report = GpuReport(tuple(readings))


class Notes:
    def __init__(self) -> None:
        self.found: asyncio.Queue[Leftover] = asyncio.Queue()

    async def gpu_leftover(self, found: Leftover) -> None:
        await self.found.put(found)

    async def next(self) -> Leftover:
        async with asyncio.timeout(10):
            return await self.found.get()


@pytest.fixture
def machine() -> Machine:
    two = (GpuReading(n, f"GPU-{n}", memory_used_bytes=0, holders=()) for n in range(2))
    return Machine(GpuReport(tuple(replace(it, memory_total_bytes=80 * GIB) for it in two)))


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
async def desk(machine: Machine, notes: Notes) -> AsyncIterator[GpuDesk]:
    desk = GpuDesk(machine, notes, has_gpu=True, times=QUICK)
    yield desk
    await desk.close()


def vllm(worker_id: str, **fields: Any) -> WorkerSpec:
    profile = Profile(name="p", engine=Engine.VLLM, served_names=("m",), model="m", **fields)
    return WorkerSpec(worker_id, profile)


async def test_workers_that_come_at_once_get_gpus_of_their_own(desk: GpuDesk) -> None:
    given = list(await asyncio.gather(desk.take(vllm("a")), desk.take(vllm("b"))))
    assert given == [{"CUDA_VISIBLE_DEVICES": "GPU-0"}, {"CUDA_VISIBLE_DEVICES": "GPU-1"}]
    with pytest.raises(WorkerError, match=r"0 of 1 GPUs are free \(GPU-0: held by a; GPU-1: held"):
        await desk.take(vllm("c"))
    desk.release("a")
    assert await desk.take(vllm("c")) == given[0]


async def test_a_worker_that_is_started_anew_is_not_in_its_own_way(desk: GpuDesk) -> None:
    assert await desk.take(vllm("a", gpus=2)) == await desk.take(vllm("a", gpus=2))


async def test_a_gpu_that_a_profile_names_itself_is_given_to_nobody_else(desk: GpuDesk) -> None:
    own = {"CUDA_VISIBLE_DEVICES": "0"}
    assert await desk.take(vllm("a", environment=own)) == {}
    assert await desk.take(vllm("b")) == {"CUDA_VISIBLE_DEVICES": "GPU-1"}


async def test_while_nvml_is_silent_gpus_are_given_as_it_last_told_them(
    desk: GpuDesk, machine: Machine
) -> None:
    await desk.take(vllm("a"))
    machine.report = GpuReport(why_not="NVML does not answer in time")
    assert await desk.take(vllm("b")) == {"CUDA_VISIBLE_DEVICES": "GPU-1"}


async def test_if_nvml_never_told_a_worker_starts_as_it_would_alone(
    desk: GpuDesk, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.report = GpuReport(why_not="NVML: Unknown Error")
    assert await desk.take(vllm("a")) == {}
    assert "a: NVML tells of no GPU: none is assigned to it" in caplog.text
    with pytest.raises(WorkerError, match="0 of 1 GPUs are free, and there are no others"):
        await desk.take(vllm("b", gpus=1))


async def test_memory_that_a_dead_worker_left_is_told_once_and_once_when_it_is_free(
    desk: GpuDesk, machine: Machine, notes: Notes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await desk.take(vllm("a"))
    machine.use(0, 62.5)
    desk.release("a")
    found = await notes.next()
    assert found == Leftover("a", "GPU-0", int(62.5 * GIB))
    assert str(found) == (
        "62.5 GiB of GPU-0 are in use by no process that is known after a ended there"
    )
    assert await desk.take(vllm("b")) == {"CUDA_VISIBLE_DEVICES": "GPU-1"}  # it is not given away
    machine.use(0, 0.1)
    assert await notes.next() == Leftover("a", "GPU-0", 0)
    assert [it.levelname for it in caplog.records] == ["WARNING", "INFO"]
    assert notes.found.empty()


async def test_who_uses_the_memory_is_named(desk: GpuDesk, machine: Machine, notes: Notes) -> None:
    await desk.take(vllm("a"))
    machine.use(0, 10.0, 4242)
    desk.release("a")
    assert "in use by process 4242 after a ended" in str(await notes.next())


async def test_memory_that_was_in_use_before_or_is_anothers_is_not_the_dead_ones(
    desk: GpuDesk, machine: Machine, notes: Notes
) -> None:
    machine.use(0, 2.0)
    await desk.take(vllm("before", gpu_share=0.5))
    await desk.take(vllm("shares", gpu_share=0.5))
    machine.use(0, 40.0)
    desk.release("shares")
    await asyncio.sleep(0.06)
    machine.use(0, 2.0)
    desk.release("before")
    await asyncio.sleep(0.06)
    assert notes.found.empty()


async def test_what_a_worker_holds_is_in_its_record_and_the_next_daemon_knows_it(
    state_dir: Path, free_port: int, machine: Machine, notes: Notes
) -> None:
    program = state_dir / "python"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o700)
    place = replace(place_of(state_dir, free_port), vllm_python=program)
    spec = vllm("vllm-0")
    first = GpuDesk(machine, notes, has_gpu=True)
    fleet = LocalFleet(replace(place, gpus=first))
    backend = await fleet.daemon()
    await backend.start(spec)
    environment = Path(f"/proc/{backend.pid(spec)}/environ")
    given = b"CUDA_VISIBLE_DEVICES=GPU-0"
    await until(lambda: given in environment.read_bytes().split(b"\0"), "its GPU")
    await until(lambda: list(fleet.tables[0].records()), "its record")
    second = GpuDesk(machine, notes, has_gpu=True)
    later = LocalFleet(replace(place, gpus=second))
    adopting = await later.daemon()
    assert list(await adopting.adopt([spec])) == [spec.id]
    assert second.holding(spec.id) == Holding(("GPU-0",))
    assert await second.take(vllm("b")) == {"CUDA_VISIBLE_DEVICES": "GPU-1"}
    assert await adopting.stop(spec)
    assert second.holding(spec.id) == Holding()
    for it in (fleet, later):
        it.reap()
    await asyncio.gather(first.close(), second.close())


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_nvml(tmp_path_factory.mktemp("nvml"))


def assigned(library: Path, gpus: str, count: int) -> list[Any]:
    """Return what so many workers get where NVML tells of such GPUs."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(count)],
        env=os.environ | {"LD_LIBRARY_PATH": str(library), "FAKE_NVML": gpus},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_through_nvml_busy_lost_and_divided_gpus_are_told_apart(library: Path) -> None:
    first, second, refused = assigned(library, "busy lost idle mig left", 3)
    assert first == {"CUDA_VISIBLE_DEVICES": "GPU-idle"}
    assert second.startswith(
        "not started: 0 of 1 GPUs are free (GPU-busy: 74.0 of 80.0 GiB in use "
    )
    assert "process 4242; GPU-idle: held by w-0; MIG-0: 9.0 of 10.0 GiB in use by nobody" in second
    assert "GPU-left: 74.0 of 80.0 GiB in use by nobody known" in second
    assert "lost" not in second
    assert refused == second


def test_gpus_with_unified_memory_are_given_too(library: Path) -> None:
    assert assigned(library, "unified", 1) == [{"CUDA_VISIBLE_DEVICES": "GPU-unified"}]
