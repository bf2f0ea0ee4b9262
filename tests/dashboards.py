"""Dashboards as Grafana reads them: panels, and queries with their variables filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dashboards.build import FOLDER
from dashboards.kit.views import Page, View

SCRAPE_SECONDS = 1.0
"""`timeInterval` of the source."""
_USED = re.compile(r"\$(?:\{(\w+)[^}]*\}|(\w+))")
OF_GRAFANA = {"__rate_interval", "__range"}


def document(page: Page) -> dict[str, Any]:
    """Return a page's committed JSON."""
    found: dict[str, Any] = json.loads(path_of(page).read_text(encoding="utf-8"))
    return found


def path_of(page: Page) -> Path:
    return FOLDER / f"{page.name}.json"


def panels(page: Page) -> list[tuple[View, dict[str, Any]]]:
    """Return each view with its panel, rows left out."""
    found = [it for it in document(page)["panels"] if it["type"] != "row"]
    return list(zip(page.views, found, strict=True))


def marks(page: Page) -> list[dict[str, Any]]:
    """Return the queries of annotations."""
    found: list[dict[str, Any]] = document(page)["annotations"]["list"]
    return found


def expressions(page: Page) -> Iterator[str]:
    """Yield every query of a page, as it is written."""
    for _, panel in panels(page):
        yield from (target["expr"] for target in panel["targets"])
    yield from (mark["expr"] for mark in marks(page))


def built_in(step_seconds: float, range_seconds: float) -> dict[str, str]:
    """Return what Grafana fills in by itself."""
    rate = max(step_seconds + SCRAPE_SECONDS, 4 * SCRAPE_SECONDS)
    return {"__rate_interval": f"{rate:.0f}s", "__range": f"{range_seconds:.0f}s"}


def filled(expr: str, values: Mapping[str, str]) -> str:
    """Return a query as Grafana sends it."""
    return _USED.sub(lambda found: values[found[1] or found[2]], expr)


def used(text: str) -> set[str]:
    """Return the variables that a text has."""
    return {found[1] or found[2] for found in _USED.finditer(text)}


def picked(values: list[str]) -> str:
    """Return what a variable becomes where all of its values are picked one by one."""
    escaped = [re.sub(r"[\\^$.*+?()\[\]{}|]", r"\\\\\g<0>", it) for it in values]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"
