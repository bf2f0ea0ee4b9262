"""The ticks of a daemon on standby: look and evaluate, decide nothing, write nothing."""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from ds4watch.engine.effects import sentence
from ds4watch.engine.parts import EngineSettings, Known, Parts
from ds4watch.engine.place import Standing
from ds4watch.engine.replica import Held, leader_json
from ds4watch.engine.tick import Engine
from ds4watch.fleet.watched import SilentBoard, WatchedFleet
from ds4watch.model.errors import StoreError
from ds4watch.model.ports import Clock
from ds4watch.model.service_policy import ServicePolicy
from ds4watch.model.worker import WorkerView

log = logging.getLogger(__name__)

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Watched:
    """Where the leader is asked for, and what shows what it has stored."""

    held: Held
    standing: Standing
    fleet: WatchedFleet
    board: SilentBoard


class StandbyEngine(Engine):
    """Sees what the leader sees, as far as it can be reached from here, and shows it."""

    def __init__(
        self,
        parts: Parts,
        settings: EngineSettings,
        known: Known,
        watched: Watched,
        *,
        wake: asyncio.Event,
        clock: Clock,
    ) -> None:
        super().__init__(parts, settings, known, wake=wake, clock=clock)
        self._watched_leader = watched
        self._host = socket.gethostname()

    async def tick(self) -> str:
        """Look, evaluate, show; return what changed in a sentence, empty if nothing."""
        await self._follow()
        collected = await self._observer.collect()
        now = self._clock.now()
        self._observer.see(collected, now)
        try:
            turn = self._evaluate(now)
            self.known.alerts = turn.alerts
            self.known.failed_rules = turn.failed
        finally:
            self._observer.show()
        told = sentence(turn, [], [])
        return f"on standby: {told}" if told else ""

    async def _follow(self) -> None:
        """Take over what the leader has stored; without the database what was last known stays."""
        watched = self._watched_leader
        try:
            lease = await watched.held.store.seen()
            views = await self._parts.state.workers()
            stored = await self._parts.state.look(self._clock.now())
        except StoreError as error:
            log.debug("on standby: %s", error)
            return
        watched.standing.leader = leader_json(lease)
        is_here = lease is not None and lease.host == self._host
        watched.fleet.show([reachable(view, is_here=is_here) for view in views])
        if stored.policy is not None:
            watched.board.show(ServicePolicy.from_json(stored.policy))
        self.known.holds = stored.holds


def reachable(view: WorkerView, *, is_here: bool) -> WorkerView:
    """Return the worker without an address that is another host's own."""
    is_own = urlsplit(view.url).hostname in _LOOPBACK
    return view if is_here or not is_own else replace(view, url="")
