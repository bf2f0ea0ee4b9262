"""Routes of silences and holds. The guard has seen to the token."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from starlette.responses import JSONResponse

from ds4watch.model.errors import RefusedError
from ds4watch.model.ports import Clock
from ds4watch.web.bodies import Target, Told, Who
from ds4watch.web.bodies_desk import (
    HoldAnswer,
    HoldBody,
    HoldList,
    HoldPut,
    SilenceAnswer,
    SilenceBody,
    SilenceList,
    SilenceRequest,
)
from ds4watch.web.commands_port import AdminCommands
from ds4watch.web.docs import MISSING, REFUSED, REFUSED_WRITES
from ds4watch.web.paging import Cursor, Limit, paged, there
from ds4watch.web.ports import AdminDesk, AdminSource
from ds4watch.web.who import who_of

WhoQuery = Annotated[Who | None, Query(description="Name for the audit; the token's if absent")]
_Id = Annotated[str, Path(pattern=r"^[0-9a-f-]{36}$", description="Id of a silence")]
_Over = Annotated[bool, Query(description="Those that ended last too")]
_DryRun = Annotated[bool, Query(description="Only check it, and say what would follow")]
_TOLD: dict[int | str, dict[str, Any]] = {
    200: {"model": Told, "description": "A dry run: what would follow"}
}
_Target = Annotated[Target, Path(description="A pool or worker; * for everything")]


def silences(desk: AdminDesk, clock: Clock) -> APIRouter:
    """Return the router of silences."""
    router = APIRouter(prefix="/silences")

    @router.get("", summary="Silences in force and to come", responses=REFUSED)
    async def listed(
        limit: Limit = 100,
        cursor: Cursor = None,
        over: _Over = False,  # noqa: FBT002 - a parameter of the query
    ) -> SilenceList:
        found = await desk.listed_silences(over=over)
        page, after = paged(found, _by_end, limit=limit, cursor=cursor)
        return SilenceList(silences=[SilenceBody(**it) for it in page], next_cursor=after)

    @router.post(
        "", status_code=201, summary="Tell nobody of some alerts", responses=REFUSED_WRITES
    )
    async def silence(body: SilenceRequest, request: Request) -> SilenceAnswer:
        begins = clock.now() if body.starts_at is None else body.starts_at
        if (body.seconds is None) == (body.until is None):
            raise HTTPException(422, "give seconds or until, one of them")
        until = body.until if body.seconds is None else begins + body.seconds
        assert until is not None
        try:
            placed = await desk.silence(
                matchers=body.matchers,
                starts_at=body.starts_at,
                until=until,
                who=who_of(request, body.who),
                why=body.why,
                dry_run=body.dry_run,
            )
        except RefusedError as error:
            raise HTTPException(422, str(error)) from error
        return SilenceAnswer(**placed, dry_run=body.dry_run)

    @router.get("/{silence_id}", summary="A silence", responses=REFUSED | MISSING)
    async def one(silence_id: _Id) -> SilenceBody:
        found = await desk.one_silence(silence_id)
        return SilenceBody(**there(found, f"there is no silence {silence_id}"))

    @router.delete(
        "/{silence_id}",
        status_code=204,
        summary="End a silence",
        responses=REFUSED_WRITES | MISSING | _TOLD,
    )
    async def expire(
        silence_id: _Id,
        request: Request,
        who: WhoQuery = None,
        dry_run: _DryRun = False,  # noqa: FBT002 - a parameter of the query
    ) -> Response:
        told = await desk.unsilence(silence_id, who=who_of(request, who), dry_run=dry_run)
        if told is None:
            raise HTTPException(404, f"no silence {silence_id} is in force or to come")
        return _ended(told, dry_run=dry_run)

    return router


def _by_end(silence: dict[str, Any]) -> str:
    return f"{silence['ends_at']:020.6f} {silence['id']}"


def _ended(told: str, *, dry_run: bool) -> Response:
    return JSONResponse({"told": told}) if dry_run else Response(status_code=204)


def holds(source: AdminSource, commands: AdminCommands) -> APIRouter:
    """Return the router of holds."""
    router = APIRouter(prefix="/holds")

    @router.get("", summary="The holds in force", responses=REFUSED)
    async def listed() -> HoldList:
        return HoldList(holds=[HoldBody(**it) for it in source.status()["holds"]])

    @router.get("/{target}", summary="The hold on a target", responses=REFUSED | MISSING)
    async def one(target: _Target) -> HoldBody:
        found = [it for it in source.status()["holds"] if it["target"] == target]
        if not found:
            raise HTTPException(404, f"there is no hold on {target}")
        return HoldBody(**max(found, key=lambda it: it["until_at"]))

    @router.put(
        "/{target}",
        summary="Forbid actions on a target for a while",
        responses=REFUSED_WRITES,
    )
    async def hold(target: _Target, body: HoldPut, request: Request) -> HoldAnswer:
        placed = await commands.hold(
            target=target,
            seconds=body.seconds,
            who=who_of(request, body.who),
            why=body.why,
            dry_run=body.dry_run,
        )
        if not body.dry_run:
            commands.wake()
        return HoldAnswer(**placed, dry_run=body.dry_run)

    @router.delete(
        "/{target}",
        status_code=204,
        summary="Lift a hold",
        responses=REFUSED_WRITES | MISSING | _TOLD,
    )
    async def lift(
        target: _Target,
        request: Request,
        who: WhoQuery = None,
        dry_run: _DryRun = False,  # noqa: FBT002 - a parameter of the query
    ) -> Response:
        told = await commands.lift(target=target, who=who_of(request, who), dry_run=dry_run)
        if told is None:
            raise HTTPException(404, f"there is no hold on {target}")
        if not dry_run:
            commands.wake()
        return _ended(told, dry_run=dry_run)

    return router
