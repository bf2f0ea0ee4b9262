"""Routes that only look."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Response
from fastapi import Path as FromPath

from ds4watch.model.alert import Tier
from ds4watch.model.ports import Clock
from ds4watch.model.worker import WorkerPhase
from ds4watch.web.bodies import (
    AlertList,
    AuditPage,
    CostPage,
    CostWhy,
    Explanation,
    Health,
    Readiness,
    RequestSums,
    RuleDistances,
    SignalMap,
    SumBy,
    WorkerList,
)
from ds4watch.web.bodies_desk import CostSum, NamePattern
from ds4watch.web.docs import MISSING, REFUSED
from ds4watch.web.paging import Cursor, Limit, cursor_of, paged, place_of, row_place
from ds4watch.web.ports import AdminSource

Kind = Annotated[str | None, Query(pattern=r"^[a-z][a-z_.]{0,63}$", description="This kind only")]
Instant = Annotated[float, Query(ge=0, le=4e9, description="Unix seconds")]
_LONGEST_SECONDS = 62 * 86_400

Hours = Annotated[int, Query(ge=1, le=24 * 400, description="Hours, the running one included")]
Phase = Annotated[WorkerPhase | None, Query()]
Profile = Annotated[str | None, Query(pattern=NamePattern)]
WorkerName = Annotated[str, FromPath(pattern=NamePattern)]
RuleFilter = Annotated[str | None, Query(max_length=200)]
AlertPhaseFilter = Annotated[Literal["pending", "firing", "resolved"] | None, Query()]
Severity = Annotated[Tier | None, Query()]
Silenced = Annotated[bool | None, Query(description="Whether a silence mutes it")]
Span = Annotated[Literal["hour", "today"], Query(description="The running hour, or day (UTC)")]
CostBy = Annotated[Literal["worker", "profile", "part", "key", "model"], Query()]
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

    _add_lists(router, source)

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


def _add_lists(router: APIRouter, source: AdminSource) -> None:
    @router.get("/workers", summary="The fleet")
    async def workers(
        limit: Limit = 100, cursor: Cursor = None, phase: Phase = None, profile: Profile = None
    ) -> WorkerList:
        found = [
            it
            for it in source.status()["fleet"]
            if phase in (None, it["phase"]) and profile in (None, it["profile"])
        ]
        page, after = paged(found, lambda it: it["id"], limit=limit, cursor=cursor)
        return WorkerList(workers=page, next_cursor=after)

    @router.get("/workers/{worker}", summary="A worker", responses=MISSING)
    async def worker(worker: WorkerName) -> dict[str, Any]:
        found = [it for it in source.status()["fleet"] if it["id"] == worker]
        if not found:
            raise HTTPException(404, f"there is no worker {worker}")
        return dict(found[0])

    @router.get("/alerts", summary="Pending, firing and resolved alerts")
    async def alerts(
        limit: Limit = 100,
        cursor: Cursor = None,
        name: RuleFilter = None,
        phase: AlertPhaseFilter = None,
        severity: Severity = None,
        silenced: Silenced = None,
    ) -> AlertList:
        wanted = {"name": name, "phase": phase, "severity": severity}
        found = [
            it
            for it in source.status()["alerts"]
            if all(value in (None, it[key]) for key, value in wanted.items())
            and silenced in (None, bool(it["silenced_by"]))
        ]
        page, after = paged(found, _by_fingerprint, limit=limit, cursor=cursor)
        return AlertList(alerts=page, next_cursor=after)


def _by_fingerprint(alert: dict[str, Any]) -> str:
    return f"{alert['name']} {alert['fingerprint']}"


def _add_explain(router: APIRouter, source: AdminSource) -> None:
    @router.get("/rules", summary="How far alerts are from each of their tiers")
    async def rules() -> RuleDistances:
        return RuleDistances(rules=source.rules())

    @router.get("/rules/{name}", summary="What a rule sees now", responses=MISSING)
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
    async def audit(limit: Limit = 100, cursor: Cursor = None, kind: Kind = None) -> AuditPage:
        before = place_of(cursor, row_place)
        rows = await source.audit(limit=limit, before=before, kind=kind)
        is_full = len(rows) >= limit
        return AuditPage(audit=rows, next_cursor=cursor_of(rows[-1]["id"]) if is_full else None)


def _add_cost(router: APIRouter, source: AdminSource, clock: Clock) -> None:
    @router.get("/cost", summary="What was spent, by hour")
    async def cost(start_at: Instant, end_at: Instant) -> CostPage:
        if not 0 <= end_at - start_at <= _LONGEST_SECONDS:
            raise HTTPException(422, "end_at: must be after start_at, by 62 days at most")
        return CostPage(**await source.cost(start_at=start_at, end_at=end_at))

    @router.get("/cost/sums", summary="What was spent, on what or for whom")
    async def sums(by: CostBy = "part", span: Span = "today") -> CostSum:
        now = clock.now()
        start_at = now - now % (3600.0 if span == "hour" else 86_400.0)
        page = await source.cost(start_at=start_at, end_at=now)
        return cost_sums(page, by)

    @router.get("/cost/why", summary="Why an hour costs more or less than usual")
    async def why(at: Instant | None = None) -> CostWhy:
        return CostWhy(**source.cost_why(at=clock.now() if at is None else at))


def cost_sums(page: dict[str, Any], by: str) -> CostSum:
    """Return the rows of hours added up by one of their columns."""
    sums: dict[str, int] = {}
    for row in page["work"] if by in ("key", "model") else page["costs"]:
        sums[row[by]] = sums.get(row[by], 0) + row["nanos"]
    dearest = sorted(sums.items(), key=lambda it: (-it[1], it[0]))
    return CostSum(
        currency=page["currency"],
        start_at=page["start_at"],
        end_at=page["end_at"],
        by=by,
        nanos=sum(sums.values()),
        sums=[{by: name, "nanos": nanos} for name, nanos in dearest],
    )


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
