"""What NVML tells comes through to a person; what it does not tell is absent, not zero."""

from __future__ import annotations

from pathlib import Path

from tests.edge.scrape.nvml import fake_nvml
from tests.flow.daemon import new_daemon, until

GIB = 1 << 30


def test_memory_of_each_gpu_is_a_metric_and_unified_memory_is_none(tmp_path: Path) -> None:
    library = {"LD_LIBRARY_PATH": str(fake_nvml(tmp_path)), "FAKE_NVML": "busy unified"}
    with new_daemon(more=library) as daemon:
        daemon.up()
        busy, unified = '{gpu="0",uuid="GPU-busy"}', '{gpu="1"'
        until(lambda: daemon.metric(f"ds4_gpu_memory_used_bytes{busy}"), "a reading")
        assert daemon.metric(f"ds4_gpu_memory_used_bytes{busy}") == 74 * GIB
        assert daemon.metric(f"ds4_gpu_memory_total_bytes{busy}") == 80 * GIB
        assert daemon.metric(f"ds4_gpu_memory_used_bytes{unified}") is None
        assert daemon.metric(f"ds4_gpu_memory_total_bytes{unified}") is None
        assert daemon.metric(f"ds4_gpu_power_watts{busy}") == 612.5
        assert daemon.status()["gpus"]["available"]


def test_case_74_a_driver_that_does_not_match_is_told_and_the_watching_goes_on(
    tmp_path: Path,
) -> None:
    library = {"LD_LIBRARY_PATH": str(fake_nvml(tmp_path)), "FAKE_NVML": "mismatch"}
    with new_daemon(more=library) as daemon:
        daemon.up()
        why = "driver and NVML library do not match: reboot"
        series = f'ds4_gpu_unavailable{{reading="all",why="{why}"}}'
        until(lambda: daemon.metric(series) == 1, "the reason on the metrics page")
        assert daemon.status()["gpus"] == {"available": False, "why_not": why}
        assert [worker["phase"] for worker in daemon.status()["fleet"]] == ["ready", "ready"]
        assert daemon.metric("ds4_running_requests") is not None
