"""The real bindings (pynvml) over a small C library, each time in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ds4watch.scrape.gpu import MIG, UNIFIED, GpuReader
from tests.edge.scrape.nvml import fake_nvml

GIB = 1 << 30

READ_TWICE = """
import json, os
from dataclasses import asdict
from ds4watch.scrape.gpu import GpuReader
reader = GpuReader()
def look():
    readings = [asdict(reading) for reading in reader.read()]
    return {"gpus": readings, "available": reader.available, "why_not": reader.why_not}
first = look()
os.environ["FAKE_NVML"] = os.environ["FAKE_NVML_LATER"]
os.putenv("FAKE_NVML", os.environ["FAKE_NVML_LATER"])
print(json.dumps([first, look()]))
reader.close()
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_nvml(tmp_path_factory.mktemp("nvml"))


def look(library: Path, gpus: str, later: str | None = None) -> list[dict[str, Any]]:
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(library),
        "FAKE_NVML": gpus,
        "FAKE_NVML_LATER": later or gpus,
    }
    done = subprocess.run(
        [sys.executable, "-c", READ_TWICE],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    looks: list[dict[str, Any]] = json.loads(done.stdout)
    return looks


def test_gpus_are_read_with_name_memory_and_utilisation(library: Path) -> None:
    first, second = look(library, "busy idle")
    assert first == second
    assert first["available"]
    assert first["why_not"] == ""
    busy, idle = first["gpus"]
    assert (busy["index"], busy["uuid"], busy["name"]) == (0, "GPU-busy", "NVIDIA Fake")
    assert (busy["memory_used_bytes"], busy["memory_total_bytes"]) == (74 * GIB, 80 * GIB)
    assert busy["utilization_ratio"] == 0.98
    assert (idle["memory_used_bytes"], idle["utilization_ratio"], idle["why"]) == (0, 0.0, "")


@pytest.mark.parametrize("kind", ["unified", "zero"])
def test_unified_memory_is_absent_and_the_other_readings_are_kept(library: Path, kind: str) -> None:
    (gpu,) = look(library, kind)[0]["gpus"]
    assert (gpu["memory_used_bytes"], gpu["memory_total_bytes"]) == (None, None)
    assert gpu["why"] == UNIFIED
    assert gpu["utilization_ratio"] is not None
    assert gpu["uuid"] == f"GPU-{kind}"


def test_utilisation_is_absent_under_mig_and_not_an_idle_zero(library: Path) -> None:
    (gpu,) = look(library, "mig")[0]["gpus"]
    assert gpu["mig"]
    assert gpu["utilization_ratio"] is None
    assert gpu["memory_used_bytes"] == 74 * GIB
    assert gpu["why"] == MIG


def test_a_lost_gpu_is_told_and_its_neighbour_still_read(library: Path) -> None:
    lost, idle = look(library, "lost idle")[0]["gpus"]
    assert lost["memory_total_bytes"] is None
    assert "GPU is lost" in lost["why"]
    assert idle["memory_total_bytes"] == 80 * GIB


def test_a_driver_that_does_not_match_is_told_with_the_way_to_mend_it(library: Path) -> None:
    broken, mended = look(library, "mismatch", later="idle")
    assert broken["gpus"] == []
    assert not broken["available"]
    assert "reboot" in broken["why_not"]
    assert len(mended["gpus"]) == 1
    assert mended["available"]


def test_a_host_without_gpus_in_its_driver_has_no_readings(library: Path) -> None:
    assert look(library, "")[0] == {"gpus": [], "available": True, "why_not": ""}


def test_a_host_without_a_driver_has_no_readings_and_says_why() -> None:
    reader = GpuReader()
    readings = reader.read()
    if reader.available:
        pytest.skip("this host has an NVIDIA driver")
    assert readings == ()
    assert "no NVIDIA driver" in reader.why_not
    reader.close()


def test_real_gpus_are_read_where_there_are_some() -> None:
    reader = GpuReader()
    readings = reader.read()
    reader.close()
    if not readings:
        pytest.skip("this host has no NVIDIA GPU")
    for reading in readings:
        assert reading.uuid.startswith("GPU-")
        if reading.memory_total_bytes is not None:
            assert 0 <= (reading.memory_used_bytes or 0) <= reading.memory_total_bytes
