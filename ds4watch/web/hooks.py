"""Routes that other systems call: Slack's buttons, Alertmanager's webhook; reports."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Protocol

from fastapi import APIRouter, Body, Depends, Request, Response
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from ds4watch.model.errors import Ds4watchError, EdgeError, RefusedError, StoreError
from ds4watch.web.docs import REFUSED, REFUSED_WRITES

_log = logging.getLogger(__name__)

Period = Literal["daily", "weekly"]


class Hooks(Protocol):
    """Where calls go; bound by the daemon."""

    async def slack(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Take a button's callback; False if it is not signed. Raises Ds4watchError."""
        ...

    async def alertmanager(self, document: Any) -> dict[str, Any]:
        """Take alerts of others. Raises RefusedError if it is no such webhook."""
        ...

    async def report(self, period: str, *, tell: bool) -> dict[str, Any]:
        """Return the report of the last whole day or week; tell it, if so. Raises StoreError."""
        ...


def hooks(taker: Hooks) -> APIRouter:
    """Return the router."""
    documented = Depends(HTTPBearer(auto_error=False, scheme_name="token"))
    router = APIRouter()

    @router.post(
        "/hooks/slack",
        summary="Buttons of Slack; signed, needs no token",
        response_class=Response,
        responses=REFUSED_WRITES,
    )
    async def slack(request: Request) -> Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            signed = await taker.slack(headers, await request.body())
        except EdgeError as error:
            # Whoever calls may be anybody: where a secret is kept is not for them.
            _log.warning("a button in Slack was not taken: %s", error)
            raise HTTPException(503, "it cannot be taken now; the daemon's log says why") from error
        except Ds4watchError as error:
            raise HTTPException(400, str(error)) from error
        if not signed:
            raise HTTPException(401, "not signed by Slack within the last five minutes")
        return Response(status_code=200)

    @router.post(
        "/hooks/alertmanager",
        summary="Alertmanager's webhook",
        dependencies=[documented],
        responses=REFUSED_WRITES,
    )
    async def alertmanager(document: Annotated[Any, Body()]) -> dict[str, Any]:
        try:
            return await taker.alertmanager(document)
        except RefusedError as error:
            raise HTTPException(422, str(error)) from error
        except StoreError as error:
            # Alertmanager tries again.
            raise HTTPException(503, str(error)) from error

    @router.get(
        "/reports/{period}",
        summary="The last whole day or week, beside the one before",
        responses=REFUSED,
    )
    async def report(period: Period) -> dict[str, Any]:
        return await _report(taker, period, tell=False)

    @router.post(
        "/reports/{period}",
        summary="Tell it to all channels",
        dependencies=[documented],
        responses=REFUSED_WRITES,
    )
    async def tell(period: Period) -> dict[str, Any]:
        return await _report(taker, period, tell=True)

    return router


async def _report(taker: Hooks, period: str, *, tell: bool) -> dict[str, Any]:
    try:
        return await taker.report(period, tell=tell)
    except StoreError as error:
        raise HTTPException(503, str(error)) from error
