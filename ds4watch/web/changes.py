"""Routes of rolling changes and of the load ahead. The guard has seen to the token."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.exceptions import HTTPException

from ds4watch.access.roles import Role
from ds4watch.model.errors import ConfigError, RefusedError
from ds4watch.web.bodies import (
    ApplyRequest,
    ChangeRequest,
    ChangeState,
    ChangeVerb,
    Plan,
    Told,
)
from ds4watch.web.commands_port import AdminCommands
from ds4watch.web.docs import PROBLEM_DOC, REFUSED, REFUSED_WRITES
from ds4watch.web.ports import AdminSource
from ds4watch.web.who import require, who_of

_UNWILLING: dict[int | str, dict[str, Any]] = REFUSED_WRITES | {
    409: PROBLEM_DOC | {"description": "It cannot be done now, and why"},
    422: PROBLEM_DOC | {"description": "A parameter or the files are at fault: what, and where"},
}

Hours = Annotated[float, Query(gt=0, le=48, description="So many hours ahead")]


def changes(source: AdminSource, commands: AdminCommands) -> APIRouter:
    """Return the router of rolling changes."""
    router = APIRouter(prefix="/fleet")

    @router.get("/change", summary="The rolling change under way, or the last", responses=REFUSED)
    async def change() -> ChangeState:
        return ChangeState(change=source.fleet_change())

    @router.get("/forecast", summary="The load ahead, and the workers wanted", responses=REFUSED)
    async def forecast(hours: Hours = 6.0) -> dict[str, Any]:
        return source.forecast(hours)

    @router.post(
        "/apply",
        status_code=202,
        summary="Make the fleet what the files say, step by step; or only plan it",
        responses=_UNWILLING,
    )
    async def apply(body: ApplyRequest, request: Request) -> Plan:
        if body.file is not None:
            require(request, Role.ADMIN, what="a file of one's own")
        try:
            plan = await commands.apply(
                file=body.file,
                plan=body.plan,
                dry_run=body.dry_run,
                who=who_of(request, body.who),
                why=body.why,
            )
        except ConfigError as error:
            findings = "; ".join(str(finding) for finding in error.findings)
            raise HTTPException(422, findings) from error
        except RefusedError as error:
            raise HTTPException(409, str(error)) from error
        return Plan(
            plan=plan["plan"],
            begun=plan["begun"],
            ready_at_least=plan["ready_at_least"],
            steps=plan["steps"],
            unchanged=plan["unchanged"],
        )

    @router.post(
        "/{verb}",
        status_code=202,
        summary="Pause, resume or abort the rolling change",
        responses=_UNWILLING,
    )
    async def steer(verb: ChangeVerb, body: ChangeRequest, request: Request) -> Told:
        who = who_of(request, body.who)
        try:
            told = await commands.steer_change(
                verb=verb, who=who, why=body.why, dry_run=body.dry_run
            )
        except RefusedError as error:
            raise HTTPException(409, str(error)) from error
        return Told(told=told)

    return router
