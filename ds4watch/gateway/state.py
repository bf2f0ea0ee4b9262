"""What a gateway process knows: the board it obeys, its own counts, whom it could not reach."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ds4watch.access.keys import KeyTable
from ds4watch.model.ports import Clock
from ds4watch.model.service_policy import Board, ServicePolicy
from ds4watch.model.worker import FleetSnapshot, WorkerPhase
from ds4watch.routing.choice import (
    NoRoute,
    NoRouteReason,
    RouteDecision,
    choose,
    is_about_to_be_ready,
)
from ds4watch.routing.ejection import (
    Ejections,
    forget_absent,
    local_eject,
    local_restore,
)
from ds4watch.routing.retry import RetryBudget
from ds4watch.shaping.lease import lapsed

log = logging.getLogger(__name__)

_ROOM_SECONDS = 0.05


class Inflight:
    """Requests under way; every way out of the `with` lowers the count."""

    __slots__ = ("by_worker", "total")

    def __init__(self) -> None:
        self.total = 0
        self.by_worker: dict[str, int] = {}

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count one request that was let in."""
        self.total += 1
        try:
            yield
        finally:
            self.total -= 1

    @contextmanager
    def attempt(self, worker: str) -> Iterator[None]:
        """Count one attempt at a worker; a worker without any has no entry."""
        self.by_worker[worker] = self.by_worker.get(worker, 0) + 1
        try:
            yield
        finally:
            left = self.by_worker[worker] - 1
            if left:
                self.by_worker[worker] = left
            else:
                del self.by_worker[worker]


class GatewayState:
    """The board as last heard of, the policy in force, and this process's own view."""

    def __init__(
        self,
        *,
        clock: Clock,
        draw: Callable[[], float],
        retry_budget_ratio: float,
        processes: int = 1,
    ) -> None:
        """Start without workers; `draw` gives numbers in [0, 1). `processes` share the limits."""
        self._processes = processes
        self._clock = clock
        self._draw = draw
        self._heard_at = clock.monotonic()
        self._ejections = Ejections()
        self._excluded: frozenset[str] = frozenset()
        self._budget = RetryBudget(retry_budget_ratio)
        self.board = Board(version=0, fleet=FleetSnapshot(at=0.0))
        self.policy: ServicePolicy = self.board.policy
        self.served: frozenset[str] = frozenset()
        """Models of ready workers that are not excluded."""
        self.keys = KeyTable()
        self.inflight = Inflight()
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
        self._obey(board.policy)
        workers = board.fleet.workers
        self._ejections = forget_absent(self._ejections, frozenset(it.id for it in workers))

    def heard(self) -> None:
        """Note that there is a daemon."""
        self._heard_at = self._clock.monotonic()

    def lapse(self) -> None:
        """Take back what the policy's lease no longer covers."""
        silent = self._clock.monotonic() - self._heard_at
        policy = lapsed(self.board.policy, silent)
        if policy.level != self.policy.level:
            log.warning("no daemon for %.0f s: level taken back to %s", silent, policy.level)
            self._obey(policy)

    def count_request(self) -> None:
        """Count a request that is to be forwarded: it earns its share of retries."""
        self._budget = self._budget.after_request(self._clock.monotonic())

    def choose(self, model: str, tried: frozenset[str]) -> RouteDecision | NoRoute:
        """Return the worker to try next."""
        return choose(
            self.board.fleet,
            model,
            draws=(self._draw(), self._draw()),
            inflight=self.inflight.by_worker,
            tried=tried,
            excluded=self._excluded,
            ejected=self._ejections.at(self._clock.monotonic()),
            processes=self._processes,
        )

    async def until_routable(
        self, model: str, seconds: float, tried: frozenset[str] = frozenset()
    ) -> RouteDecision | NoRoute:
        """Return the worker to try next; wait for one that is being woken or warmed up.

        `seconds` at most, and not once this gateway drains: then the client does better elsewhere.
        Who was `tried` and failed is not tried again, but for a time in which nobody is ready:
        whoever is after that came anew.
        """
        route = self.choose(model, tried)
        if isinstance(route, RouteDecision):
            return route
        is_full = route.reason is NoRouteReason.FULL
        is_worth_it = self._is_worth_waiting(route, model, tried)
        if route.reason is NoRouteReason.NOT_READY or (is_worth_it and not is_full):
            self._count_unserved(model)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while isinstance(route, NoRoute) and self._is_worth_waiting(route, model, tried):
                    tried = frozenset() if route.reason is NoRouteReason.NOT_READY else tried
                    await self._news(route)
                    route = self.choose(model, tried)
        return route

    def _is_worth_waiting(self, route: NoRoute, model: str, tried: frozenset[str]) -> bool:
        """Return whether one is seconds away from ready, or from room for who was let in once."""
        fleet = self.board.fleet
        match route.reason:
            case NoRouteReason.NOT_READY:
                is_near = is_about_to_be_ready(fleet, model)
            case NoRouteReason.ALL_TRIED:
                is_near = is_about_to_be_ready(fleet, model, tried)
            case NoRouteReason.FULL:
                is_near = bool(tried)
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
        self._budget = self._budget.after_retry(self._clock.monotonic())

    def unreachable(self, worker: str) -> None:
        """Leave a worker out for a while."""
        before = self._ejections
        self._ejections = local_eject(before, worker, self._clock.monotonic())
        if worker not in before.by_worker:
            log.warning("worker %s cannot be reached: left out for a while", worker)

    def reached(self, worker: str) -> None:
        """Note that a worker has answered."""
        before = self._ejections
        self._ejections = local_restore(before, worker)
        if self._ejections is not before:
            log.info("worker %s answers again", worker)

    def _obey(self, policy: ServicePolicy) -> None:
        self.policy = policy
        self._excluded = frozenset(policy.excluded_workers)
        self.served = frozenset(
            model
            for worker in self.board.fleet.workers
            if worker.phase is WorkerPhase.READY and worker.id not in self._excluded
            for model in worker.models
        )
