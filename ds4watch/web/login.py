"""How the status page comes to act: a link that lets in once, then a cookie."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.exceptions import HTTPException

from ds4watch.web.bodies_desk import LinkBody, SessionBody
from ds4watch.web.docs import REFUSED, REFUSED_WRITES
from ds4watch.web.gate import ENTRY, session_of
from ds4watch.web.sessions import COOKIE, LINK_SECONDS, SESSION_SECONDS, Sessions
from ds4watch.web.who import visitor_of


def session(sessions: Sessions) -> APIRouter:
    """Return the router of sessions, under the API."""
    router = APIRouter(prefix="/session")

    @router.get("", summary="Who asks", responses=REFUSED)
    async def who(request: Request) -> SessionBody:
        visitor = visitor_of(request)
        return SessionBody(role=visitor.role, name=visitor.name or None)

    @router.post(
        "", status_code=201, summary="A link that lets a browser in once", responses=REFUSED_WRITES
    )
    async def link(request: Request) -> LinkBody:
        visitor = visitor_of(request)
        assert visitor.role is not None
        code = sessions.link(visitor.role, visitor.name, visitor.sha256)
        return LinkBody(path=f"/login?code={code}", expires_in_seconds=LINK_SECONDS)

    @router.delete("", status_code=204, summary="End one's session", responses=REFUSED_WRITES)
    async def leave(request: Request) -> Response:
        sessions.leave(session_of(request.headers.get("cookie")))
        gone = Response(status_code=204)
        gone.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return gone

    return router


def login(sessions: Sessions) -> APIRouter:
    """Return the router of the page's entry."""
    router = APIRouter()

    @router.get(ENTRY, include_in_schema=False)
    async def enter(request: Request, code: Annotated[str, Query(max_length=200)]) -> Response:
        secret = sessions.enter(code)
        if secret is None:
            raise HTTPException(403, "the link is spent or old: `ds4watch status` shows another")
        entered = Response(status_code=303, headers={"Location": "/"})
        entered.set_cookie(
            COOKIE,
            secret,
            max_age=int(SESSION_SECONDS),
            path="/",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return entered

    return router
