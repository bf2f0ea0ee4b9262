"""Routes that ask for something. The guard has seen to the token."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from ds4watch.model.errors import RefusedError
from ds4watch.web.bodies import Follows, HoldRequest, Target, Who, WorkerRequest, WorkerVerb
from ds4watch.web.guard import ROLE_KEY
from ds4watch.web.ports import AdminCommands
from ds4watch.web.reads import PROBLEM_DOC, REFUSED

REFUSED_WRITES = REFUSED | {
    400: PROBLEM_DOC | {"description": "The body is not JSON"},
    408: PROBLEM_DOC | {"description": "The body did not arrive in time"},
    413: PROBLEM_DOC | {"description": "The body is too large"},
}
WhoQuery = Annotated[Who | None, Query(description="Name for the audit")]


def writes(commands: AdminCommands) -> APIRouter:
    """Return the router of commands."""
    # For the OpenAPI document alone: the guard checks tokens before any route is looked up.
    documented = Depends(HTTPBearer(auto_error=False, scheme_name="token"))
    router = APIRouter(responses=REFUSED_WRITES, dependencies=[documented])

    @router.post("/holds", status_code=201, summary="Forbid actions on a target for a while")
    async def hold(body: HoldRequest, request: Request) -> dict[str, Any]:
        who = body.who or _role_name(request)
        placed = await commands.hold(
            target=body.target, seconds=body.seconds, who=who, why=body.why
        )
        commands.wake()
        return placed

    not_found: dict[int | str, dict[str, Any]] = {
        404: PROBLEM_DOC | {"description": "There is no such hold"}
    }

    @router.delete("/holds/{target}", status_code=204, summary="Lift a hold", responses=not_found)
    async def lift(
        target: Annotated[Target, Path()], request: Request, who: WhoQuery = None
    ) -> Response:
        if not await commands.lift(target=target, who=who or _role_name(request)):
            raise HTTPException(404, f"there is no hold on {target}")
        commands.wake()
        return Response(status_code=204)

    unwilling: dict[int | str, dict[str, Any]] = {
        404: PROBLEM_DOC | {"description": "There is no such worker"},
        409: PROBLEM_DOC | {"description": "The worker cannot be that, and why"},
    }

    @router.post(
        "/workers/{worker}/{verb}",
        status_code=202,
        summary="Drain, stop, start, restart, wake a worker, or put it to sleep",
        responses=unwilling,
    )
    async def steer(
        worker: Annotated[Target, Path()],
        verb: WorkerVerb,
        body: WorkerRequest,
        request: Request,
    ) -> Follows:
        who = body.who or _role_name(request)
        try:
            told = await commands.steer(worker=worker, verb=verb, who=who, why=body.why)
        except RefusedError as error:
            raise HTTPException(409, str(error)) from error
        if told is None:
            raise HTTPException(404, f"there is no worker {worker}")
        commands.wake()
        return Follows(worker=worker, told=told)

    return router


def _role_name(request: Request) -> str:
    return str(request.scope[ROLE_KEY])
