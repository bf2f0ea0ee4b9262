"""Ending a daemon from outside, and what one that is gone has left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from ds4watch.config.settings import Settings
from ds4watch.fleet.backend import LocalPlace
from ds4watch.fleet.lock import running_daemon
from ds4watch.fleet.open_backend import open_all, recorded
from ds4watch.fleet.process import ProcessTable, left_of
from ds4watch.model.errors import WorkerError
from ds4watch.model.ports import Clock

_STOP_SECONDS = 30.0


def end_daemon(pid: int, state_dir: Path, settings: Settings, clock: Clock) -> None:
    """Tell the daemon to stop everything and wait; one that does not in time is killed."""
    processes = recorded(state_dir, ProcessTable(state_dir, clock))
    grace = max((settings.fleet.stop_grace_seconds, *(it.end_seconds for it in processes)))
    patience = settings.gateway.drain_seconds + grace + _STOP_SECONDS
    deadline = time.monotonic() + patience
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGINT)
    while running_daemon(state_dir) is not None:
        if time.monotonic() > deadline:
            sys.stdout.write(f"daemon {pid} does not answer for {patience:g} s: killed\n")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            deadline += _STOP_SECONDS
        time.sleep(0.1)


async def _stop_elsewhere(state_dir: Path, settings: Settings, clock: Clock) -> list[str]:
    """Stop workers that systemd or Ray run for a daemon that is gone; return what withstood.

    Raises ConfigError if nobody can be asked there.
    """
    fleet = settings.fleet
    place = LocalPlace(
        state_dir=state_dir,
        vllm_python=Path(),
        has_gpu=False,
        first_port=fleet.first_port,
        stop_grace_seconds=fleet.stop_grace_seconds,
        gpu_fault=_no_fault,
    )
    left: list[str] = []
    async with contextlib.AsyncExitStack() as stack:
        table = ProcessTable(state_dir, clock)
        for backend in await open_all(fleet, place, table, clock, stack):
            try:
                await backend.adopt(())
                left += await backend.left()
            except WorkerError as error:
                left.append(f"workers may run still: {error}; run `ds4watch down` again")
    return left


async def _no_fault() -> str:
    return ""


async def stop_units(state_dir: Path, settings: Settings, clock: Clock) -> tuple[str, ...]:
    """Stop what a daemon that is gone has left: gateways first, so that they can drain.

    Returns a line for each that runs still, with how to end it.
    """
    table = ProcessTable(state_dir, clock)
    records = sorted(table.records(), key=lambda record: record.unit)
    drain_seconds = settings.gateway.drain_seconds + settings.fleet.stop_grace_seconds
    for kind in ("gateway/", "worker/"):
        stops = [
            table.stop(record, grace_seconds=drain_seconds)
            for record in records
            if record.unit.startswith(kind)
        ]
        await asyncio.gather(*stops)
    left = [line for record in records if (line := left_of(record))]
    left += await _stop_elsewhere(state_dir, settings, clock)
    return tuple(dict.fromkeys(left))
