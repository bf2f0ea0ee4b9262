"""The admin application: errors as problem+json, pages, routes, all of it behind the guard."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from ds4watch import __version__
from ds4watch.model.errors import StoreError
from ds4watch.model.ports import Clock
from ds4watch.web.changes import changes
from ds4watch.web.conditions import Conditions
from ds4watch.web.docs import documented
from ds4watch.web.events import EventFeed, events
from ds4watch.web.gate import LOOPBACK_HOSTS, Gate, Tokens
from ds4watch.web.guard import PROBLEM_TYPE, SECURITY_HEADERS, Guard, problem
from ds4watch.web.hooks import hooks
from ds4watch.web.idempotency import Idempotency
from ds4watch.web.keys import keys
from ds4watch.web.login import login, session
from ds4watch.web.ports import Ports
from ds4watch.web.prometheus import prometheus
from ds4watch.web.quality import quality
from ds4watch.web.reads import reads
from ds4watch.web.records import records
from ds4watch.web.runbooks import runbooks
from ds4watch.web.sessions import Sessions
from ds4watch.web.silences import holds, silences
from ds4watch.web.steering import steering
from ds4watch.web.writes import writes

_log = logging.getLogger(__name__)

STATIC = Path(str(files("ds4watch.web"))) / "static"
API = "/api/ds4/v1"
PROMETHEUS_API = "/api/v1"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _AdminApp(FastAPI):
    """With the OpenAPI document as `docs` completes it."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = documented(self, API)
        return self.openapi_schema


def create_app(
    ports: Ports,
    *,
    tokens: Tokens,
    render_metrics: Callable[[], bytes],
    clock: Clock,
    feed: EventFeed | None = None,
    open_reads: bool = True,
) -> FastAPI:
    """Return the admin application. `open_reads` is for loopback alone."""
    app = _AdminApp(
        title="ds4watch admin API",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{API}/openapi.json",
    )
    app.add_exception_handler(HTTPException, _http_problem)
    app.add_exception_handler(RequestValidationError, _invalid_problem)
    app.add_exception_handler(StoreError, _store_problem)
    app.add_exception_handler(Exception, _broken_problem)
    sessions = Sessions(clock)
    for router in (
        reads(ports.source, clock),
        silences(ports.desk, clock),
        holds(ports.source, ports.commands),
        steering(ports.desk),
        records(ports.desk, ports.source, ports.facts),
        events(feed if feed is not None else EventFeed(ports.desk)),
        writes(ports.commands),
        changes(ports.source, ports.commands),
        keys(ports.commands),
        session(sessions),
    ):
        app.include_router(router, prefix=API)
    app.include_router(prometheus(ports.facts, ports.queries, clock), prefix=PROMETHEUS_API)
    app.include_router(login(sessions))
    app.include_router(runbooks())
    if ports.hooks is not None:
        app.include_router(hooks(ports.hooks), prefix=API)
    app.include_router(quality(ports.quality), prefix=API)
    _add_pages(app, render_metrics)
    hosts = LOOPBACK_HOSTS if open_reads else None
    gate = Gate(tokens, open_reads=open_reads, hosts=hosts, sessions=sessions)
    # The one added last is the outermost.
    app.add_middleware(Conditions, prefix=f"{API}/")
    app.add_middleware(Idempotency, prefix=f"{API}/", answers=ports.desk, clock=clock)
    app.add_middleware(Guard, gate=gate)
    return app


def _add_pages(app: FastAPI, render_metrics: Callable[[], bytes]) -> None:
    page = (STATIC / "index.html").read_bytes()

    @app.get("/metrics", response_class=Response, summary="Our own metrics, for Prometheus")
    async def metrics() -> Response:
        return Response(render_metrics(), media_type=METRICS_TYPE)

    @app.get("/", include_in_schema=False)
    async def status_page() -> Response:
        return Response(page, media_type="text/html; charset=utf-8")

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def _problem_response(status: int, detail: str, headers: Any = None) -> Response:
    body = problem(status, detail)
    return Response(body, status_code=status, headers=headers, media_type=PROBLEM_TYPE)


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = str(error.detail)
    if error.status_code == 404 and detail == "Not Found":
        detail = f"there is nothing at {request.url.path}"
    return _problem_response(error.status_code, detail, error.headers)


async def _invalid_problem(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, RequestValidationError)
    return _problem_response(422, "; ".join(_plain(item) for item in error.errors()))


def _plain(item: dict[str, Any]) -> str:
    if item["type"] == "json_invalid":
        return f"body: is no JSON, at character {item['loc'][-1]}"
    if item["type"] == "model_attributes_type" and tuple(item["loc"]) == ("body",):
        return "body: has to be a JSON object, sent with Content-Type: application/json"
    place: Sequence[Any] = item["loc"]
    name = ".".join(str(part) for part in place if part not in ("body", "query", "path"))
    return f"{name or 'body'}: {item['msg'][:200]}"


async def _store_problem(request: Request, error: Exception) -> Response:
    _log.warning("%s %s failed: %s", request.method, request.url.path, error)
    return _problem_response(503, f"the store says: {error}")


async def _broken_problem(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed: %s", request.method, request.url.path, error)
    detail = "the daemon failed to answer; its log says why"
    # Starlette answers failures outside of the guard, so its headers are set here.
    return _problem_response(500, detail, SECURITY_HEADERS)
