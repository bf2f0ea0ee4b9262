"""Routes that ask for something. The guard has seen to the token."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.exceptions import HTTPException

from ds4watch.model.errors import RefusedError
from ds4watch.web.bodies import Follows, Target, WorkerRequest, WorkerVerb
from ds4watch.web.commands_port import AdminCommands
from ds4watch.web.docs import PROBLEM_DOC, REFUSED_WRITES
from ds4watch.web.who import who_of


def writes(commands: AdminCommands) -> APIRouter:
    """Return the router of commands."""
    router = APIRouter(responses=REFUSED_WRITES)

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
        who = who_of(request, body.who)
        try:
            told = await commands.steer(
                worker=worker, verb=verb, who=who, why=body.why, dry_run=body.dry_run
            )
        except RefusedError as error:
            raise HTTPException(409, str(error)) from error
        if told is None:
            raise HTTPException(404, f"there is no worker {worker}")
        if not body.dry_run:
            commands.wake()
        return Follows(worker=worker, told=told)

    return router
