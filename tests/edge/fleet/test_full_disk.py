"""Disks that are full, and a model that is gone, under workers that serve and die."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from ds4watch.config.profile import Engine
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.model.worker import WorkerPhase
from tests.edge.fleet.fleets import processes_with
from tests.edge.fleet.states import Daemon, spec_of
from tests.flow.daemon import free_ports

STAND_IN = """\
#!/bin/sh
# Takes what vLLM is started with, and dies as it does if its model is not there.
while [ $# -gt 0 ]; do
  case $1 in
    --model) model=$2 ;;
    --port) port=$2 ;;
    --served-model-name) name=$2 ;;
  esac
  shift
done
[ -d "$model" ] || { echo "OSError: Can't load the configuration of '$model'"; exit 1; }
exec PYTHON -m ds4watch sim --port "$port" --served-model-name "$name"
"""


@pytest.fixture
async def daemon(state_dir: Path) -> AsyncIterator[Daemon]:
    (first_port,) = free_ports(1)
    async with aiohttp.ClientSession() as session:
        yield Daemon(state_dir, first_port, session)
    for pid in processes_with(f"@{first_port}@"):
        os.kill(pid, signal.SIGKILL)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a disk of a megabyte on a folder."""
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"nothing can be mounted here: {error}")
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield folder / "filling"
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    """Write to the end of a file until its disk takes no more, not a byte."""
    with path.open("ab", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(bytes(4096))


def log_of(state_dir: Path, name: str) -> Path:
    return state_dir / "logs" / f"worker-{name}.log"


def kill(daemon: Daemon, name: str = "one") -> int:
    pid = daemon.views()[name].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


async def until_ready(daemon: Daemon, *names: str, after: Sequence[int] = ()) -> None:
    await daemon.until(
        lambda views: all(
            views[name].phase is WorkerPhase.READY and views[name].pid not in after
            for name in names or ("one",)
        )
    )


async def answer(daemon: Daemon, name: str = "one") -> int:
    view = daemon.views()[name]
    body = {"model": view.models[0], "prompt": "Hello", "max_tokens": 2}
    async with daemon.session.post(f"{view.url}/v1/completions", json=body) as answer:
        return answer.status


def said(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return sum(text in record.getMessage() for record in caplog.records)


async def test_with_the_disk_of_the_logs_full_workers_serve_and_start_and_it_is_said_once(
    daemon: Daemon, state_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with small_disk(state_dir / "logs") as filling:
        names = ("one", "other")
        await daemon.start([spec_of(name, daemon.tag) for name in names])
        await until_ready(daemon, *names)
        fill(filling)
        for name in names:
            fill(log_of(state_dir, name))  # there is room in its last block
        assert [await answer(daemon, name) for name in names] == [200, 200]
        dead = [kill(daemon, name) for name in names]
        await until_ready(daemon, *names, after=dead)
        assert [await answer(daemon, name) for name in names] == [200, 200]
        assert said(caplog, "workers serve on, what they log is lost") == 1
        filling.unlink()
        await until_ready(daemon, "one", after=[kill(daemon)])
        assert said(caplog, "has room again") == 1
        assert "ready on" in log_of(state_dir, "one").read_text(encoding="utf-8").splitlines()[-1]
        daemon.assert_one_process_each()
        await daemon.stop()


async def test_without_room_for_a_record_nothing_is_started_until_there_is(
    daemon: Daemon, state_dir: Path
) -> None:
    with small_disk(state_dir / "run") as filling:
        fill(filling)
        await daemon.start([spec_of("one", daemon.tag)])
        await until_told(daemon, "worker/one cannot be started: [Errno 28] No space left on device")
        assert not processes_with(f"@{daemon.tag}@")
        filling.unlink()
        await until_ready(daemon)
        daemon.assert_one_process_each()
        await daemon.stop()


async def until_told(daemon: Daemon, reason: str) -> None:
    await daemon.until(
        lambda views: views["one"].phase is WorkerPhase.FAILED and reason in views["one"].reason
    )


async def test_a_model_folder_that_is_gone_is_told_and_the_worker_comes_when_it_is_back(
    daemon: Daemon, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, gone = tmp_path / "model", tmp_path / "elsewhere"
    model.mkdir()
    await daemon.start([stand_in(daemon, tmp_path, model)])
    await until_ready(daemon)
    model.rename(gone)
    assert await answer(daemon) == 200
    pid = kill(daemon)
    await until_told(daemon, told := f"not started: there is no model folder {model}")
    await asyncio.sleep(1)  # it is tried again meanwhile
    assert said(caplog, told) == 1
    assert not processes_with(f"@{daemon.tag}@")
    gone.rename(model)
    await until_ready(daemon, after=[pid])
    daemon.assert_one_process_each()
    await daemon.stop()


def stand_in(daemon: Daemon, folder: Path, model: Path) -> WorkerSpec:
    """Return a worker whose vLLM is a program of the test."""
    program = folder / "python"
    program.write_text(STAND_IN.replace("PYTHON", shlex.quote(sys.executable)), encoding="utf-8")
    program.chmod(stat.S_IRWXU)
    spec = spec_of("one", daemon.tag)
    profile = spec.profile.model_copy(
        update={"engine": Engine.VLLM, "model": str(model), "vllm_python": str(program)}
    )
    return replace(spec, profile=profile)
