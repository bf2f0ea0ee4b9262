"""Routes of actions: what was done, and what a person asks for. A command is a row."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from ds4watch.model.action import ActionStatus
from ds4watch.web.bodies import Told
from ds4watch.web.bodies_desk import (
    ActionBody,
    ActionList,
    ActionVerb,
    ActRequest,
    CommandBody,
    DecideRequest,
    NamePattern,
    VerbRequest,
)
from ds4watch.web.docs import MISSING, REFUSED, REFUSED_WRITES
from ds4watch.web.paging import Cursor, Limit, cursor_of, place_of, there, timed_place
from ds4watch.web.ports import AdminDesk
from ds4watch.web.who import who_of

_Action = Annotated[str, Path(max_length=255, pattern=r"^[^/\x00-\x1f\x7f]+$")]
_Number = Annotated[int, Path(ge=1, le=2**63 - 1)]
_Status = Annotated[ActionStatus | None, Query(description="As docs/actions.md has them")]
_Kind = Annotated[str | None, Query(pattern=r"^[a-z][a-z_]{0,31}$")]
_Target = Annotated[str | None, Query(pattern=NamePattern)]


def steering(desk: AdminDesk) -> APIRouter:
    """Return the router of actions and commands."""
    router = APIRouter()

    @router.get("/actions", summary="Actions, newest first", responses=REFUSED)
    async def actions(
        limit: Limit = 100,
        cursor: Cursor = None,
        status: _Status = None,
        kind: _Kind = None,
        target: _Target = None,
    ) -> ActionList:
        found = await desk.actions(
            limit=limit, before=place_of(cursor, timed_place), status=status, kind=kind,
            target=target,
        )  # fmt: skip
        last = found[-1] if len(found) >= limit else None
        after = cursor_of([last["planned_at"], last["id"]]) if last is not None else None
        return ActionList(actions=[ActionBody(**it) for it in found], next_cursor=after)

    @router.post("/actions", status_code=202, summary="Ask for an action", responses=REFUSED_WRITES)
    async def act(body: ActRequest, request: Request) -> CommandBody:
        asked = body.model_dump(exclude={"who"}, exclude_none=True)
        who = who_of(request, body.who)
        return CommandBody(**await desk.ask(kind="act", body=asked, who=who))

    @router.get("/actions/{action}", summary="An action", responses=REFUSED | MISSING)
    async def action(action: _Action) -> ActionBody:
        return ActionBody(**there(await desk.action(action), _no_action(action)))

    @router.post(
        "/actions/{action}/{verb}",
        status_code=202,
        summary="Approve, refuse or undo an action",
        responses=REFUSED_WRITES | MISSING,
    )
    async def steer(
        action: _Action, verb: ActionVerb, body: DecideRequest, request: Request
    ) -> CommandBody:
        there(await desk.action(action), _no_action(action))
        asked: dict[str, Any] = {"action": action, "why": body.why}
        if body.dry_run:
            asked["dry_run"] = True
        who = who_of(request, body.who)
        return CommandBody(**await desk.ask(kind=verb, body=asked, who=who))

    @router.get("/commands/{number}", summary="What came of a command", responses=REFUSED | MISSING)
    async def command(number: _Number) -> CommandBody:
        found = await desk.command(number)
        return CommandBody(**there(found, f"there is no command {number}"))

    @router.post(
        "/reload",
        status_code=202,
        summary="Read settings, rules and policy anew",
        responses=REFUSED_WRITES,
    )
    async def reload(body: VerbRequest, request: Request) -> Told:
        await desk.reload(who=who_of(request, body.who), why=body.why)
        return Told(told="the files are checked; what comes of it is in the audit")

    return router


def _no_action(action: str) -> str:
    return f"there is no action {action}"
