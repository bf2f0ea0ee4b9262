"""Routes of settings, profiles, targets, quality, and exports of the history."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query
from starlette.responses import StreamingResponse

from ds4watch.model.errors import StoreError
from ds4watch.web.bodies_desk import (
    GatewayList,
    NamePattern,
    ProfileList,
    QualityRunList,
    TargetList,
)
from ds4watch.web.docs import PROBLEM_DOC, REFUSED
from ds4watch.web.paging import Cursor, Limit, cursor_of, paged, place_of, row_place
from ds4watch.web.ports import AdminDesk, AdminSource, PrometheusSource

MOST_EXPORT_BYTES = 1 << 30
LONGEST_EXPORT_SECONDS = 31 * 86_400.0
_KINDS = {"openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8"}
_CSV = "text/csv; charset=utf-8"
_Instant = Annotated[float, Query(ge=0, le=4e9, description="Unix seconds")]
_Form = Annotated[Literal["openmetrics", "csv"], Query(alias="format")]
_Name = Annotated[str, Query(max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Names = Annotated[list[_Name] | None, Query(max_length=50)]
_Labels = Annotated[
    list[Annotated[str, Query(max_length=1200, pattern=r"^[A-Za-z_][A-Za-z0-9_]*=")]] | None,
    Query(max_length=20, description="name=value, each of which an alert must have"),
]
_Profile = Annotated[str | None, Query(pattern=NamePattern)]
_Health = Annotated[Literal["up", "down", "unknown"] | None, Query()]
_Pool = Annotated[str | None, Query(max_length=200, description="A target group")]
_EXPORTED: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind: {"schema": {"type": "string"}} for kind in (*_KINDS.values(), _CSV)}}
}


def records(desk: AdminDesk, source: AdminSource, facts: PrometheusSource) -> APIRouter:
    """Return the router of what is on record."""
    router = APIRouter(responses=REFUSED)

    @router.get("/profiles", summary="Profiles of the workers that we run")
    async def profiles() -> ProfileList:
        return ProfileList(profiles=desk.profiles())

    @router.get("/gateways", summary="The gateway's processes")
    async def gateways() -> GatewayList:
        return GatewayList(gateways=source.status()["gateways"])

    @router.get("/targets", summary="Everything that is scraped")
    async def targets(
        limit: Limit = 100, cursor: Cursor = None, health: _Health = None, pool: _Pool = None
    ) -> TargetList:
        found = [
            it
            for it in facts.targets()
            if health in (None, it["health"]) and pool in (None, it["scrapePool"])
        ]
        page, after = paged(found, _by_place, limit=limit, cursor=cursor)
        return TargetList(targets=page, next_cursor=after)

    @router.get("/policy", summary="The service policy in force, and why")
    async def policy() -> dict[str, Any]:
        found: dict[str, Any] = source.status()["policy"]
        return found

    @router.get("/policy/explain", summary="What an alert would lead to now")
    async def explain(label: _Labels = None) -> dict[str, Any]:
        pairs = [it.partition("=") for it in label or ()]
        return source.explain_policy({name: value for name, _, value in pairs})

    @router.get("/config", summary="The settings in force, without secrets")
    async def config() -> dict[str, Any]:
        return desk.config()

    @router.get("/quality/comparisons", summary="Comparisons of profiles with their references")
    async def runs(
        limit: Limit = 100, cursor: Cursor = None, profile: _Profile = None
    ) -> QualityRunList:
        before = place_of(cursor, row_place)
        found = await desk.quality_runs(limit=limit, before=before, profile=profile)
        after = cursor_of(found[-1]["id"]) if len(found) >= limit else None
        return QualityRunList(runs=found, next_cursor=after)

    _add_export(router, desk)
    return router


def _add_export(router: APIRouter, desk: AdminDesk) -> None:
    busy: dict[int | str, dict[str, Any]] = {
        429: PROBLEM_DOC | {"description": "Exports are under way: ask again later"}
    }

    @router.get(
        "/history/export",
        summary="Stored samples as text",
        response_class=StreamingResponse,
        responses=_EXPORTED | busy,
    )
    async def export(
        start_at: _Instant,
        end_at: _Instant,
        form: _Form = "openmetrics",
        target: _Names = None,
        name: _Names = None,
    ) -> StreamingResponse:
        if not 0 < end_at - start_at <= LONGEST_EXPORT_SECONDS:
            raise HTTPException(422, "end_at: must be after start_at, by 31 days at most")
        texts = bounded(
            desk.export(
                form=form,
                start_at=start_at,
                end_at=end_at,
                targets=target or (),
                names=name or (),
            )
        )
        try:
            first = await anext(texts, b"")
        except StoreError as error:
            raise HTTPException(429 if error.retryable else 422, str(error)) from error
        return StreamingResponse(_from(first, texts), media_type=_KINDS.get(form, _CSV))


async def bounded(
    texts: AsyncIterator[bytes], most_bytes: int = MOST_EXPORT_BYTES
) -> AsyncIterator[bytes]:
    """Pass an export on; one that is too long breaks off, so that nobody takes it for whole."""
    sent = 0
    async for chunk in texts:
        sent += len(chunk)
        if sent > most_bytes:
            raise ExportTooLongError
        yield chunk


class ExportTooLongError(Exception):
    """More than may be had at once; `ds4watch history export` writes any length."""


async def _from(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk


def _by_place(target: dict[str, Any]) -> str:
    return f"{target['scrapePool']} {target.get('scrapeUrl', '')}"
