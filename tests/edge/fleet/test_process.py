"""Units as real processes: found again, told apart, ended whole."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ds4watch.fleet.process import ProcessRecord, ProcessTable, members
from tests.edge.clock import SystemClock

PYTHON = (sys.executable, "-S", "-c")
SLEEP = (*PYTHON, "import time; time.sleep(60)")
STUBBORN = (
    *PYTHON,
    """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('up', flush=True)
time.sleep(60)
""",
)
PARENT = (
    *PYTHON,
    """
import subprocess, sys, time
subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])
print('up', flush=True)
time.sleep(60)
""",
)


@pytest.fixture
async def table(tmp_path: Path) -> AsyncIterator[ProcessTable]:
    table = ProcessTable(tmp_path, SystemClock())
    yield table
    for record in list(table.records()):
        await table.stop(record, grace_seconds=0.0)


def spawn(table: ProcessTable, argv: tuple[str, ...], unit: str = "worker/a") -> ProcessRecord:
    return table.spawn(unit, argv, env=dict(os.environ), spec="s", port=1)


async def output_of(record: ProcessRecord, text: str) -> None:
    async with asyncio.timeout(10):
        while text not in Path(record.log).read_text(encoding="utf-8"):
            await asyncio.sleep(0.02)


async def record_of(table: ProcessTable, unit: str) -> ProcessRecord:
    """Wait for the record that the unit itself writes."""
    async with asyncio.timeout(10):
        while True:
            for record in table.records():
                if record.unit == unit:
                    return record
            await asyncio.sleep(0.02)


async def test_the_unit_writes_the_record_by_which_another_daemon_finds_it(
    table: ProcessTable, tmp_path: Path
) -> None:
    spawned = spawn(table, SLEEP)
    await record_of(table, "worker/a")
    (found,) = ProcessTable(tmp_path, SystemClock()).records()
    assert found == spawned
    assert found.is_alive()


async def test_a_stop_ends_the_leader_and_all_it_started(table: ProcessTable) -> None:
    record = spawn(table, PARENT)
    await output_of(record, "up")
    assert len(members(record)) == 2
    assert await table.stop(record, grace_seconds=5.0)
    assert members(record) == []
    assert list(table.records()) == []


async def test_what_ignores_sigterm_is_killed_after_the_grace(table: ProcessTable) -> None:
    record = spawn(table, STUBBORN)
    await output_of(record, "up")
    assert await table.stop(record, grace_seconds=0.2)
    assert not table.is_alive(record)


async def test_case_35_an_engine_that_outlived_its_leader_is_found_and_killed(
    table: ProcessTable,
) -> None:
    """SIGKILL of the API server leaves EngineCore on the GPU (vllm-project/vllm#55510)."""
    record = spawn(table, PARENT)
    await output_of(record, "up")
    os.kill(record.pid, signal.SIGKILL)
    async with asyncio.timeout(5):
        while table.is_alive(record):
            await asyncio.sleep(0.02)
    assert len(members(record)) == 1
    assert await table.stop(record, grace_seconds=5.0)
    assert members(record) == []


async def test_case_38_what_survives_sigkill_is_killed_once_told_once_and_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An engine that waits in the driver: only a restart ends it (unslothai/unsloth#3331)."""
    sent: list[int] = []

    def ignored(_pid: int, number: int) -> None:
        sent.append(number)

    table = ProcessTable(tmp_path, SystemClock(), ignored, kill_seconds=0.1)
    record = spawn(table, SLEEP)
    await record_of(table, "worker/a")
    for _ in range(3):
        assert not await table.stop(record, grace_seconds=0.1)
    assert sent == [signal.SIGTERM, signal.SIGKILL]
    (told,) = [it.message for it in caplog.records if it.levelname == "ERROR"]
    assert f"process {record.pid}" in told
    assert "restart of the machine" in told
    os.kill(record.pid, signal.SIGKILL)
    assert await table.stop(record, grace_seconds=0.1)
    assert "what survived SIGKILL is gone" in caplog.text
    assert list(table.records()) == []


async def test_two_processes_are_never_the_same_unit(table: ProcessTable) -> None:
    first = spawn(table, SLEEP)
    await record_of(table, "worker/a")
    second = spawn(table, SLEEP)
    async with asyncio.timeout(10):
        while table.is_alive(second):
            await asyncio.sleep(0.02)
    assert table.exit_code(second) == 75
    assert await record_of(table, "worker/a") == first


async def test_another_process_with_the_same_number_is_not_ours(table: ProcessTable) -> None:
    with subprocess.Popen(SLEEP, start_new_session=True) as stranger:
        forged = ProcessRecord(
            unit="worker/a",
            spec="s",
            port=1,
            log="",
            started_at=0.0,
            pid=stranger.pid,
            start_ticks=1,
            boot_id="b",
        )
        assert not forged.is_alive()
        assert members(forged) == []
        assert await table.stop(forged, grace_seconds=0.1)
        assert stranger.poll() is None
        stranger.kill()


async def test_a_death_tells_its_status(table: ProcessTable) -> None:
    record = spawn(table, (sys.executable, "-S", "-c", "raise SystemExit(3)"))
    async with asyncio.timeout(10):
        while table.is_alive(record):
            await asyncio.sleep(0.02)
    assert table.exit_code(record) == 3
    await table.stop(record, grace_seconds=0.1)


async def test_records_of_an_earlier_boot_and_spoiled_ones_are_left_aside(
    table: ProcessTable, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = spawn(table, SLEEP)
    await record_of(table, "worker/a")
    path = tmp_path / "run" / "worker-a.json"
    text = path.read_text(encoding="utf-8")
    (tmp_path / "run" / "worker-b.json").write_text(text.replace(record.boot_id, "earlier"))
    (tmp_path / "run" / "worker-c.json").write_text("{")
    assert [found.unit for found in table.records()] == ["worker/a"]
    assert "worker-c.json" in caplog.text
