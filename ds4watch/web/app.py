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
from ds4watch.model.ports import Clock
from ds4watch.web.changes import changes
from ds4watch.web.gate import LOOPBACK_HOSTS, Gate
from ds4watch.web.guard import PROBLEM_TYPE, SECURITY_HEADERS, Guard, problem
from ds4watch.web.hooks import hooks
from ds4watch.web.keys import keys
from ds4watch.web.ports import Ports
from ds4watch.web.prometheus import prometheus
from ds4watch.web.reads import reads
from ds4watch.web.tokens import TokenTable
from ds4watch.web.writes import writes

_log = logging.getLogger(__name__)

STATIC = Path(str(files("ds4watch.web"))) / "static"
API = "/api/ds4/v1"
PROMETHEUS_API = "/api/v1"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def create_app(
    ports: Ports,
    *,
    tokens: TokenTable,
    render_metrics: Callable[[], bytes],
    clock: Clock,
    open_reads: bool = True,
) -> FastAPI:
    """Return the admin application. `open_reads` is for loopback alone."""
    app = FastAPI(
        title="ds4watch admin API",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{API}/openapi.json",
    )
    app.add_exception_handler(HTTPException, _http_problem)
    app.add_exception_handler(RequestValidationError, _invalid_problem)
    app.add_exception_handler(Exception, _broken_problem)
    app.include_router(reads(ports.source, clock), prefix=API)
    app.include_router(writes(ports.commands), prefix=API)
    app.include_router(prometheus(ports.facts, ports.queries, clock), prefix=PROMETHEUS_API)
    app.include_router(changes(ports.source, ports.commands), prefix=API)
    app.include_router(keys(ports.commands), prefix=API)
    if ports.hooks is not None:
        app.include_router(hooks(ports.hooks), prefix=API)
    _add_pages(app, render_metrics)
    hosts = LOOPBACK_HOSTS if open_reads else None
    app.add_middleware(Guard, gate=Gate(tokens, open_reads=open_reads, hosts=hosts))
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
    place: Sequence[Any] = item["loc"]
    name = ".".join(str(part) for part in place if part not in ("body", "query", "path"))
    return f"{name or 'body'}: {item['msg'][:200]}"


async def _broken_problem(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed: %s", request.method, request.url.path, error)
    detail = "the daemon failed to answer; its log says why"
    # Starlette answers failures outside of the guard, so its headers are set here.
    return _problem_response(500, detail, SECURITY_HEADERS)
