"""The real bindings (pynvml) over a small C library, each time in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ds4watch.engine.signals import gpu_samples
from ds4watch.model.series import Labels
from ds4watch.scrape.gpu import (
    LATE,
    LOST,
    MIG,
    MISMATCH,
    NO_DRIVER,
    NOT_SUPPORTED,
    UNIFIED,
    GpuReading,
    GpuReport,
)
from ds4watch.scrape.gpu_probe import gpu_start_fault
from ds4watch.scrape.gpu_watch import GpuWatch
from ds4watch.scrape.nvml import LOOK_AGAIN_SECONDS, GpuReader
from tests.edge.clock import SystemClock
from tests.edge.scrape.nvml import fake_nvml

GIB = 1 << 30

LOOK = """
import ctypes, json, os, sys
from dataclasses import asdict
from ds4watch.scrape.nvml import GpuReader

class Clock:
    seconds = 0.0
    def now(self): return self.seconds
    def monotonic(self): return self.seconds

clock = Clock()
reader = GpuReader(clock)
looks = []
for step in json.loads(sys.argv[1]):
    clock.seconds += step["after"]
    os.environ["FAKE_NVML"] = step["gpus"]
    looks.append(asdict(reader.read()))
reader.close()
library = ctypes.CDLL("libnvidia-ml.so.1")
calls = {name: ctypes.c_uint.in_dll(library, f"fake_nvml_{name}").value
         for name in ("handles_given", "inits")}
print(json.dumps([looks, calls]))
"""

WATCH = """
import asyncio, json, os
from dataclasses import asdict
from ds4watch.scrape.gpu_watch import GpuWatch
from ds4watch.scrape.nvml import GpuReader
from tests.edge.clock import SystemClock

async def main():
    watch = GpuWatch(GpuReader(SystemClock()), patience_seconds=0.05)
    looks = [asdict(await watch.read()) for _ in range(3)]
    with open(os.environ["FAKE_NVML_GATE"], "w"):
        os.environ["FAKE_NVML"] = "idle"
    while (report := await watch.read()).why_not:
        await asyncio.sleep(0.01)
    looks.append(asdict(report))
    os.environ["FAKE_NVML"] = "slow"
    looks.append(asdict(await watch.read()))
    watch.close()
    print(json.dumps(looks))

asyncio.run(main())
"""

UPDATE = """
import asyncio, json, os
from dataclasses import asdict
from ds4watch.scrape.gpu_probe import gpu_start_fault
from ds4watch.scrape.nvml import GpuReader
from tests.edge.clock import SystemClock

async def main():
    reader = GpuReader(SystemClock())
    reader.read()
    before = await gpu_start_fault()
    os.environ["FAKE_NVML_UPDATED"] = "yes"
    print(json.dumps([before, await gpu_start_fault(), asdict(reader.read())]))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_nvml(tmp_path_factory.mktemp("nvml"))


