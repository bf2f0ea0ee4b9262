"""A request's way through the workers: choose, try, and on failure perhaps another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from ds4watch.config.settings import GatewaySettings
from ds4watch.gateway.call import Call
from ds4watch.gateway.counting import LengthTeller
from ds4watch.gateway.headers import lines_for_worker
from ds4watch.gateway.http.message import Request, Response, Stream
from ds4watch.gateway.prefix_window import PrefixWindow
from ds4watch.gateway.relay import AttemptError, Relay
from ds4watch.gateway.replies import RefusedError, Reply, unavailable
from ds4watch.gateway.state import GatewayState
from ds4watch.model.ports import Clock
from ds4watch.model.usage import RequestOutcome, RetryReason
from ds4watch.routing.choice import Ask, NoRoute, NoRouteReason, RouteDecision
from ds4watch.routing.lengths import Length
from ds4watch.routing.retry import Fail, GiveUp, costs_budget, next_step, status_of
from ds4watch.shaping.request import Shaped

log = logging.getLogger(__name__)


class Forwarder:
    """Tries workers until one answers or there is no sense in going on."""

    def __init__(
        self,
        state: GatewayState,
        relay: Relay,
        window: PrefixWindow,
        *,
        settings: GatewaySettings,
        lengths: LengthTeller,
        clock: Clock,
    ) -> None:
        self._state = state
        self._chooser = state.chooser
        self._window = window
        self._always_group = settings.batching.always
        self._relay = relay
        self._lengths = lengths
        self._clock = clock
        self._wake_wait_seconds = settings.wake_wait_seconds
        self._max_attempts = settings.max_attempts
        self._retry_within_seconds = settings.routing.retry_within_seconds
        # What was told and has not ended: the first failure is told, not each.
        self._failing: dict[str, RetryReason] = {}
        self._giving_up: GiveUp | None = None

    def forward(
        self, request: Request, call: Call, shaped: Shaped, payload: bytes
    ) -> Coroutine[Any, Any, Response | Stream]:
        """Return the response for the client, once awaited. Raises RefusedError."""
        state = self._state
        degrading = state.pooled.get(call.model_asked, state.degrading)
        if self._always_group or degrading.limits.group_prefixes:
            return self._in_group(request, call, shaped, payload)
        return self._in_turn(request, call, shaped, payload)

    async def _in_group(
        self, request: Request, call: Call, shaped: Shaped, payload: bytes
    ) -> Response | Stream:
        async with self._window.turn(shaped.body) as turn:
            call.turn = turn
            return await self._in_turn(request, call, shaped, payload)

    def _in_turn(
        self, request: Request, call: Call, shaped: Shaped, payload: bytes
    ) -> Coroutine[Any, Any, Response | Stream]:
        self._state.count_request()
        length = self._lengths.tell(shaped.model, len(payload), shaped.body)
        if length is Length.SHORT:
            return self._forward(request, call, shaped, payload)
        call.is_long = length is Length.LONG
        return self._in_line(request, call, shaped, payload)

    async def _in_line(
        self, request: Request, call: Call, shaped: Shaped, payload: bytes
    ) -> Response | Stream:
        """Forward what is long, or what has to be counted to know that."""
        if not call.is_long:
            call.is_long = await self._lengths.is_long(shaped.model, payload, shaped.body)
        if not call.is_long:
            return await self._forward(request, call, shaped, payload)
        async with self._state.long_queue.turn(shaped.model):
            return await self._forward(request, call, shaped, payload)

    async def _forward(
        self, request: Request, call: Call, shaped: Shaped, payload: bytes
    ) -> Response | Stream:
        headers = lines_for_worker(request.headers, call.id)
        # A group's beginning is that of each conversation in it: all its turns go there too.
        session = call.session if call.turn.group is None else call.turn.group
        ask = Ask(shaped.model, session, call.is_long)
        route = self._route_at_once(ask) or await self._first_route(call, ask)
        inflight = self._state.inflight
        while True:
            worker = route.worker
            call.worker, call.profile, call.model_served = worker.id, worker.profile, shaped.model
            call.attempts += 1
            call.tried_at = began_at = self._clock.monotonic()
            if call.first_tried_at is None:
                call.first_tried_at = began_at
            call.turn.sent(worker.id)
            self._chooser.begins(worker.id)
            try:
                inflight.begin_attempt(worker.id, is_long=call.is_long)
                try:
                    response = await self._relay.attempt(
                        request, call, worker, shaped=shaped, payload=payload, headers=headers
                    )
                finally:
                    inflight.end_attempt(worker.id, is_long=call.is_long)
            except AttemptError as error:
                self._note_failure(worker.id, call, error)
                ask = ask._replace(tried=ask.tried | {worker.id})
                following = await self._next_route(call, ask, error)
                if following is None:
                    return self._give_up(call, error)
                route = following
            except asyncio.CancelledError:
                self._chooser.left(worker.id, call, began_at)
                raise
            else:
                self._note_success(worker.id, call, began_at)
                if call.usage is not None:
                    self._lengths.learn(shaped.model, len(payload), call.usage.prompt)
                return response

    def _route_at_once(self, ask: Ask) -> RouteDecision | None:
        """Return the worker for a request that has to wait for nothing: nearly all."""
        if self._state.room.has_line(ask.model):
            return None
        route = self._chooser.choose(ask)
        return route if isinstance(route, RouteDecision) else None

    async def _first_route(self, call: Call, ask: Ask) -> RouteDecision:
        state = self._state
        if not state.room.has_line(ask.model):
            route = await state.until_routable(ask, self._wake_wait_seconds)
            if isinstance(route, RouteDecision):
                return route
            if route.reason is not NoRouteReason.FULL:
                raise self._no_route(call, route, ask.model)
        found: RouteDecision | NoRoute | None = await state.room.place(
            ask.model, call.priority, lambda: self._unless_full(ask)
        )
        if isinstance(found, RouteDecision):
            return found
        raise self._no_route(call, found or NoRoute(NoRouteReason.FULL), ask.model)

    def _unless_full(self, ask: Ask) -> RouteDecision | NoRoute | None:
        route = self._chooser.choose(ask)
        is_full = isinstance(route, NoRoute) and route.reason is NoRouteReason.FULL
        return None if is_full else route

    async def _next_route(self, call: Call, ask: Ask, error: AttemptError) -> RouteDecision | None:
        age = self._clock.monotonic() - call.started_at
        is_paid = costs_budget(error.failure, attempt=call.attempts)
        step = next_step(
            error.failure,
            attempt=call.attempts,
            max_attempts=self._max_attempts,
            bytes_sent=call.response is not None,
            budget_left=not is_paid or self._state.has_retry_left(),
            in_time=age < self._retry_within_seconds,
        )
        if isinstance(step, Fail):
            if self._giving_up is not step.because:
                self._giving_up = step.because
                log.warning("requests are given up (%s): %s", step.because, error)
            return None
        waiting = self._state.until_routable if is_paid else self._state.after_loss
        route = await waiting(ask, self._wake_wait_seconds)
        if isinstance(route, NoRoute):
            if route.reason is NoRouteReason.NOT_READY:
                raise self._no_route(call, route, ask.model)
            return None
        if is_paid:
            self._state.spend_retry()
        call.retries.append((call.worker, step.reason))
        return route

    def _note_failure(self, worker: str, call: Call, error: AttemptError) -> None:
        reason = error.failure.reason
        if self._failing.get(worker) is not reason:
            self._failing[worker] = reason
            log.warning("worker %s: %s: %s", worker, reason, error)
        self._chooser.failed(worker, call, reason)

    def _note_success(self, worker: str, call: Call, began_at: float) -> None:
        self._chooser.answered(worker, call, began_at)
        if self._failing.pop(worker, None) is not None:
            log.info("worker %s answers again", worker)
        self._giving_up = None

    def _give_up(self, call: Call, error: AttemptError) -> Response | Stream:
        reply = _reply_for(error, call)
        call.end(reply.status, RequestOutcome.UPSTREAM_ERROR)
        if call.response is None:
            return reply.response(call.own_lines())
        # The client has its 200; an error event is the only honest end that is left.
        call.response.write(reply.event())
        call.response.end()
        return call.response

    def _no_route(self, call: Call, route: NoRoute, model: str) -> RefusedError:
        if route.reason is NoRouteReason.UNKNOWN_MODEL:
            known = ", ".join(self._state.board.fleet.models()) or "none"
            message = f"The model {model!r} does not exist. Models here: {known}"
            return RefusedError(Reply(404, message, "model_not_found", param="model"))
        if route.reason is NoRouteReason.FULL:
            message = f"Every worker of {model!r} has as much as it can take; try again"
            return RefusedError(
                unavailable(message, code="overloaded"), outcome=RequestOutcome.SHED
            )
        log.info("request %s: no worker for %s: %s", call.id, model, route.reason)
        return RefusedError(
            unavailable(f"No worker can serve {model!r} now ({route.reason})", code="no_worker"),
            outcome=RequestOutcome.UPSTREAM_ERROR,
        )


def _reply_for(error: AttemptError, call: Call) -> Reply:
    reason = error.failure.reason
    if call.response is None:
        message = f"No worker could answer: {reason} after {call.attempts} attempt(s): {error}"
    else:
        message = f"The answer is cut short, its worker failed ({reason}): {error}"
    if reason in (RetryReason.BUSY, RetryReason.CONNECT):
        return unavailable(message, code=f"upstream_{reason}")
    return Reply(status_of(error.failure), message, f"upstream_{reason}", kind="api_error")
