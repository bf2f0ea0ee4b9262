"""The gateway's routes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any
from urllib.parse import unquote

from ds4watch.access.key_rules import may_ask
from ds4watch.access.request_check import RequestCheck
from ds4watch.config.settings import GatewaySettings
from ds4watch.gateway import headers as names
from ds4watch.gateway import intake
from ds4watch.gateway.admission import Admission
from ds4watch.gateway.call import Call
from ds4watch.gateway.entry import Entry
from ds4watch.gateway.forward import Forwarder
from ds4watch.gateway.http.message import Request, Response, Stream, header_line
from ds4watch.gateway.replies import RefusedError, Reply, json_response
from ds4watch.gateway.routes import COMPLETIONS, HEALTH, MODELS, meant_by, methods_of
from ds4watch.gateway.said import said_of
from ds4watch.gateway.spool import Spool
from ds4watch.gateway.state import GatewayState
from ds4watch.model.ports import Clock
from ds4watch.model.usage import RequestOutcome
from ds4watch.routing.sessions import conversation_key, has_many_turns, session_key
from ds4watch.shaping.payload import payload_of
from ds4watch.shaping.request import shape

_MAX_MODEL_LENGTH = 256
_ANSWERED = (RequestOutcome.OK, RequestOutcome.UPSTREAM_ERROR)


class Handlers:
    """Takes requests in, answers them, books them."""

    def __init__(
        self,
        name: str,
        *,
        settings: GatewaySettings,
        entry: Entry,
        state: GatewayState,
        admission: Admission,
        forwarder: Forwarder,
        spool: Spool,
        clock: Clock,
    ) -> None:
        self._name = name
        self._settings = settings
        self._entry = entry
        self._check = RequestCheck(intake.limits_of(settings.intake))
        self._state = state
        self._admission = admission
        self._forwarder = forwarder
        self._spool = spool
        self._clock = clock

    def handle(self, request: Request) -> Coroutine[Any, Any, Response | Stream]:
        """Answer any request, once awaited."""
        if request.method == "POST" and request.path in COMPLETIONS:
            return self.complete(request)
        return self._tell(request)

    async def _tell(self, request: Request) -> Response:
        if request.method in ("GET", "HEAD"):
            if request.path == HEALTH:
                return self.health()
            if request.path == MODELS or request.path.startswith(MODELS + "/"):
                return self.models(request)
        return self.unknown(request)

    def refuse(self, status: int, message: str, code: str) -> Response:
        """Word the answer to what is no request, or to one that we failed at."""
        kind = "api_error" if status >= 500 else "invalid_request_error"
        line = header_line(names.REQUEST_ID, names.new_id())
        return Reply(status, message, code, kind=kind).response(line)

    def health(self) -> Response:
        """Tell how this gateway is; 503 once it drains."""
        state = self._state
        body = {
            "status": "draining" if state.draining else "ok",
            "gateway": self._name,
            "board_version": state.board.version,
            "policy_version": state.policy.version,
            "level": state.policy.level,
            "levels": state.policy.levels,
            "models": sorted(state.served),
            "inflight": state.inflight.total,
            "spool_dropped": self._spool.dropped,
            "routing": state.chooser.shown()
            | {"long_open": state.long_queue.open, "long_waiting": state.long_queue.waiting},
        }
        return json_response(body, status=503 if state.draining else 200)

    def models(self, request: Request) -> Response:
        """List the models of ready workers, or one of them, in OpenAI's shape."""
        call = self._call(request)
        try:
            visitor = self._entry.visitor(said_of(request.headers))
            self._entry.verify(visitor, request, b"")
        except RefusedError as error:
            return error.reply.response(_id_only(call))
        since: dict[str, int] = {}
        for worker in self._state.board.fleet.workers:
            for model in worker.models:
                if model in self._state.served:
                    since[model] = min(since.get(model, int(worker.since)), int(worker.since))
        data = [
            {"id": model, "object": "model", "created": since[model], "owned_by": "ds4watch"}
            for model in sorted(since)
            if visitor is None or may_ask(visitor.key, model)
        ]
        if request.path == MODELS:
            return json_response({"object": "list", "data": data}, lines=_id_only(call))
        asked = unquote(request.path.removeprefix(MODELS + "/"))
        for one in data:
            if one["id"] == asked:
                return json_response(one, lines=_id_only(call))
        reply = Reply(404, f"The model {asked[:200]!r} does not exist", "model_not_found")
        return reply.response(_id_only(call))

    def unknown(self, request: Request) -> Response:
        """Say in OpenAI's shape that there is nothing here, or which methods there are."""
        lines = _id_only(self._call(request))
        path = request.path[:200]
        allowed = methods_of(request.path)
        if allowed is None:
            meant = meant_by(path)
            hint = "" if meant is None else f"; did you mean {meant}?"
            return Reply(404, f"There is nothing at {path}{hint}", "not_found").response(lines)
        lines += header_line("Allow", allowed)
        if request.method == "OPTIONS":
            return Response(204, lines=lines)
        message = f"{request.method} is not allowed on {path}"
        return Reply(405, message, "method_not_allowed").response(lines)

    async def complete(self, request: Request) -> Response | Stream:
        """Answer a completion request and book it, however it ends."""
        call = self._call(request)
        try:
            return await self._complete(request, call)
        except RefusedError as error:
            call.end(error.reply.status, error.outcome)
            return error.reply.response(call.own_lines())
        except asyncio.CancelledError:
            if not self._state.cut_off:
                call.gone()
            raise
        finally:
            self._admission.leave(call)
            self._book(call)

    async def _complete(self, request: Request, call: Call) -> Response | Stream:
        said = said_of(request.headers)
        visitor = self._entry.visitor(said)
        raw = request.read_at_once()
        if raw is None:
            raw = await intake.read_body(request, max_bytes=self._settings.max_body_bytes)
        # What was signed is what was sent, packed or not.
        self._entry.verify(visitor, request, request.body)
        call.key = "" if visitor is None else visitor.key.name
        body = intake.parse(raw)
        model = body.get("model")
        call.model_asked = model[:_MAX_MODEL_LENGTH] if isinstance(model, str) else ""
        kind = COMPLETIONS[call.path]
        intake.check(self._check, body, kind)
        self._entry.check_model(visitor, body["model"])
        admitted = self._admission.enter(call, said, body, raw)
        call.conversation = conversation_key(said.session, body)
        if self._state.chooser.wants_sessions:
            call.session = session_key(said.session, body) if "user" in body else call.conversation
        call.has_many_turns = has_many_turns(body)
        if not self._admission.has_place():
            await self._admission.until_place(call)
        self._state.inflight.begin_request()
        try:
            asked = admitted.asked
            degrading = self._admission.degrading(call)
            if degrading.compress_ratio(asked.prompt_tokens) is not None:
                asked, degrading = await self._admission.shortened(body, asked, call)
            shaped = shape(body, degrading, kind, asked)
            if shaped.model != call.model_asked:  # whose budget pays may have to be eased, too
                call.model_served = shaped.model
                shaped = shape(body, self._admission.degrading(call), kind, asked)
            call.stream = shaped.stream
            call.choices = shaped.body.get("n") or 1
            self._admission.check_shaped(shaped, admitted, call)
            payload = payload_of(shaped, raw) if shaped.changed else raw
            return await self._forwarder.forward(request, call, shaped, payload)
        finally:
            self._state.inflight.end_request()

    def _call(self, request: Request) -> Call:
        said = said_of(request.headers)
        return Call(
            id=said.request_id or names.new_id(),
            path=request.path,
            started_at=self._clock.monotonic(),
        )

    def _book(self, call: Call) -> None:
        self._state.requests_total += 1
        if call.has_many_turns and call.outcome in _ANSWERED:
            is_error = call.outcome is RequestOutcome.UPSTREAM_ERROR
            self._state.count_long_session(is_error=is_error)
        self._spool.append(
            lambda seq: call.line(
                gateway=self._name,
                seq=seq,
                now=self._clock.monotonic(),
                ended_at=self._clock.now(),
            )
        )


def _id_only(call: Call) -> bytes:
    return header_line(names.REQUEST_ID, call.id)
