"""The HTTP application of one worker: routes, errors, and the counting of requests."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from ds4watch.sim.api_errors import ApiError
from ds4watch.sim.generate import GenerationHandlers
from ds4watch.sim.handlers import DevHandlers, FaultHandlers, InfoHandlers
from ds4watch.sim.http_meter import EXCLUDED
from ds4watch.sim.worker import SimWorker

_MAX_BODY_BYTES = 16 << 20
_GUARDED = ("/v1", "/v2", "/inference", "/cohere")


def build_app(worker: SimWorker, api_keys: Sequence[str] = ()) -> web.Application:
    """Return the application of a worker, which takes one of these keys if there are any."""
    guards = [_guard(api_keys)] if api_keys else []
    app = web.Application(
        client_max_size=_MAX_BODY_BYTES, middlewares=[*guards, _counting(worker), _errors()]
    )
    app.add_routes(_routes(worker))
    if worker.settings.dev_mode:
        app.add_routes(_dev_routes(worker))
    return app


def _routes(worker: SimWorker) -> list[web.RouteDef]:
    info, generate, faults = InfoHandlers(worker), GenerationHandlers(worker), FaultHandlers(worker)
    return [
        web.post("/v1/chat/completions", generate.chat),
        web.post("/v1/completions", generate.completion),
        web.get("/v1/models", info.models),
        web.get("/health", info.health),
        web.get("/ping", info.health),
        web.post("/ping", info.health),
        web.get("/metrics", info.metrics),
        web.get("/version", info.version),
        web.get("/load", info.load),
        web.post("/tokenize", info.tokenize),
        web.post("/detokenize", info.detokenize),
        web.get("/sim/fault", faults.list),
        web.post("/sim/fault", faults.set),
    ]


def _dev_routes(worker: SimWorker) -> list[web.RouteDef]:
    dev = DevHandlers(worker)
    return [
        web.post("/sleep", dev.sleep),
        web.post("/wake_up", dev.wake_up),
        web.get("/is_sleeping", dev.is_sleeping),
        web.post("/reset_prefix_cache", dev.reset_prefix_cache),
        web.post("/collective_rpc", dev.collective_rpc),
    ]


def _errors() -> Middleware:
    @web.middleware
    async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except ApiError as error:
            return web.json_response(error.as_json(), status=error.status)
        except web.HTTPException as error:
            # vLLM answers unknown paths and wrong methods in the shape of its errors, too.
            body = ApiError(error.status, error.reason, error.reason).as_json()
            return web.json_response(body, status=error.status)

    return errors


def _guard(api_keys: Sequence[str]) -> Middleware:
    """As vLLM does: keys are asked for under /v1 and the like, and nowhere else."""
    wanted = {f"bearer {key}" for key in api_keys}

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method != "OPTIONS" and request.path.startswith(_GUARDED):
            scheme, _, key = request.headers.get("Authorization", "").partition(" ")
            if f"{scheme.lower()} {key}" not in wanted:
                return web.json_response({"error": "Unauthorized"}, status=401)
        return await handler(request)

    return guard


def _counting(worker: SimWorker) -> Middleware:
    @web.middleware
    async def counting(request: web.Request, handler: Handler) -> web.StreamResponse:
        started_at = worker.clock.monotonic()
        status, response_bytes = 200, 0  # an abort by the client is a 2xx in vLLM as well
        try:
            response = await handler(request)
            status, response_bytes = response.status, _length(response)
            return response
        finally:
            route = request.match_info.route.resource
            name = route.canonical if route else "none"
            if name not in EXCLUDED and not name.startswith("/sim/"):
                worker.http.count(
                    name,
                    request.method,
                    status=status,
                    seconds=worker.clock.monotonic() - started_at,
                    request_bytes=request.content_length or 0,
                    response_bytes=response_bytes,
                    now=worker.clock.now(),
                )

    return counting


def _length(response: web.StreamResponse) -> int:
    return (response.content_length or 0) if isinstance(response, web.Response) else 0
