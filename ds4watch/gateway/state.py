"""What a gateway process knows: the board it obeys, its own counts, whom it could not reach."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace

from ds4watch.access.keys import KeyTable
from ds4watch.config.routing import RoutingSettings
from ds4watch.gateway.chooser import Chooser
from ds4watch.gateway.inflight import Inflight
from ds4watch.gateway.long_queue import LongQueue
from ds4watch.gateway.waiting import WaitingRoom
from ds4watch.model.limits import Limits, tighter
from ds4watch.model.ports import Clock
from ds4watch.model.service_policy import Board, ServicePolicy
from ds4watch.model.worker import FleetSnapshot, WorkerPhase
from ds4watch.routing.choice import (
    Ask,
    NoRoute,
    NoRouteReason,
    RouteDecision,
    is_about_to_be_ready,
)
from ds4watch.routing.outliers import Window
from ds4watch.routing.retry import RetryBudget
from ds4watch.shaping.lease import lapsed
from ds4watch.shaping.request import NOT_DEGRADING, Degrading, degrading_of

log = logging.getLogger(__name__)

_ROOM_SECONDS = 0.05
_NEWS_SECONDS = 0.8
"""A daemon looks at its workers twice a second."""

_MANY_TURNS_SECONDS = 300.0


class GatewayState:
    """The board as last heard of, the policy in force, and this process's own view."""

    def __init__(
        self,
        *,
        clock: Clock,
        draw: Callable[[], float],
        retry_budget_ratio: float,
        routing: RoutingSettings | None = None,
        processes: int = 1,
        room: WaitingRoom | None = None,
    ) -> None:
        """Start without workers; `draw` gives numbers in [0, 1). `processes` share the limits.

        Without a room nobody waits.
        """
        routing = routing or RoutingSettings()
        self._processes = processes
        self.processes = processes
        """Gateways that share the limits: those that are alive, as far as that is known."""
        self.room = room or WaitingRoom(0, 0.0)
        self.watchers: list[Callable[[], None]] = []
        """Called when another board or policy is in force."""
        self.degrading = NOT_DEGRADING
        self.pooled: dict[str, Degrading] = {}
        """What is done to requests for models of pools with a ladder of their own, by model."""
        self._clock = clock
        self._heard_at = clock.monotonic()
        self._long_sessions = Window(_MANY_TURNS_SECONDS, kinds=2)
        self._budget = RetryBudget(retry_budget_ratio)
        self.board = Board(version=0, fleet=FleetSnapshot(at=0.0))
        self.policy: ServicePolicy = self.board.policy
        self.served: frozenset[str] = frozenset()
        """Models of ready workers that are not excluded."""
        self.keys = KeyTable()
        self.inflight = Inflight(self.room.stir)
        self.chooser = Chooser(routing, self.inflight, clock, draw=draw, processes=processes)
        self.long_queue = LongQueue(
            self.chooser.long_room,
            wait_seconds=routing.long_wait_seconds,
            most_waiting=routing.long_waiting,
        )
        self.requests_total = 0
        self.unserved: dict[str, int] = {}
        """Requests that found no ready worker, by model: of workers that there are."""
        self._came = asyncio.Event()
        self.draining = False
        self.cut_off = False
        """The drain is over: requests that are still open are ended by us, not by clients."""

    def apply(self, board: Board) -> None:
        """Obey `board` from this instant on; requests under way keep what they began with."""
        self._heard_at = self._clock.monotonic()
        if board.keys != self.board.keys:
            self.keys = KeyTable(board.keys)
        self.board = board
        self._came.set()
        self._came = asyncio.Event()
        self.processes = board.gateways or self._processes
        self._obey(board.policy)
        self.long_queue.wake()

    def heard(self) -> None:
        """Note that there is a daemon."""
        self._heard_at = self._clock.monotonic()

    def degrading_with(self, limits: Limits, pool: str) -> Degrading:
        """Return the policy in force for a pool made ready with further limits."""
        own = self.policy.of_pool(pool)
        policy = replace(own, limits=tighter(own.limits, limits))
        return degrading_of(policy, self.board.fleet, self.served, pool)

    def lapse(self) -> None:
        """Take back what the policy's lease no longer covers."""
        silent = self._clock.monotonic() - self._heard_at
        policy = lapsed(self.board.policy, silent)
        if policy.levels != self.policy.levels:
            log.warning("no daemon for %.0f s: level taken back to %s", silent, told(policy))
            self._obey(policy)

    def count_request(self) -> None:
        """Count a request that is to be forwarded: it earns its share of retries."""
        self._budget.count_request(self._clock.monotonic())

    async def until_routable(self, ask: Ask, seconds: float) -> RouteDecision | NoRoute:
        """Return the worker to try next; wait for one that is being woken or warmed up.

        `seconds` at most, and not once this gateway drains: then the client does better elsewhere.
        Who was tried and failed is not tried again, but for a time in which nobody is ready:
        whoever is after that came anew.
        """
        route = self.chooser.choose(ask)
        if isinstance(route, RouteDecision):
            return route
        is_full = route.reason is NoRouteReason.FULL
        is_worth_it = self._is_worth_waiting(route, ask)
        if route.reason is NoRouteReason.NOT_READY or (is_worth_it and not is_full):
            self._count_unserved(ask.model)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while isinstance(route, NoRoute) and self._is_worth_waiting(route, ask):
                    if route.reason is NoRouteReason.NOT_READY:
                        ask = ask._replace(tried=frozenset())
                    await self._news(route)
                    route = self.chooser.choose(ask)
        return route

    async def after_loss(self, ask: Ask, seconds: float) -> RouteDecision | NoRoute:
        """As `until_routable`, for one whose worker has just gone and was the last to be tried.

        The board may not know yet: for a moment it is waited for who is ready now.
        """
        route = self.chooser.choose(ask)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(_NEWS_SECONDS, seconds)):
                while self._is_without_news(route, ask):
                    await self._came.wait()
                    route = self.chooser.choose(ask)
        return await self.until_routable(ask, seconds)

    def _is_without_news(self, route: RouteDecision | NoRoute, ask: Ask) -> bool:
        if isinstance(route, RouteDecision) or self.draining:
            return False
        is_over = route.reason is NoRouteReason.ALL_TRIED
        return is_over and not self._is_worth_waiting(route, ask)

    def _is_worth_waiting(self, route: NoRoute, ask: Ask) -> bool:
        """Return whether one is seconds away from ready, or from room for who was let in once."""
        fleet = self.board.fleet
        match route.reason:
            case NoRouteReason.NOT_READY:
                is_near = is_about_to_be_ready(fleet, ask.model)
            case NoRouteReason.ALL_TRIED:
                is_near = is_about_to_be_ready(fleet, ask.model, ask.tried)
            case NoRouteReason.FULL:
                is_near = bool(ask.tried)
            case _:
                is_near = False
        return is_near and not self.draining

    async def _news(self, route: NoRoute) -> None:
        """Wait for a board; for room, which comes without one, a moment at most."""
        moment = _ROOM_SECONDS if route.reason is NoRouteReason.FULL else None
        came = self._came
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(moment):
                await came.wait()

    def _count_unserved(self, model: str) -> None:
        if any(model in worker.models for worker in self.board.fleet.workers):  # a bounded set
            self.unserved[model] = self.unserved.get(model, 0) + 1

    def has_retry_left(self) -> bool:
        """Return whether the budget has room for one more retry."""
        return self._budget.has_room(self._clock.monotonic())

    def spend_retry(self) -> None:
        """Count one retry."""
        self._budget.spend_retry(self._clock.monotonic())

    def count_long_session(self, *, is_error: bool) -> None:
        """Count the end of a request in a conversation of many turns."""
        self._long_sessions.add(self._clock.monotonic(), 1, is_error)

    def long_sessions(self) -> tuple[int, int]:
        """Return the requests of such conversations in the last five minutes, and the failed."""
        self._long_sessions.forget(self._clock.monotonic())
        requests, errors = self._long_sessions.totals
        return requests, errors

    def _obey(self, policy: ServicePolicy) -> None:
        self.policy = policy
        excluded = frozenset(policy.excluded_workers)
        self.chooser.apply(self.board, excluded)
        self.served = frozenset(
            model
            for worker in self.board.fleet.workers
            if worker.phase is WorkerPhase.READY and worker.id not in excluded
            for model in worker.models
        )
        self.degrading = degrading_of(policy, self.board.fleet, self.served)
        self.pooled = self._pooled(policy)
        for watcher in self.watchers:
            watcher()

    def _pooled(self, policy: ServicePolicy) -> dict[str, Degrading]:
        fleet, found = self.board.fleet, dict[str, Degrading]()
        for pool in policy.pools:
            name = pool.pool
            ready = degrading_of(policy.of_pool(name), fleet, self.served, name)
            own = (it.models for it in fleet.workers if it.profile in pool.profiles)
            found = {model: ready for models in own for model in models} | found
        return found


def told(policy: ServicePolicy) -> str:
    """Return the levels in words: a number, and the pools that have one of their own."""
    more = ", ".join(f"{it.pool} {it.level}" for it in policy.pools)
    return f"{policy.level} ({more})" if more else str(policy.level)
