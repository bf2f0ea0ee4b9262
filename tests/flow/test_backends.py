"""A daemon whose workers are units of (a fake) systemd: they outlive it and are its next one's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, is_missing
from tests.flow.daemon import PROGRAM, Daemon, environment, is_running, new_daemon, until

pytestmark = pytest.mark.slow


@pytest.fixture
def bus(state_dir: Path) -> Iterator[str]:
    """Yield the address of a bus with a fake systemd on it, which outlives every daemon."""
    if shutil.which("dbus-daemon") is None:
        is_missing("the program dbus-daemon is not installed")
    command = [sys.executable, "-m", "tests.edge.fleet.fake_systemd", str(state_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as fake:
        assert fake.stdout is not None
        yield fake.stdout.readline().strip()
        fake.terminate()


@pytest.fixture
def daemon(bus: str) -> Iterator[Daemon]:
    fleet = {"backend": "systemd", "systemd": {"bus": "user"}}
    with new_daemon(fleet=fleet, more={"DBUS_SESSION_BUS_ADDRESS": bus}) as daemon:
        yield daemon


def pids(daemon: Daemon) -> dict[str, int]:
    return {it["id"]: it["pid"] for it in daemon.status()["fleet"]}


def test_workers_outlive_a_killed_daemon_serve_the_next_and_are_ended_by_down(
    daemon: Daemon,
) -> None:
    daemon.up()
    before = pids(daemon)
    assert len(before) == 2
    assert not [unit for unit in daemon.records() if unit.startswith("worker/")]
    daemon.signal(signal.SIGKILL)
    daemon.wait()
    assert all(map(is_running, before.values()))
    daemon.up()
    assert pids(daemon) == before
    os.kill(before["sim-full-0"], signal.SIGKILL)
    until(lambda: pids(daemon)["sim-full-0"] not in (before["sim-full-0"], None), "a new worker")
    daemon.until_ready()
    after = pids(daemon)
    daemon.signal(signal.SIGKILL)
    daemon.wait()
    done = subprocess.run(
        [*PROGRAM, "down", *daemon.options],
        env=environment(**daemon.environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not any(map(is_running, after.values()))
    assert not list((daemon.state / "run").iterdir())
