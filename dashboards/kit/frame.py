"""A page as a dashboard of Grafana's: what is the same on all of them."""

from __future__ import annotations

import json

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DashboardCursorSync,
    GridPos,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from dashboards.kit.annotations import MARKS, MarkBuilder
from dashboards.kit.links import RUNBOOK_FOLDER, RUNBOOKS, TAG, others
from dashboards.kit.panels import SOURCE, panel
from dashboards.kit.views import Page, Section, Variable

GRID_COLUMNS = 24


def made(page: Page) -> Dashboard:
    """Return the dashboard of a page."""
    found = (
        build.Dashboard(page.title)
        .uid(page.uid)
        .description(page.text)
        .tags([TAG, "vllm"])
        .refresh("5s")
        .time("now-15m", "now")
        .timezone("browser")
        .readonly()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(others())
        .with_variable(build.DatasourceVariable("source").label("Source").type("prometheus"))
    )
    for variable in page.variables:
        found.with_variable(_variable(variable))
    found.with_variable(_runbooks())
    for mark in MARKS:
        found.annotation(MarkBuilder(mark))
    _fill(found, page)
    return found.build()


def rendered(page: Page) -> str:
    """Return a page as the JSON that Grafana imports."""
    return json.dumps(made(page), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _fill(found: build.Dashboard, page: Page) -> None:
    top, number = 0, len(page.views)
    seen = 0
    for section in page.sections:
        number += 1
        row = build.Row(section.title).id(number)
        found.with_row(row.grid_pos(GridPos(h=1, w=GRID_COLUMNS, x=0, y=top)))
        places, top = _placed(section, top + 1)
        for view, place in zip(section.views, places, strict=True):
            seen += 1
            found.with_panel(panel(view, seen, place))


def _placed(section: Section, top: int) -> tuple[list[GridPos], int]:
    """Return where views go, left to right and then down, and what is free below."""
    places: list[GridPos] = []
    across, tallest = 0, 0
    for view in section.views:
        if across + view.width > GRID_COLUMNS:
            top, across, tallest = top + tallest, 0, 0
        places.append(GridPos(h=view.height, w=view.width, x=across, y=top))
        across, tallest = across + view.width, max(tallest, view.height)
    return places, top + tallest


def _variable(variable: Variable) -> build.QueryVariable:
    found = build.QueryVariable(variable.name).label(variable.label).datasource(SOURCE)
    found.query(variable.query).refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    found.sort(VariableSort.ALPHABETICAL_ASC)
    if variable.is_one:
        return found
    everything = VariableOption(selected=True, text="All", value="$__all")
    found.multi(multi=True).include_all(include_all=True).all_value(".*")
    return found.current(everything)


def _runbooks() -> build.TextBoxVariable:
    here = VariableOption(selected=True, text=RUNBOOK_FOLDER, value=RUNBOOK_FOLDER)
    found = build.TextBoxVariable(RUNBOOKS).label("Runbooks at").default_value(RUNBOOK_FOLDER)
    return found.current(here)
