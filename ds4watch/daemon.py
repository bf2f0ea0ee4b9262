"""The daemon from its start to its end: it leads, stands by, is read anew, is stopped."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvloop

from ds4watch.config.files import LoadedSettings
from ds4watch.config.places import resolve_state_dir
from ds4watch.config.settings import Settings
from ds4watch.daemon_parts import assemble
from ds4watch.engine.again import Reload, execute_anew, faults_of
from ds4watch.engine.blueprint import Blueprint, read_blueprint
from ds4watch.engine.replica import Held, open_lease
from ds4watch.engine.turn import Turn
from ds4watch.fleet.board import CONTROL_SOCKET
from ds4watch.fleet.ending import end_daemon, stop_units
from ds4watch.fleet.lock import daemon_lock, make_state_dir, replica_id, running_daemon
from ds4watch.history.migrate import Which
from ds4watch.history.place import place_of
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.scrape.descriptors import raise_limit
from ds4watch.telemetry.logging import configure
from ds4watch.telemetry.service_manager import ServiceManager, service_manager
from ds4watch.web.kept_listener import KeptListener, handed_on

log = logging.getLogger(__name__)

_GARBAGE_THRESHOLDS = (50_000, 20, 50)
"""Ticks make next to no garbage, and over 300 targets a full search holds all up for 30 ms."""
_GPU_SECONDS = 5.0
"""Time for NVML's answer before a worker is started."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class SystemClock:
    """The real clock."""

    def now(self) -> UnixSeconds:
        """Return the wall-clock instant."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds on a clock that never steps."""
        return time.monotonic()


def run(settings: Settings, *, config_file: Path | None, sim: bool) -> int:
    """Run until told to stop; return the exit code. Raises ConfigError on bad input."""
    configure("INFO", sys.stderr)
    came = handed_on(os.environ)
    state_dir = resolve_state_dir(settings, os.environ).absolute()
    make_state_dir(state_dir)
    raise_limit()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    with daemon_lock(state_dir):
        clock = SystemClock()
        loaded = LoadedSettings(settings, config_file)
        read = partial(read_blueprint, loaded, state_dir, clock, sim=sim)
        blueprint = read()
        for lint in blueprint.out_of_order:
            log.warning("%s", lint.found)
        manager = service_manager(os.environ)
        kept = KeptListener(came, manager)
        told, code = uvloop.run(_serve(blueprint, read, manager, kept, clock))
    if told is signal.SIGHUP:
        kept.hand_on(os.environ)
        execute_anew(sys.orig_argv)
    return code


def down(settings: Settings) -> int:
    """Stop daemon, gateways and workers of a state folder; return the exit code."""
    configure("INFO", sys.stderr)
    clock = SystemClock()
    state_dir = resolve_state_dir(settings, os.environ).absolute()
    if not state_dir.exists():
        sys.stdout.write(f"nothing runs: there is no state folder {state_dir}\n")
        return 0
    pid = running_daemon(state_dir)
    if pid is not None:
        sys.stdout.write(f"daemon {pid}: draining the gateway, stopping the workers …\n")
        end_daemon(pid, state_dir, settings, clock)
    with daemon_lock(state_dir):
        left = asyncio.run(stop_units(state_dir, settings, clock))
        (state_dir / CONTROL_SOCKET).unlink(missing_ok=True)
    sys.stdout.write("".join(f"{line}\n" for line in left or ("everything is stopped",)))
    return 1 if left else 0


async def _serve(
    blueprint: Blueprint,
    read: Callable[[], Blueprint],
    manager: ServiceManager,
    kept: KeptListener,
    clock: Clock,
) -> tuple[signal.Signals, int]:
    """Serve until a signal: lead, or stand by until the lease falls to us, and so on.

    Returns the signal and the exit code.
    """
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[signal.Signals] = loop.create_future()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _told_to_stop, stop, number)
    async with AsyncExitStack() as stack:
        held = await _lease(blueprint, clock, stack)
        turn = Turn(held.leadership if held is not None else None)
        await turn.choose()
        outside = _Outside(manager, kept, clock)
        while (ended := await _take_turn(blueprint, outside, turn, held, stop)) is None:
            await turn.choose()
            blueprint = read()
        return ended


async def _lease(blueprint: Blueprint, clock: Clock, stack: AsyncExitStack) -> Held | None:
    """Open the lease, where the database is one that several daemons may share."""
    settings, state_dir = blueprint.settings, blueprint.state_dir
    if settings.store.url is None:
        return None
    history = place_of(settings.store, state_dir, Which.STATE)
    return await open_lease(history, settings, replica_id(state_dir), clock, stack)


@dataclass(frozen=True, slots=True)
class _Outside:
    """What outlives a turn."""

    manager: ServiceManager
    kept: KeptListener
    clock: Clock


async def _take_turn(
    blueprint: Blueprint,
    outside: _Outside,
    turn: Turn,
    held: Held | None,
    stop: asyncio.Future[signal.Signals],
) -> tuple[signal.Signals, int] | None:
    """Lead or stand by; return the signal and the exit code, or None when the turn is over.

    Put the parts together, run them, take them down as the end of it says.
    """
    manager = outside.manager
    async with turn, AsyncExitStack() as stack:
        daemon = await assemble(
            blueprint,
            outside.clock,
            manager,
            stack,
            turn=turn,
            held=held,
            kept_listener=outside.kept,
        )
        turn.is_well = daemon.is_ticking
        gc.freeze()
        reload = Reload(
            lambda: faults_of(blueprint.file, sim=blueprint.sim),
            daemon.note,
            lambda: _told_to_stop(stop, signal.SIGHUP),
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload.ask)
        manager.ready()
        told = await turn.run(daemon, stop)
        if told is None:
            return None
        (manager.reloading if told is signal.SIGHUP else manager.stopping)()
        if told is signal.SIGINT:
            is_clean = not turn.leads or await daemon.stop_everything()
            await turn.release()
            return told, 0 if is_clean else 1
        await daemon.leave()
        return told, 0


def _told_to_stop(stop: asyncio.Future[signal.Signals], number: signal.Signals) -> None:
    if not stop.done():
        stop.set_result(number)