def python(program: str, *arguments: str, **environment: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def report_of(look: dict[str, Any]) -> GpuReport:
    readings = [
        GpuReading(**reading | {"missing": tuple(map(tuple, reading["missing"]))})
        for reading in look["readings"]
    ]
    return GpuReport(tuple(readings), look["why_not"])


def looks(library: Path, *steps: tuple[float, str]) -> tuple[list[GpuReport], dict[str, int]]:
    """Return what was read after each (seconds since the last, GPUs), and calls of the library."""
    told = json.dumps([{"after": after, "gpus": gpus} for after, gpus in steps])
    found, calls = python(LOOK, told, LD_LIBRARY_PATH=str(library))
    return [report_of(look) for look in found], calls


def look(library: Path, gpus: str) -> GpuReport:
    (report,), _ = looks(library, (0, gpus))
    return report


def series(report: GpuReport) -> Mapping[tuple[str, Labels], float]:
    return {(sample.name, sample.labels): sample.value for sample in gpu_samples(report)}


def names(report: GpuReport) -> set[str]:
    return {sample.name.removeprefix("ds4_gpu_") for sample in gpu_samples(report)}


def test_gpus_are_read_with_all_that_they_tell(library: Path) -> None:
    report = look(library, "busy idle")
    assert report.available
    assert report.has_gpu
    busy, idle = report.readings
    assert busy == GpuReading(
        index=0,
        uuid="GPU-busy",
        name="NVIDIA Fake",
        memory_used_bytes=74 * GIB,
        memory_total_bytes=80 * GIB,
        utilization_ratio=0.98,
        power_watts=612.5,
        temperature_celsius=61,
        ecc_corrected=12,
        ecc_uncorrected=3,
    )
    assert (idle.memory_used_bytes, idle.utilization_ratio, idle.ecc_uncorrected) == (0, 0.0, 0)
    whose = (("gpu", "0"), ("uuid", "GPU-busy"))
    assert series(report)["ds4_gpu_power_watts", whose] == 612.5
    kind = (("gpu", "0"), ("kind", "uncorrected"), ("uuid", "GPU-busy"))
    assert series(report)["ds4_gpu_ecc_errors_total", kind] == 3
    assert "unavailable" not in names(report)


@pytest.mark.parametrize("kind", ["unified", "zero"])
def test_case_69_unified_memory_is_absent_and_the_other_readings_are_kept(
    library: Path, kind: str
) -> None:
    report = look(library, kind)
    (gpu,) = report.readings
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (None, None)
    assert ("memory", UNIFIED) in gpu.missing
    assert gpu.utilization_ratio is not None
    assert gpu.temperature_celsius is not None
    assert gpu.uuid == f"GPU-{kind}"
    assert not {"memory_used_bytes", "memory_total_bytes"} & names(report)
    why = (("gpu", "0"), ("reading", "memory"), ("uuid", gpu.uuid), ("why", UNIFIED))
    assert series(report)["ds4_gpu_unavailable", why] == 1


def test_case_69_a_gb10_tells_its_load_and_its_temperature(library: Path) -> None:
    (gpu,) = look(library, "unified").readings
    assert (gpu.utilization_ratio, gpu.temperature_celsius) == (0.02, 38)
    assert gpu.missing == (("memory", UNIFIED), ("ecc", NOT_SUPPORTED))


def test_case_71_under_mig_utilisation_is_not_measurable_instead_of_0(library: Path) -> None:
    report = look(library, "mig busy")
    assert "utilization_ratio" in names(report)
    assert [reading.utilization_ratio for reading in report.readings] == [None, None, None, 0.98]
    whose = (("gpu", "0"), ("reading", "utilization"), ("uuid", "GPU-mig"), ("why", MIG))
    assert series(report)["ds4_gpu_unavailable", whose] == 1
    assert "not measurable" in MIG


def test_each_mig_instance_has_its_own_memory_and_its_own_name(library: Path) -> None:
    report = look(library, "mig")
    whole, first, second = report.readings
    assert (whole.mig, whole.memory_used_bytes, whole.power_watts) == ("", 74 * GIB, 70.0)
    assert (first.mig, first.memory_used_bytes, first.memory_total_bytes) == (
        "MIG-0",
        9 * GIB,
        10 * GIB,
    )
    assert (second.mig, second.memory_used_bytes) == ("9/0", GIB)
    assert {reading.uuid for reading in report.readings} == {"GPU-mig"}
    labels = (("gpu", "0"), ("mig", "MIG-0"), ("uuid", "GPU-mig"))
    assert series(report)["ds4_gpu_memory_used_bytes", labels] == 9 * GIB


def test_what_a_gpu_does_not_support_is_absent_and_said_once(library: Path) -> None:
    report = look(library, "bare")
    assert names(report) == {"memory_used_bytes", "memory_total_bytes", "unavailable"}
    assert [reading for reading, why in report.readings[0].missing if why == NOT_SUPPORTED] == [
        "utilization",
        "power",
        "temperature",
        "ecc",
    ]


def test_a_lost_gpu_is_told_and_its_neighbour_still_read(library: Path) -> None:
    report = look(library, "lost idle")
    lost, idle = report.readings
    assert lost.missing == (("all", LOST),)
    assert lost.memory_total_bytes is None
    assert idle.memory_total_bytes == 80 * GIB
    assert report.has_gpu


def test_a_gpu_that_gets_lost_keeps_its_name_and_comes_back(library: Path) -> None:
    soon, later = 1.0, LOOK_AGAIN_SECONDS
    reports, calls = looks(
        library, (0, "idle"), (soon, "lost"), (later, "lost"), (soon, "idle"), (later, "idle")
    )
    healthy, lost, still, _, back = (report.readings[0] for report in reports)
    assert {why for _, why in lost.missing} == {LOST}
    assert lost.memory_used_bytes is None
    assert (still.uuid, still.missing) == ("GPU-idle", (("all", LOST),))
    assert back == healthy
    assert calls["inits"] == 3


def test_handles_are_kept_from_one_reading_to_the_next(library: Path) -> None:
    _, calls = looks(library, *[(1.0, "busy idle")] * 20)
    assert calls == {"handles_given": 2, "inits": 1}


def test_case_74_a_driver_that_does_not_match_is_told_with_the_way_to_mend_it(
    library: Path,
) -> None:
    (broken, soon, mended), calls = looks(
        library, (0, "mismatch"), (1, "idle"), (LOOK_AGAIN_SECONDS, "idle")
    )
    assert broken == soon == GpuReport(why_not=MISMATCH)
    assert not broken.available
    assert "reboot" in MISMATCH
    assert series(broken) == {("ds4_gpu_unavailable", (("reading", "all"), ("why", MISMATCH))): 1}
    assert len(mended.readings) == 1
    assert calls["inits"] == 2


def test_case_74_a_new_engine_would_meet_what_an_open_library_does_not(library: Path) -> None:
    """The driver is updated while the daemon runs: its readings go on, and starts would fail."""
    before, after, report = python(UPDATE, LD_LIBRARY_PATH=str(library), FAKE_NVML="idle")
    assert (before, after) == ("", MISMATCH)
    assert report_of(report).readings[0].memory_total_bytes == 80 * GIB


async def test_without_a_driver_nothing_is_held_against_a_start() -> None:
    assert await gpu_start_fault() == ""


def test_case_74_the_machine_still_counts_as_one_with_a_gpu(library: Path) -> None:
    """So that the engines that run there are recognised, and not ended as if made for a CPU."""
    assert look(library, "mismatch").has_gpu
    assert not look(library, "unloaded").has_gpu


def test_a_host_without_gpus_in_its_driver_has_no_readings(library: Path) -> None:
    report = look(library, "")
    assert report == GpuReport()
    assert report.available
    assert not report.has_gpu


def test_a_call_that_hangs_is_said_to_be_late_and_neither_repeated_nor_waited_for(
    library: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    found = python(WATCH, LD_LIBRARY_PATH=str(library), FAKE_NVML="slow", FAKE_NVML_GATE=str(gate))
    *late, back, late_again = [report_of(look) for look in found]
    assert late == [GpuReport(why_not=LATE)] * 3
    assert late[0].has_gpu
    assert back.readings[0].memory_total_bytes == 80 * GIB
    assert late_again == GpuReport(why_not=LATE)


def test_a_host_without_a_driver_has_no_readings_and_says_why() -> None:
    reader = GpuReader(SystemClock())
    report = reader.read()
    reader.close()
    if report.available:
        pytest.skip("this host has an NVIDIA driver")
    assert report == GpuReport(why_not=NO_DRIVER)
    assert not report.has_gpu
    assert reader.known() == report


class Absent:
    """A reader on a host without a driver; notes in which thread it was asked."""

    def __init__(self) -> None:
        self.asked_in: list[str] = []
        self.left_alone = False

    def known(self) -> GpuReport | None:
        return GpuReport(why_not=NO_DRIVER) if self.left_alone else None

    def read(self) -> GpuReport:
        self.asked_in.append(threading.current_thread().name)
        return GpuReport(why_not=NO_DRIVER)

    def close(self) -> None: ...


async def test_without_a_driver_a_thread_asks_for_it_now_and_then_and_not_at_every_tick() -> None:
    reader = Absent()
    watch = GpuWatch(reader, patience_seconds=5.0)
    first = await watch.read()
    reader.left_alone = True
    assert [await watch.read() for _ in range(3)] == [first] * 3
    assert reader.asked_in == ["nvml"]
    reader.left_alone = False
    assert await watch.read() == first
    assert reader.asked_in == ["nvml", "nvml"]


def test_real_gpus_are_read_where_there_are_some() -> None:
    reader = GpuReader(SystemClock())
    report = reader.read()
    reader.close()
    if not report.readings:
        pytest.skip("this host has no NVIDIA GPU")
    for reading in report.readings:
        assert reading.uuid.startswith("GPU-")
        assert (reading.temperature_celsius or 20) > 0
        if reading.memory_total_bytes is not None:
            assert 0 <= (reading.memory_used_bytes or 0) <= reading.memory_total_bytes
