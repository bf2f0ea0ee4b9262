"""The daemon while it runs: its loops, and the two ways to end it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ds4watch.actions.runner import Runner
from ds4watch.engine.api_keys import ApiKeys
from ds4watch.engine.command_run import CommandRun
from ds4watch.engine.model_easing import ModelEasing
from ds4watch.engine.own_books import OwnBooks
from ds4watch.engine.patience import Patience
from ds4watch.engine.person_wishes import PersonWishes
from ds4watch.engine.place import Place
from ds4watch.engine.rolling_run import RollingRun
from ds4watch.engine.start_check import StartCheck
from ds4watch.engine.tick import Engine
from ds4watch.fleet.board import BoardPublisher
from ds4watch.fleet.gateways import GatewayKeeper
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.history.state import StateStore
from ds4watch.model.errors import StoreError
from ds4watch.model.ports import Clock
from ds4watch.notify.dispatcher import Dispatcher
from ds4watch.scrape.discovery import Discovery
from ds4watch.telemetry.service_manager import ServiceManager

log = logging.getLogger(__name__)

_GATEWAY_START_SECONDS = 15.0
_TELL_LOOK_SECONDS = 0.5
_SIGNS_A_WATCHDOG = 3
_NO_WATCHDOG_SECONDS = 3600.0
_STANDS_STILL_SECONDS = 120.0
"""Far over every time-out within a tick."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """The running parts that need to be ended with care."""

    engine: Engine
    discovery: Discovery
    runner: Runner
    dispatcher: Dispatcher
    supervisor: Supervisor
    wishes: PersonWishes
    keys: ApiKeys
    models: ModelEasing
    commands: CommandRun
    starts: StartCheck
    own_books: OwnBooks
    rolling: RollingRun
    keeper: GatewayKeeper
    board: BoardPublisher
    state: StateStore
    place: Place
    manager: ServiceManager
    clock: Clock
    also: dict[str, Callable[[], Coroutine[Any, Any, None]]] = field(default_factory=dict)
    """Loops of what is loaded beside the ticks."""

    def watching(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Return what runs until the end, whoever leads."""
        return {
            "engine": self.engine.run(),
            "discovery": self.discovery.run(),
            "service manager": self._say_alive(),
        }

    def acting(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Return what runs while this daemon may act."""
        return {
            "actions": self._act(),
            "notify": self.dispatcher.run(),
            "gateways": self.keeper.keep(),
            "rolling change": self.rolling.run(),
            "keys": self.keys.run(),
            "models": self.models.run(),
            "own requests": self.own_books.run(),
            "commands": self.commands.run(),
            "tell": self._tell(),
            "workers": self.supervisor.watch(),
            **{name: run() for name, run in self.also.items()},
        }

    async def stop_everything(self) -> bool:
        """Drain the gateways, stop the workers. Returns False if something survived."""
        log.info("stopping: draining the gateway")
        drained = await self.keeper.stop()
        log.info("stopping: ending the workers")
        stopped = await self.supervisor.stop()
        await self._keep_hours()
        await self.note("stopped everything")
        log.info("stopped")
        return drained and stopped

    async def pause(self) -> None:
        """Stop acting, at once; workers and gateways serve on."""
        await self.supervisor.leave()

    async def leave(self) -> None:
        """End the daemon alone; workers and gateways go on for the next one to adopt."""
        await self.supervisor.leave()
        await self._keep_hours()
        await self.note("the daemon left; workers and gateway go on")
        log.info("left: workers and gateway go on")

    async def _keep_hours(self) -> None:
        """Keep the sums of hours as of the last tick, for the next daemon; ticks do so at times."""
        if not self.place.standing.leads:
            return
        try:
            await self.state.keep_carry(self.engine.known.cost.as_json())
        except StoreError as error:
            log.warning("the last minute of this hour's sums is not kept: %s", error)

    async def note(self, summary: str) -> None:
        """Write into the audit what the daemon does with itself."""
        entry = AuditEntry(self.clock.now(), AuditKind.DAEMON, "daemon", summary)
        with contextlib.suppress(StoreError):
            await self.state.add_audit(entry)

    def is_ticking(self) -> bool:
        """Return whether ticks come to an end, well or not."""
        return self.clock.monotonic() - self.engine.beaten_at < _STANDS_STILL_SECONDS

    async def _act(self) -> None:
        """Carry out actions, once the gateways are there to obey, or are late."""
        wanted = self.keeper.wanted
        if not await self.board.connected(wanted, timeout_seconds=_GATEWAY_START_SECONDS):
            log.warning("a gateway does not answer: %s", self.keeper.last_words() or "see its log")
        await self.runner.run()

    async def _say_alive(self) -> None:
        """Tell systemd that ticks go on; without them for its time it starts the daemon anew."""
        patience = self.manager.watchdog_seconds
        while True:
            await asyncio.sleep((patience or _NO_WATCHDOG_SECONDS) / _SIGNS_A_WATCHDOG)
            age = self.clock.monotonic() - self.engine.beaten_at
            if patience is not None and age < patience:
                self.manager.alive()

    async def _tell(self) -> None:
        """Tell the person at the terminal what is waited for, and once nothing is."""
        was_waiting = True
        patience = Patience(self.clock.monotonic())
        while True:
            await asyncio.sleep(_TELL_LOOK_SECONDS)
            waiting = self.supervisor.waiting_for()
            if patience.ends(waiting, self.clock.monotonic()):
                for line in waiting:
                    log.info("waiting for %s", line)
            is_ready = not waiting and self._gateways_know()
            if was_waiting and is_ready:
                log.info("all workers are ready: gateway at %s/v1", self.place.gateway_url)
                log.info("status page at %s", self.place.admin_url)
                is_service = self.manager.address is not None
                end = "" if is_service else "; Ctrl-C stops everything"
                log.info("next: %s status, load, audit%s", _own_name(), end)
            was_waiting = not is_ready

    def _gateways_know(self) -> bool:
        """Return whether the fleet last published stands as the supervisor says."""
        published = {it.id: it.phase for it in self.engine.known.fleet.workers}
        return published == {it.id: it.phase for it in self.supervisor.views()}


def _own_name() -> str:
    """Return what to type for `ds4watch`: as it was started, with `python -m ds4watch` too."""
    name = Path(sys.argv[0])
    return f"{sys.executable} -m ds4watch" if name.name == "__main__.py" else str(name)
