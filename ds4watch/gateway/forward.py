"""A request's way through the workers: choose, try, and on failure perhaps another."""

from __future__ import annotations

import logging

from ds4watch.gateway.call import Call
from ds4watch.gateway.headers import lines_for_worker
from ds4watch.gateway.http.message import Request, Response, Stream
from ds4watch.gateway.relay import AttemptError, Relay
from ds4watch.gateway.replies import RefusedError, Reply, unavailable
from ds4watch.gateway.state import GatewayState
from ds4watch.model.usage import RequestOutcome, RetryReason
from ds4watch.routing.choice import NoRoute, NoRouteReason, RouteDecision
from ds4watch.routing.retry import Fail, GiveUp, costs_budget, next_step, status_of
from ds4watch.shaping.request import Shaped

log = logging.getLogger(__name__)


class Forwarder:
    """Tries workers until one answers or there is no sense in going on."""

    def __init__(
        self, state: GatewayState, relay: Relay, *, max_attempts: int, wake_wait_seconds: float
    ) -> None:
        self._state = state
        self._relay = relay
        self._wake_wait_seconds = wake_wait_seconds
        self._max_attempts = max_attempts
        # What was told and has not ended: the first failure is told, not each.
        self._failing: dict[str, RetryReason] = {}
        self._giving_up: GiveUp | None = None

    async def forward(
        self, request: Request, call: Call, shaped: Shaped, payload: bytes
    ) -> Response | Stream:
        """Return the response for the client. Raises RefusedError, ClientGoneError."""
        self._state.count_request()
        headers = lines_for_worker(request.headers.raw, call.id)
        route = await self._first_route(call, shaped.model)
        tried: frozenset[str] = frozenset()
        while True:
            worker = route.worker
            call.worker, call.model_served = worker.id, shaped.model
            call.attempts += 1
            try:
                with self._state.inflight.attempt(worker.id):
                    response = await self._relay.attempt(
                        request, call, worker, shaped=shaped, payload=payload, headers=headers
                    )
            except AttemptError as error:
                self._note_failure(worker.id, error)
                tried |= {worker.id}
                following = await self._next_route(call, shaped.model, error, tried)
                if following is None:
                    return self._give_up(call, error)
                route = following
            else:
                self._note_success(worker.id)
                return response

    async def _first_route(self, call: Call, model: str) -> RouteDecision:
        route = await self._state.until_routable(model, self._wake_wait_seconds)
        if isinstance(route, RouteDecision):
            return route
        raise self._no_route(call, route, model)

    async def _next_route(
        self, call: Call, model: str, error: AttemptError, tried: frozenset[str]
    ) -> RouteDecision | None:
        is_paid = costs_budget(error.failure, attempt=call.attempts)
        step = next_step(
            error.failure,
            attempt=call.attempts,
            max_attempts=self._max_attempts,
            bytes_sent=call.response is not None,
            budget_left=not is_paid or self._state.has_retry_left(),
        )
        if isinstance(step, Fail):
            if self._giving_up is not step.because:
                self._giving_up = step.because
                log.warning("requests are given up (%s): %s", step.because, error)
            return None
        route = await self._state.until_routable(model, self._wake_wait_seconds, tried)
        if isinstance(route, NoRoute):
            return None
        if is_paid:
            self._state.spend_retry()
        call.retries.append((call.worker, step.reason))
        return route

    def _note_failure(self, worker: str, error: AttemptError) -> None:
        reason = error.failure.reason
        if self._failing.get(worker) is not reason:
            self._failing[worker] = reason
            log.warning("worker %s: %s: %s", worker, reason, error)
        if reason is RetryReason.CONNECT:
            self._state.unreachable(worker)

    def _note_success(self, worker: str) -> None:
        self._state.reached(worker)
        if self._failing.pop(worker, None) is not None:
            log.info("worker %s answers again", worker)
        self._giving_up = None

    def _give_up(self, call: Call, error: AttemptError) -> Response | Stream:
        reply = _reply_for(error, call)
        call.end(reply.status, RequestOutcome.UPSTREAM_ERROR)
        if call.response is None:
            return reply.response(call.own_headers())
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
    message = f"No worker could answer: {reason} after {call.attempts} attempt(s): {error}"
    if reason is RetryReason.BUSY:
        return unavailable(message, code="upstream_busy")
    return Reply(status_of(error.failure), message, f"upstream_{reason}", kind="api_error")
