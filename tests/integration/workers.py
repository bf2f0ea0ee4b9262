"""Real vLLM workers for tests, without the daemon, and what they report."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import numpy as np

from ds4watch.config.profile import Profile
from ds4watch.fleet.command import worker_command
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Schema, SeriesKey
from ds4watch.model.worker import WorkerLoad
from ds4watch.scrape.exposition import PageReader
from ds4watch.vocabulary.compile import plan_for
from ds4watch.vocabulary.plan import read, write
from ds4watch.vocabulary.windows import RATIOS
from tests.unit.vocabulary.reference import Point

START_SECONDS = 400.0
STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class RealWorker:
    """A running worker."""

    name: str
    url: str
    log: Path


@contextlib.contextmanager
def running(
    profiles: Sequence[Profile], *, python: Path, state_dir: Path
) -> Iterator[Mapping[str, RealWorker]]:
    """Run a worker of each profile; start them together, end each with all that it started."""
    processes: list[subprocess.Popen[bytes]] = []
    workers: dict[str, RealWorker] = {}
    try:
        for profile in profiles:
            port = _free_port()
            log = state_dir / f"{profile.name}-{port}.log"
            processes.append(_start(profile, port, python, state_dir, log))
            workers[profile.name] = RealWorker(profile.name, f"http://127.0.0.1:{port}", log)
        for process, worker in zip(processes, workers.values(), strict=True):
            _wait_until_healthy(process, worker)
        yield workers
    finally:
        for process in processes:
            _signal(process, signal.SIGTERM)
        for process in processes:
            _end(process)


def _start(
    profile: Profile, port: int, python: Path, state_dir: Path, log: Path
) -> subprocess.Popen[bytes]:
    command = worker_command(
        profile,
        port=port,
        python=python,
        state_dir=state_dir,
        has_gpu=shutil.which("nvidia-smi") is not None,
    )
    with log.open("wb") as output:
        return subprocess.Popen(
            command.argv,
            env={**os.environ, **command.env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait_until_healthy(process: subprocess.Popen[bytes], worker: RealWorker) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        if _is_healthy(worker):
            return
        time.sleep(0.25)
    message = f"{worker.name} did not start: {worker.log.read_text(errors='replace')[-3000:]}"
    raise AssertionError(message)


def _is_healthy(worker: RealWorker) -> bool:
    try:
        with urllib.request.urlopen(f"{worker.url}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    _signal(process, signal.SIGKILL)
    process.wait(STOP_SECONDS)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _OneSchema:
    """Numbers schemas in the order in which they are met."""

    def __init__(self) -> None:
        self._known: dict[tuple[SeriesKey, ...], Schema] = {}

    def intern(self, series: tuple[SeriesKey, ...]) -> Schema:
        return self._known.setdefault(series, Schema(len(self._known), series))


@dataclass(frozen=True, slots=True)
class Reading:
    """One scrape of a worker, as ds4watch reads it.

    signals: (signal, value of its `reason` label or "") → value.
    """

    signals: Mapping[tuple[str, str], float]
    load: WorkerLoad
    point: Point

    def __getitem__(self, signal: str) -> float:
        return self.signals[signal, ""]


class Gauge:
    """Scrapes one worker through ds4watch's own reader and vocabulary."""

    def __init__(self, session: aiohttp.ClientSession, worker: RealWorker) -> None:
        self._session = session
        self._url = f"{worker.url}/metrics"
        self._pages = PageReader(_OneSchema())

    async def read(self, at: UnixSeconds = 0.0) -> Reading:
        """Scrape now."""
        async with self._session.get(self._url) as response:
            body, content_type = await response.read(), response.headers["Content-Type"]
        page = self._pages.read(body, content_type, "worker")
        plan = plan_for(page.schema)
        rows = np.concatenate([page.values, np.zeros(len(plan.own))])[None, :]
        found = read(plan, rows[:, : len(page.values)])
        write(plan, rows, found, np.full((1, len(RATIOS)), np.nan), (np.zeros(1), np.zeros(1)))
        own = zip(plan.own, rows[0, len(page.values) :].tolist(), strict=True)
        running, waiting, usage = found.take(plan.loads, axis=1)[0].tolist()
        return Reading(
            {
                (key.name, dict(key.labels).get("reason", "")): value
                for key, value in own
                if not math.isnan(value)
            },
            WorkerLoad(running, waiting, usage),
            (at, tuple(found.take(plan.counters, axis=1)[0].tolist())),
        )
