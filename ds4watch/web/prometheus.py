"""The Prometheus HTTP API: what its clients ask, answered in its shapes."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from ds4watch.model.errors import BadQueryError, QueryError, QueryTimeoutError, StoreError
from ds4watch.model.ports import Clock
from ds4watch.model.question import Asked, Question
from ds4watch.promql.json_text import dumped, success
from ds4watch.promql.parse import parse
from ds4watch.promql.render import render
from ds4watch.web import prometheus_facts as facts
from ds4watch.web.docs import REFUSED
from ds4watch.web.ports import PrometheusSource, QuerySource
from ds4watch.web.prometheus_docs import ANSWERS, ROUTES, documented
from ds4watch.web.prometheus_fields import (
    Fields,
    instant_question,
    range_question,
    series_question,
)

_log = logging.getLogger(__name__)

JSON_TYPE = "application/json"
_SMALL_BYTES = 1024
Answer = Callable[[Request], Awaitable[Response]]


def prometheus(source: PrometheusSource, queries: QuerySource, clock: Clock) -> APIRouter:
    """Return the router of `/api/v1`."""
    router = APIRouter()
    _add_queries(router, queries, clock)
    _add_series(router, queries)
    _add_facts(router, source)
    return router


def _add_queries(router: APIRouter, queries: QuerySource, clock: Clock) -> None:
    async def query(request: Request) -> Response:
        fields = await Fields.of(request)
        asked = instant_question(fields, clock.now(), compressed=_takes_gzip(request))
        return await _told(queries, asked, "query")

    async def query_range(request: Request) -> Response:
        fields = await Fields.of(request)
        asked = range_question(fields, compressed=_takes_gzip(request))
        return await _told(queries, asked, "query")

    _add(router, "/query", query, post=True)
    _add(router, "/query_range", query_range, post=True)


def _add_series(router: APIRouter, queries: QuerySource) -> None:
    async def series(request: Request) -> Response:
        return await listed(request, Asked.SERIES)

    async def labels(request: Request) -> Response:
        return await listed(request, Asked.LABEL_NAMES)

    async def values(request: Request) -> Response:
        return await listed(request, Asked.LABEL_VALUES, request.path_params["name"])

    async def listed(request: Request, asked: Asked, label: str = "") -> Response:
        fields = await Fields.of(request)
        question = series_question(fields, asked, compressed=_takes_gzip(request), label=label)
        return await _told(queries, question, "match[]")

    _add(router, "/series", series, post=True)
    _add(router, "/labels", labels, post=True)
    _add(router, "/label/{name}/values", values)


def _add_facts(router: APIRouter, source: PrometheusSource) -> None:
    def add(path: str, tell: Callable[[PrometheusSource, Fields], Any], *, post: bool) -> None:
        async def told(request: Request) -> Response:
            found = tell(source, await Fields.of(request))
            return _json(success(dumped(found)), request)

        _add(router, path, told, post=post)

    for name in ("rules", "alerts", "targets", "metadata"):
        add(f"/{name}", getattr(facts, name), post=False)
    add("/status/buildinfo", facts.build_info, post=False)
    add("/query_exemplars", facts.exemplars, post=True)
    add("/format_query", _formatted, post=True)


def _formatted(_source: PrometheusSource, fields: Fields) -> str:
    written = fields.text("query")
    try:
        return render(parse(written))
    except QueryError as error:
        raise _named(error, "query", written) from error


def _json(text: str, request: Request) -> Response:
    body = text.encode()
    if len(body) < _SMALL_BYTES or not _takes_gzip(request):
        return Response(body, media_type=JSON_TYPE)
    return _response(gzip.compress(body, 1), compressed=True)


def _response(body: bytes, *, compressed: bool) -> Response:
    headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"} if compressed else {}
    return Response(body, media_type=JSON_TYPE, headers=headers)


def _add(router: APIRouter, path: str, answer: Answer, *, post: bool = False) -> None:
    async def guarded(request: Request) -> Response:
        try:
            return await answer(request)
        except (QueryError, StoreError) as error:
            return _refused(error)

    for method in ("GET", "POST") if post else ("GET",):
        router.add_api_route(
            path,
            guarded,
            methods=[method],
            summary=ROUTES[path][0],
            operation_id=f"{method.lower()}{path.replace('/', '_')}",
            response_class=Response,
            responses=REFUSED | ANSWERS,
            openapi_extra=documented(path, method),
        )


async def _told(queries: QuerySource, question: Question, parameter: str) -> Response:
    try:
        body = await queries.ask_body(question)
    except BadQueryError as error:
        written = question.query if parameter == "query" else ""
        raise _named(error, parameter, written) from error
    return _response(body, compressed=question.compressed)


def _named(error: QueryError, parameter: str, written: str) -> BadQueryError:
    """Return the error with the parameter that is to be mended, and the place in it."""
    where = "" if error.position is None else f"{_place(written, error.position)}: parse error: "
    return BadQueryError(f'invalid parameter "{parameter}": {where}{error}')


def _place(text: str, position: int) -> str:
    """Return line and column of a character, both from 1."""
    before = text[:position]
    return f"{before.count(chr(10)) + 1}:{position - before.rfind(chr(10))}"


def _takes_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


def _refused(error: QueryError | StoreError) -> Response:
    status, kind = _kind_of(error)
    if isinstance(error, StoreError):
        _log.warning("a query failed: %s", error)
    body = {"status": "error", "errorType": kind, "error": str(error)}
    return Response(json.dumps(body), status_code=status, media_type=JSON_TYPE)


def _kind_of(error: QueryError | StoreError) -> tuple[int, str]:
    if isinstance(error, BadQueryError):
        return 400, "bad_data"
    if isinstance(error, QueryTimeoutError):
        return 503, "timeout"
    return (422, "execution") if isinstance(error, QueryError) else (500, "internal")
