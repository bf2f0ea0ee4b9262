"""Answers of the Prometheus HTTP API that need no history: rules, alerts, targets, the build."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from ds4watch.model.errors import BadQueryError
from ds4watch.web.ports import PrometheusSource
from ds4watch.web.prometheus_fields import Fields

SPEAKS: Final = "3.0.0"
"""The version of Prometheus whose semantics ours are; clients go by it."""
_RULE_TYPES: Final = {
    "": ("alerting", "recording"),
    "alert": ("alerting",),
    "record": ("recording",),
}


def rules(source: PrometheusSource, fields: Fields) -> Any:
    """Return groups with the rules that are wanted. Raises BadQueryError."""
    types = _RULE_TYPES.get(fields.text("type").lower())
    if types is None:
        raise _not_supported("type", fields)
    names, groups = set(fields.texts("rule_name[]")), set(fields.texts("rule_group[]"))
    files = set(fields.texts("file[]"))
    with_alerts = fields.text("exclude_alerts").lower() not in ("1", "t", "true")
    found = []
    for group in source.rule_groups():
        if (groups and group["name"] not in groups) or (files and group["file"] not in files):
            continue
        wanted = [
            rule if with_alerts else {name: it for name, it in rule.items() if name != "alerts"}
            for rule in group["rules"]
            if rule["type"] in types and (not names or rule["name"] in names)
        ]
        if wanted or not names:
            found.append({**group, "rules": wanted})
    return {"groups": found}


def alerts(source: PrometheusSource, _fields: Fields) -> Any:
    """Return the alerts that are pending or firing."""
    return {"alerts": source.alerts()}


def targets(source: PrometheusSource, fields: Fields) -> Any:
    """Return what is scraped; who was dropped by relabelling is not kept."""
    state, pool = fields.text("state").lower(), fields.text("scrapePool")
    active = [it for it in source.targets() if pool in ("", it["scrapePool"])]
    shown = state in ("", "any", "active")
    return {
        "activeTargets": active if shown else [],
        "droppedTargets": [],
        "droppedTargetCounts": {},
    }


def metadata(source: PrometheusSource, fields: Fields) -> Any:
    """Return type and help of families. Raises BadQueryError."""
    known, metric = source.metadata(), fields.text("metric")
    if metric:
        return {metric: known[metric]} if metric in known else {}
    most = fields.number("limit")
    return dict(islice(known.items(), most if most is not None and most >= 0 else None))


def exemplars(_source: PrometheusSource, _fields: Fields) -> Any:
    """Return nothing: exemplars are not kept."""
    return []


def build_info(_source: PrometheusSource, _fields: Fields) -> Any:
    """Return what clients choose their ways by."""
    return {
        "version": SPEAKS,
        "revision": "",
        "branch": "",
        "buildUser": "",
        "buildDate": "",
        "goVersion": "",
    }


def _not_supported(name: str, fields: Fields) -> BadQueryError:
    return BadQueryError(f'invalid parameter "{name}": not supported value "{fields.text(name)}"')
