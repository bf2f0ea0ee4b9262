"""Alerts, and what was done about them."""

from __future__ import annotations

from dashboards.kit.views import (
    RATE,
    Codes,
    Page,
    Section,
    Variable,
    View,
    graph,
    stat,
    table,
    timeline,
)
from dashboards.pages.common import FIRING, LEVEL

_SHOWN = 'alertname=~"$alertname",severity=~"$severity",severity!="none"'
_STATE = (
    "max by (alertname, severity) ("
    f'(ds4_alerts{{state="pending",{_SHOWN}}} > bool 0)'
    f' or 2 * (ds4_alerts{{state="firing",{_SHOWN}}} > bool 0)) > 0'
)
_QUIET = "while no alert is pending or firing"


def _tier(tier: str) -> View:
    return stat(
        f"Firing: {tier}",
        "none",
        f"Alerts of the tier {tier} that fire now.",
        (f'sum(ds4_alerts{{state="firing",severity="{tier}"}})', tier),
    )


_NOW = (
    _tier("critical"),
    _tier("warning"),
    _tier("info"),
    stat(
        "Pending",
        "none",
        "Alerts whose condition holds, not yet for long enough.",
        ('sum(ds4_alerts{state="pending"})', "pending"),
    ),
    stat(
        "Level in force",
        "none",
        "Degradation level of the service; normal is level 0.",
        (LEVEL, "{{pool}}"),
        codes=Codes.LEVEL,
    ),
    stat(
        "Rules that fail",
        "none",
        "Rules that cannot be evaluated: their alerts stay as they are.",
        ("count(ds4_rule_evaluation_failed == 1) or vector(0)", "failing"),
    ),
)
_ALERTS = (
    timeline(
        "Alerts over time",
        "Pending and firing, by alert and tier.",
        (_STATE, "{{alertname}} {{severity}}"),
        codes=Codes.ALERT,
        width=24,
        height=10,
        may_be_empty=_QUIET,
    ),
    table(
        "Alerts now",
        "How many of each name and tier; click a name for what to do.",
        (
            f"sum by (alertname, severity, state) (ds4_alerts{{{_SHOWN}}}) > 0",
            "alerts",
        ),
        width=12,
        may_be_empty=_QUIET,
    ),
    graph(
        "Alerts firing",
        "none",
        "By tier; the watchdog, which always fires, is left out.",
        (FIRING, "{{severity}}"),
        is_stacked=True,
        height=7,
    ),
)
_ACTIONS = (
    timeline(
        "Level in force over time",
        "What the service was degraded to.",
        (LEVEL, "{{pool}}"),
        codes=Codes.LEVEL,
        width=24,
        height=4,
    ),
    graph(
        "Actions",
        "none",
        "In the minute before, about, by how they ended.",
        (
            "sum by (kind, status) (increase(ds4_actions_total[1m]))",
            "{{kind}} {{status}}",
        ),
    ),
    graph(
        "Notifications a second",
        "none",
        "By channel and how it went.",
        (
            f"sum by (channel, outcome) (rate(ds4_notifications_total{RATE}))",
            "{{channel}} {{outcome}}",
        ),
        may_be_empty="without a channel, and until the first message",
    ),
)
_JOBS = (
    table(
        "Last good run of each job",
        "How long ago it ended.",
        ("time() - max by (job) (ds4_job_last_success_timestamp_seconds)", "age"),
        width=12,
    ),
    graph(
        "Runs of jobs that failed",
        "none",
        "In the minute before.",
        ("sum(increase(ds4_job_failures_total[1m])) or vector(0)", "failed"),
        height=7,
    ),
)
ALERTS = Page(
    name="alerts",
    title="ds4watch: alerts and actions",
    text="Alerts, and what was done about them: levels, actions, messages.",
    variables=(
        Variable("alertname", "Alert", "ds4_alerts"),
        Variable("severity", "Tier", "ds4_alerts"),
    ),
    sections=(
        Section("Now", _NOW),
        Section("Alerts", _ALERTS),
        Section("Actions", _ACTIONS),
        Section("Jobs", _JOBS),
    ),
)
