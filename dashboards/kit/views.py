"""A dashboard before it is Grafana's: pages of sections of views."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

RATE = "[$__rate_interval]"
"""The window of every rate: Grafana makes it long enough for the source's scrape interval."""


class Kind(StrEnum):
    """How a view is drawn."""

    STAT = "stat"
    GRAPH = "timeseries"
    TIMELINE = "state-timeline"
    TABLE = "table"


class Codes(StrEnum):
    """What the numbers of a view stand for."""

    NONE = ""
    PHASE = "phase"
    TIER = "tier"
    ALERT = "alert"
    LEVEL = "level"


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL and the name of its series; in a table the heading of its column."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class View:
    """One panel.

    `alert`: the rule whose thresholds are drawn, and whose runbook is linked.
    `engine_series`: it reads what only a source has that scrapes the workers, as ds4watch does.
    `may_be_empty`: when there is nothing to show although all is well.
    """

    title: str
    unit: str
    text: str
    queries: tuple[Query, ...]
    kind: Kind = Kind.GRAPH
    width: int = 12
    height: int = 8
    alert: str = ""
    codes: Codes = Codes.NONE
    is_stacked: bool = False
    maximum: float | None = None
    is_signed: bool = False
    decimals: int | None = None
    engine_series: bool = False
    may_be_empty: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A row of the dashboard, with a heading."""

    title: str
    views: tuple[View, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of a dashboard: the values of a label. `is_one`: no more than one."""

    name: str
    label: str
    metric: str
    is_one: bool = False

    @property
    def query(self) -> str:
        """What Grafana asks the source for."""
        return f"label_values({self.metric}, {self.name})"


@dataclass(frozen=True, slots=True)
class Page:
    """One dashboard; `name` is the file's."""

    name: str
    title: str
    text: str
    sections: tuple[Section, ...]
    variables: tuple[Variable, ...] = ()

    @property
    def uid(self) -> str:
        """What links to it are made of."""
        return f"ds4watch-{self.name}"

    @property
    def views(self) -> tuple[View, ...]:
        """All panels, in the order of their ids."""
        return tuple(view for section in self.sections for view in section.views)


def graph(title: str, unit: str, text: str, *queries: tuple[str, str], **more: object) -> View:
    """Return a graph of (query, legend) pairs."""
    return _view(Kind.GRAPH, title, unit, text, queries, {"width": 12, "height": 8, **more})


def stat(title: str, unit: str, text: str, *queries: tuple[str, str], **more: object) -> View:
    """Return the last value, large; six of them make a row."""
    return _view(Kind.STAT, title, unit, text, queries, {"width": 4, "height": 4, **more})


def timeline(title: str, text: str, *queries: tuple[str, str], **more: object) -> View:
    """Return a bar for each series, coloured by state."""
    return _view(Kind.TIMELINE, title, "none", text, queries, {"height": 7, **more})


def table(title: str, text: str, *queries: tuple[str, str], **more: object) -> View:
    """Return a row for each set of labels, and a column for each query, as of now."""
    return _view(Kind.TABLE, title, "none", text, queries, {"width": 24, "height": 7, **more})


def _view(
    kind: Kind,
    title: str,
    unit: str,
    text: str,
    queries: tuple[tuple[str, str], ...],
    more: dict[str, object],
) -> View:
    made = tuple(Query(expr, legend) for expr, legend in queries)
    return View(title, unit, text, made, kind=kind, **more)  # type: ignore[arg-type]
