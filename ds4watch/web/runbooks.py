"""The runbooks that ship with ds4watch, as text: where an alert on the page leads to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, HTTPException
from fastapi import Path as InPath
from fastapi.responses import PlainTextResponse

from ds4watch.config.shipped import shipped

Name = Annotated[str, InPath(pattern=r"^[A-Za-z0-9]{1,80}$")]


def runbooks() -> APIRouter:
    """Return the route. An installation without runbooks has none to show."""
    router = APIRouter()

    @router.get(
        "/runbooks/{name}.md",
        response_class=PlainTextResponse,
        include_in_schema=False,
        responses={404: {"description": "There is no such runbook"}},
    )
    def runbook(name: Name) -> PlainTextResponse:
        try:
            text = (_folder() / f"{name}.md").read_text(encoding="utf-8")
        except FileNotFoundError:
            raise HTTPException(404, f"there is no runbook {name}") from None
        return PlainTextResponse(text)

    return router


def _folder() -> Path:
    return shipped("docs/runbooks")
