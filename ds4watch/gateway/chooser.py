"""Who is to answer, and what the answers say of the workers: one process's own view."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ds4watch.config.routing import RoutingSettings
from ds4watch.gateway.call import Call
from ds4watch.gateway.inflight import Inflight
from ds4watch.model.ports import Clock
from ds4watch.model.service_policy import Board
from ds4watch.model.usage import RequestOutcome, RetryReason
from ds4watch.model.worker import FleetSnapshot
from ds4watch.routing.choice import Ask, NoRoute, RouteDecision, View, choose
from ds4watch.routing.ejection import (
    BUSY,
    Ejections,
    forget_absent,
    local_ease,
    local_eject,
    local_probe,
    local_restore,
)
from ds4watch.routing.outliers import Outliers, is_slow
from ds4watch.routing.pools import Routes, routes_of
from ds4watch.telemetry.own_lag import OwnLag

log = logging.getLogger(__name__)


class Chooser:
    """Chooses workers, and remembers which of them could not be reached or answered badly."""

    def __init__(
        self,
        settings: RoutingSettings,
        inflight: Inflight,
        clock: Clock,
        *,
        draw: Callable[[], float],
        processes: int,
    ) -> None:
        """Start without workers; `draw` gives numbers in [0, 1)."""
        self._settings = settings
        self._clock = clock
        self._draw = draw
        self._given_processes = self._processes = processes
        self._fleet = FleetSnapshot(at=0.0)
        self._excluded: frozenset[str] = frozenset()
        self._ejections = Ejections()
        self._busy = Ejections()
        self._outliers = Outliers(settings)
        self.lag = OwnLag()
        """How late this process itself is; the server has it measured."""
        self._view = View(
            inflight=inflight.by_worker,
            longs=inflight.longs_by_worker,
            dead={},
            probe_ratio=settings.probe_ratio,
            max_aside_ratio=settings.max_aside_ratio,
            load_ratio=settings.session_load_ratio,
        )
        self._view_until = math.inf
        """Instant (monotonic) at which the view is to be made anew."""
        self._routes = self._routes_now(None)
        self.wants_sessions = False
        """There is more than one worker, and conversations are to stay at theirs."""

    def apply(self, board: Board, excluded: frozenset[str]) -> None:
        """Route by `board` from now on."""
        self._fleet, self._excluded = board.fleet, excluded
        self._processes = board.gateways or self._given_processes
        present = frozenset(worker.id for worker in board.fleet.workers)
        self._ejections = forget_absent(self._ejections, present)
        self._busy = forget_absent(self._busy, present)
        self._outliers.keep_only(present)
        self._view_until = 0.0
        self._routes = self._routes_now(self._routes)
        self.wants_sessions = self._settings.sessions and len(present) > 1

    def choose(self, ask: Ask) -> RouteDecision | NoRoute:
        """Return the worker to try next."""
        routes = self._routes
        if routes.stale_at != math.inf and routes.stale_at <= self._clock.now():
            routes = self._routes = self._routes_now(routes)
        return choose(routes, ask, self._current_view(), self._draw)

    def long_room(self, model: str) -> float:
        """Return the long prompts of a model that this process may have open; no limit if none."""
        pool = self._routes.pools.get(model)
        return math.inf if pool is None else pool.long_room()

    def begins(self, worker: str) -> None:
        """Note that a request goes to a worker: to one on probation no second one does now."""
        if not self._ejections.by_worker and not self._busy.by_worker:
            return
        now, dead, busy = self._clock.monotonic(), self._ejections, self._busy
        self._ejections = local_probe(dead, worker, now)
        self._busy = local_probe(busy, worker, now, BUSY)
        if self._ejections is not dead or self._busy is not busy:
            self._view_until = 0.0

    def unreachable(self, worker: str) -> None:
        """Leave a worker out for a while."""
        before = self._ejections
        self._ejections = local_eject(before, worker, self._clock.monotonic())
        self._view_until = 0.0
        if worker not in before.by_worker:
            log.warning("worker %s cannot be reached: left out for a while", worker)

    def answered(self, worker: str, call: Call, began_at: float) -> None:
        """Take in an attempt that ended with an answer; what is the client's fault is no sign."""
        if self._ejections.by_worker or self._busy.by_worker:
            self._restore(worker)
        if call.outcome is RequestOutcome.UPSTREAM_ERROR:  # told in a stream after its 200
            self._note(worker, failed=True, slow=None)
        elif call.outcome is RequestOutcome.OK:
            slow = None if call.is_long else self._is_slow(call, began_at)
            self._note(worker, failed=False, slow=slow)

    def failed(self, worker: str, call: Call, reason: RetryReason) -> None:
        """Take in an attempt that failed. A full worker is not a broken one: it is passed over."""
        if reason is RetryReason.CONNECT:
            self.unreachable(worker)
            return
        if reason is RetryReason.BUSY:
            self._busy = local_eject(self._busy, worker, self._clock.monotonic(), BUSY)
            self._view_until = 0.0
            return
        is_long_answer = reason is RetryReason.TIMEOUT and call.response is not None
        if not is_long_answer:
            self._note(worker, failed=True, slow=None)

    def left(self, worker: str, call: Call, began_at: float) -> None:
        """Take in that the client left: who waited too long for a first byte waited for it."""
        waited = self._clock.monotonic() - began_at - self.lag.lost_seconds(began_at)
        is_first_byte_late = call.stream and call.first_byte_at is None and not call.is_long
        if is_first_byte_late and waited > self._settings.slow_seconds:
            self._note(worker, failed=False, slow=True)

    def shown(self) -> dict[str, Any]:
        """Return who is set aside and why, and who has just started, for /health."""
        return {
            "set_aside": dict(self._outliers.aside()),
            "unreachable": sorted(self._ejections.at(self._clock.monotonic())),
            "busy": sorted(self._busy.at(self._clock.monotonic())),
            "starting": self._routes.starting,
        }

    def aside(self) -> dict[str, str]:
        """Return who is left out and why."""
        dead = dict.fromkeys(self._ejections.at(self._clock.monotonic()), "unreachable")
        return dead | {name: reason.value for name, reason in self._outliers.aside().items()}

    def _routes_now(self, before: Routes | None) -> Routes:
        return routes_of(
            self._fleet,
            self._settings,
            now=self._clock.now(),
            processes=self._processes,
            excluded=self._excluded,
            before=before,
        )

    def _current_view(self) -> View:
        if self._view_until == math.inf:
            return self._view
        now = self._clock.monotonic()
        if now >= self._view_until:
            dead, busy = self._ejections.at(now), self._busy.at(now)
            self._view = replace(
                self._view,
                dead=dead,
                busy=frozenset(busy),
                aside=frozenset(self._outliers.aside()),
                probes=self._outliers.due(now),
            )
            self._view_until = min((*dead.values(), *busy.values(), self._outliers.next_due(now)))
        return self._view

    def _restore(self, worker: str) -> None:
        if worker in self._busy.by_worker:
            self._busy = local_ease(self._busy, worker, self._clock.monotonic())
            self._view_until = 0.0
        before = self._ejections
        self._ejections = local_restore(before, worker)
        if self._ejections is not before:
            self._view_until = 0.0
            log.info("worker %s answers again", worker)

    def _is_slow(self, call: Call, began_at: float) -> bool | None:
        if call.first_byte_at is None:
            return None
        waited = call.first_byte_at - began_at
        if not self._took_long(call, waited):
            return False
        # What we did not get to take in waited for us, not for the worker.
        return self._took_long(call, waited - self.lag.lost_seconds(began_at, call.first_byte_at))

    def _took_long(self, call: Call, first_byte_seconds: float) -> bool:
        return is_slow(
            self._settings,
            is_stream=call.stream,
            first_byte_seconds=first_byte_seconds,
            completion_tokens=call.usage.completion if call.usage else None,
        )

    def _note(self, worker: str, *, failed: bool, slow: bool | None) -> None:
        verdict = self._outliers.note(worker, self._clock.monotonic(), failed=failed, slow=slow)
        if verdict is None:
            return
        self._view_until = 0.0
        if verdict.reason is None:
            log.info("worker %s is back: %s", worker, verdict.told)
        else:
            log.warning(
                "worker %s is set aside for %.0f s: %s", worker, verdict.seconds, verdict.told
            )
