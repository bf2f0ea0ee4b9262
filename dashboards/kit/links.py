"""Links: between dashboards, from a series to its worker, from a panel to its runbook."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models.dashboard import DashboardLinkType

RUNBOOKS = "runbooks"
"""The variable that says where the runbooks are to be read."""
RUNBOOK_FOLDER = "docs/runbooks"
TAG = "ds4watch"
WORKER_PAGE = "ds4watch-worker"


def runbook(alert: str) -> build.DashboardLink:
    """Return the link to what to do about an alert."""
    return _link(f"What to do: {alert}", f"${{{RUNBOOKS}}}/{alert}.md")


def to_worker(worker: str = "${__field.labels.worker}") -> build.DashboardLink:
    """Return the link from one of its series to a worker, at the same time."""
    url = f"/d/{WORKER_PAGE}?var-worker={worker}&${{source:queryparam}}&${{__url_time_range}}"
    return _link("This worker", url)


def others() -> build.DashboardLink:
    """Return the row of links to all dashboards of ds4watch, with time and choices kept."""
    made = build.DashboardLink("ds4watch").type(DashboardLinkType.DASHBOARDS).tags([TAG])
    return made.icon("external link").keep_time(keep_time=True).include_vars(include_vars=True)


def _link(title: str, url: str) -> build.DashboardLink:
    made = build.DashboardLink(title).type(DashboardLinkType.LINK).url(url)
    return made.target_blank(target_blank=False)
