"""Routes of golden questions. The guard has seen to the token."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.exceptions import HTTPException

from ds4watch.model.errors import ConfigError, RefusedError
from ds4watch.web.bodies import Told, Who
from ds4watch.web.docs import PROBLEM_DOC, REFUSED, REFUSED_WRITES
from ds4watch.web.ports import QualityPort
from ds4watch.web.who import who_of

ProfileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
_Profiles = Annotated[list[ProfileName], Query(max_length=32, description="All, if none is named")]
_Reference = Annotated[ProfileName | None, Query(description="What they are compared with")]
_Points = Annotated[float, Query(ge=0, le=100, description="Percentage points")]
_UNWILLING: dict[int | str, dict[str, Any]] = REFUSED_WRITES | {
    409: PROBLEM_DOC | {"description": "It cannot be done now, and why"},
    422: PROBLEM_DOC | {"description": "A parameter or a golden set is at fault: what, and where"},
}
_NO_RUN: dict[int | str, dict[str, Any]] = REFUSED_WRITES | {
    404: PROBLEM_DOC | {"description": "There is nothing such"}
}


class RunRequest(BaseModel):
    """Ask that golden questions be asked of a profile, and of another to compare it with."""

    model_config = ConfigDict(extra="forbid", strict=True)

    profile: ProfileName
    reference: ProfileName | None = None
    questions: int = Field(0, ge=0, le=20_000, description="Of each at most; 0: all there are.")
    budget_nanos: int | None = Field(
        None, ge=1, le=2**62, description="What it may cost, in 1e-9 of the currency."
    )
    why: str = Field(min_length=1, max_length=500)
    who: Who | None = Field(None, description="Name for the audit; the token's role if absent.")


class StopRequest(BaseModel):
    """Ask that something of quality be ended or forgotten."""

    model_config = ConfigDict(extra="forbid", strict=True)

    why: str = Field(min_length=1, max_length=500)
    who: Who | None = Field(None, description="Name for the audit; the token's role if absent.")


class RunList(BaseModel):
    """The newest runs, newest first."""

    runs: list[dict[str, Any]]


class RunBegun(BaseModel):
    """The run that was begun, or goes on."""

    id: int


def quality(port: QualityPort) -> APIRouter:
    """Return the router of golden questions."""
    documented = Depends(HTTPBearer(auto_error=False, scheme_name="token"))
    router = APIRouter(prefix="/quality")

    @router.get("/runs", summary="Golden runs, newest first", responses=REFUSED)
    async def runs() -> RunList:
        return RunList(runs=await port.runs())

    @router.get("/table", summary="Profiles side by side, and what is advised", responses=REFUSED)
    async def table(
        profile: _Profiles = [],  # noqa: B006 - FastAPI copies it
        reference: _Reference = None,
        loss_points: _Points = 0.9,
        bound_points: _Points = 2.0,
    ) -> dict[str, Any]:
        return await port.table(
            profile, reference=reference, loss_points=loss_points, bound_points=bound_points
        )

    @router.post(
        "/runs",
        status_code=202,
        summary="Ask golden questions of a profile and its reference",
        dependencies=[documented],
        responses=_UNWILLING,
    )
    async def begin(body: RunRequest, request: Request) -> RunBegun:
        try:
            run = await port.begin(
                body.profile,
                reference=body.reference or "",
                questions=body.questions,
                budget=body.budget_nanos,
                who=who_of(request, body.who),
                why=body.why,
            )
        except RefusedError as error:
            raise HTTPException(409, str(error)) from error
        except ConfigError as error:
            raise HTTPException(422, str(error)) from error
        return RunBegun(id=run)

    _add_ends(router, port, documented)
    return router


def _add_ends(router: APIRouter, port: QualityPort, documented: Any) -> None:
    @router.post(
        "/stop",
        status_code=202,
        summary="Stop the golden run under way; it can go on later",
        dependencies=[documented],
        responses=_NO_RUN,
    )
    async def stop(body: StopRequest, request: Request) -> Told:
        run = await port.stop(who_of(request, body.who))
        if run is None:
            raise HTTPException(404, "no golden run is under way")
        return Told(told=f"golden run {run} is stopped")

    @router.post(
        "/baselines/{profile}/forget",
        status_code=202,
        summary="Accept what a profile gives at its next start, whatever it gave before",
        dependencies=[documented],
        responses=_NO_RUN,
    )
    async def forget(
        profile: Annotated[ProfileName, Path()], body: StopRequest, request: Request
    ) -> Told:
        who = who_of(request, body.who)
        if not await port.accept(profile, who=who, why=body.why):
            raise HTTPException(404, f"nothing is kept of starts of {profile}")
        return Told(told=f"what {profile} gives at its next start is what it is compared with")
