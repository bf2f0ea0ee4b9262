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
from ds4watch.fleet.open_backend import open_backend
from ds4watch.fleet.process import ProcessTable
from ds4watch.model.ports import Clock

_STOP_SECONDS = 30.0


def end_daemon(pid: int, state_dir: Path, settings: Settings) -> None:
    """Tell the daemon to stop everything and wait; one that does not in time is killed."""
    patience = settings.gateway.drain_seconds + settings.fleet.stop_grace_seconds + _STOP_SECONDS
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


async def _stop_elsewhere(state_dir: Path, settings: Settings, clock: Clock) -> None:
    """Stop workers that systemd or Ray run for a daemon that is gone. Raises ConfigError."""
    fleet = settings.fleet
    place = LocalPlace(
        state_dir=state_dir,
        vllm_python=Path(),
        has_gpu=False,
        first_port=fleet.first_port,
        stop_grace_seconds=fleet.stop_grace_seconds,
        gpu_fault=_no_fault,
    )
    async with contextlib.AsyncExitStack() as stack:
        table = ProcessTable(state_dir, clock)
        await (await open_backend(fleet, place, table, clock, stack)).adopt(())


async def _no_fault() -> str:
    return ""


async def stop_units(state_dir: Path, settings: Settings, clock: Clock) -> bool:
    """Stop what a daemon that is gone has left: gateways first, so that they can drain."""
    table = ProcessTable(state_dir, clock)
    records = sorted(table.records(), key=lambda record: record.unit)
    drain_seconds = settings.gateway.drain_seconds + settings.fleet.stop_grace_seconds
    gone = True
    for kind in ("gateway/", "worker/"):
        stops = [
            table.stop(record, grace_seconds=drain_seconds)
            for record in records
            if record.unit.startswith(kind)
        ]
        gone = all(await asyncio.gather(*stops)) and gone
    await _stop_elsewhere(state_dir, settings, clock)
    return gone
