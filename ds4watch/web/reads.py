"""Routes that only look."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Response
from fastapi import Path as FromPath

from ds4watch.model.ports import Clock
from ds4watch.model.worker import WorkerPhase
from ds4watch.web.bodies import (
    AlertList,
    AuditPage,
    CostPage,
    CostWhy,
    Explanation,
    Health,
    Problem,
    Readiness,
    RequestSums,
    SignalMap,
    SumBy,
    WorkerList,
)
from ds4watch.web.guard import PROBLEM_TYPE
from ds4watch.web.ports import AdminSource

PROBLEM_DOC: dict[str, Any] = {"content": {PROBLEM_TYPE: {"schema": Problem.model_json_schema()}}}
REFUSED: dict[int | str, dict[str, Any]] = {
    401: PROBLEM_DOC | {"description": "No token, or an unknown one"},
    403: PROBLEM_DOC | {"description": "Not allowed to this token, host or origin"},
    422: PROBLEM_DOC | {"description": "A parameter is not as it should be"},
}
Limit = Annotated[int, Query(ge=1, le=1000, description="Rows at most")]
Before = Annotated[int | None, Query(ge=0, le=2**63 - 1, description="Rows older than this id")]
Kind = Annotated[str | None, Query(pattern=r"^[a-z][a-z_.]{0,63}$", description="This kind only")]
Instant = Annotated[float, Query(ge=0, le=4e9, description="Unix seconds")]
_LONGEST_SECONDS = 62 * 86_400

Hours = Annotated[int, Query(ge=1, le=24 * 400, description="Hours, the running one included")]
RuleName = Annotated[str, FromPath(max_length=200, description="An alert, or a recorded series")]


def reads(source: AdminSource, clock: Clock) -> APIRouter:
    """Return the router of everything that changes nothing."""
    router = APIRouter(responses=REFUSED)

    @router.get("/health", summary="Liveness")
    async def health() -> Health:
        return Health(status="ok", at=clock.now())

    @router.get("/ready", summary="Readiness", responses={503: {"model": Readiness}})
    async def ready(response: Response) -> Readiness:
        readiness = readiness_of(source.status())
        response.status_code = 200 if readiness.ready else 503
        return readiness

    @router.get("/status", summary="The state of everything")
    async def status() -> dict[str, Any]:
        return source.status()

    @router.get("/workers", summary="The fleet")
    async def workers() -> WorkerList:
        return WorkerList(workers=source.status()["fleet"])

    @router.get("/alerts", summary="Pending, firing and resolved alerts")
    async def alerts() -> AlertList:
        return AlertList(alerts=source.status()["alerts"])

    @router.get("/signals", summary="Signals, of the fleet and of each worker")
    async def signals() -> SignalMap:
        found = source.status()
        by_worker = {worker["id"]: worker.get("signals") or {} for worker in found["fleet"]}
        return SignalMap(signals=found["signals"], workers=by_worker)

    _add_audit(router, source)
    _add_cost(router, source, clock)
    _add_requests(router, source)
    _add_explain(router, source)
    return router


def _add_explain(router: APIRouter, source: AdminSource) -> None:
    missing = PROBLEM_DOC | {"description": "There is no such rule"}

    @router.get("/rules/{name}", summary="What a rule sees now", responses={404: missing})
    async def explain(name: RuleName) -> Explanation:
        found = source.explain(name)
        if not found:
            raise HTTPException(404, _no_rule(name, source.rule_names()))
        return Explanation(rules=found)


def _no_rule(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"there is no rule {name}" + (f" (did you mean {close[0]}?)" if close else "")


def _add_audit(router: APIRouter, source: AdminSource) -> None:
    @router.get("/audit", summary="What happened, newest first")
    async def audit(limit: Limit = 100, before: Before = None, kind: Kind = None) -> AuditPage:
        rows = await source.audit(limit=limit, before=before, kind=kind)
        is_full = len(rows) >= limit
        return AuditPage(audit=rows, next_before=rows[-1]["id"] if is_full else None)


def _add_cost(router: APIRouter, source: AdminSource, clock: Clock) -> None:
    @router.get("/cost", summary="What was spent, by hour")
    async def cost(start_at: Instant, end_at: Instant) -> CostPage:
        if not 0 <= end_at - start_at <= _LONGEST_SECONDS:
            raise HTTPException(422, "end_at: must be after start_at, by 62 days at most")
        return CostPage(**await source.cost(start_at=start_at, end_at=end_at))

    @router.get("/cost/why", summary="Why an hour costs more or less than usual")
    async def why(at: Instant | None = None) -> CostWhy:
        return CostWhy(**source.cost_why(at=clock.now() if at is None else at))


def _add_requests(router: APIRouter, source: AdminSource) -> None:
    @router.get("/requests", summary="What was asked and what it cost, by key, model, …")
    async def requests(by: SumBy = "key", hours: Hours = 24) -> RequestSums:
        return RequestSums(**await source.requests(by=by, hours=hours))


def readiness_of(status: dict[str, Any]) -> Readiness:
    """Return whether all workers that are to be ready are, and what is waited for."""
    waiting = [str(text) for text in status.get("waiting_for") or ()]
    late = [
        f"{worker['id']} is {worker['phase']}"
        for worker in status["fleet"]
        if worker["phase"] != WorkerPhase.READY
        and (worker.get("wanted") or {}).get("wish") in (None, WorkerPhase.READY)
    ]
    is_ready = not waiting and not late
    return Readiness(ready=is_ready, waiting_for=[] if is_ready else waiting or late)
