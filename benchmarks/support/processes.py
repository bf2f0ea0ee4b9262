"""Processes under measurement: started, watched through /proc, ended."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """Return a port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(
    argv: Sequence[str | Path], log: Path, *, core: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program, on one core if said so, and end it with all it started."""
    pinned = ["taskset", "-c", str(core)] if core is not None else []
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*pinned, *map(str, argv)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)  # SIGTERM would leave a daemon's gateways and workers
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def python(module: str, *arguments: object) -> list[str]:
    """Return the command of a module of ours."""
    return [sys.executable, "-m", module, *map(str, arguments)]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time, user and system, that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def memory_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(one for one in status.splitlines() if one.startswith("VmRSS"))
    return int(line.split()[1]) << 10


def fetched(url: str) -> str:
    """Return what a local address answers."""
    with urllib.request.urlopen(url, timeout=30) as response:
        return str(response.read().decode())


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for a condition; errors of connection mean "not yet". Exits when time is up."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if condition():
                return
        time.sleep(0.02)
    raise SystemExit(f"{what}: not within {seconds:.0f} s")


def metric(page: str, name: str) -> float:
    """Return the sum of a metric's samples on a page; 0 if there are none."""
    return sum(
        float(line.rpartition(" ")[2])
        for line in page.splitlines()
        if line.startswith((f"{name} ", f"{name}{{"))
    )
