"""What the Prometheus HTTP API tells from the daemon's memory: rules, alerts, targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ds4watch.alerting.durations import format_duration
from ds4watch.engine.parts import Known
from ds4watch.engine.rulebook import GroupStanding, RuleBook
from ds4watch.model.alert import AlertPhase, AlertRule, AlertState, RecordingRule
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.scrape import ScrapeResult, Target
from ds4watch.promql.numbers import plain
from ds4watch.promql.parse import parse
from ds4watch.promql.render import render
from ds4watch.scrape.options import ScrapeOptions
from ds4watch.vocabulary.metadata import families

_NEVER = "0001-01-01T00:00:00Z"
_ACTIVE = (AlertPhase.PENDING, AlertPhase.FIRING)


@dataclass(frozen=True, slots=True)
class PrometheusFacts:
    """Answers what is not history (web.ports.PrometheusSource). Everything is JSON-ready.

    options: of the target groups.
    """

    known: Known
    book: RuleBook
    options: Mapping[str, ScrapeOptions]

    def rule_groups(self) -> list[dict[str, Any]]:
        """Return all groups with their rules."""
        by_rule: dict[str, list[AlertState]] = {}
        for alert in self.known.alerts:
            if alert.phase in _ACTIVE:
                by_rule.setdefault(alert.rule_id, []).append(alert)
        return [_group_json(standing, by_rule) for standing in self.book.standing()]

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts that are pending or firing."""
        return [_alert_json(it) for it in self.known.alerts if it.phase in _ACTIVE]

    def targets(self) -> list[dict[str, Any]]:
        """Return everything that is scraped, with how its last scrape went."""
        known = self.known
        return [self._target(it, known.scraped.get(it.name)) for it in known.targets]

    def metadata(self) -> Mapping[str, list[dict[str, str]]]:
        """Return type and help of the families known, by name."""
        return {
            name: [{"type": it.type, "help": it.help, "unit": ""}]
            for name, it in families().items()
        }

    def _target(self, target: Target, last: ScrapeResult | None) -> dict[str, Any]:
        options = self.options.get(target.group, ScrapeOptions())
        failure = last.failure if last is not None else None
        health = "unknown" if last is None else "down" if failure else "up"
        return {
            "discoveredLabels": {},
            "labels": dict(target.labels),
            "scrapePool": target.group,
            "scrapeUrl": target.url,
            "globalUrl": target.url,
            "lastError": failure.message if failure else "",
            "lastScrape": _rfc3339(last.at if last is not None else None),
            "lastScrapeDuration": last.took_seconds if last is not None else 0,
            "health": health,
            "scrapeInterval": format_duration(options.interval_seconds),
            "scrapeTimeout": format_duration(options.timeout_seconds),
        }


def _group_json(
    standing: GroupStanding, by_rule: Mapping[str, Sequence[AlertState]]
) -> dict[str, Any]:
    group, at = standing.group, _rfc3339(standing.evaluated_at)
    rules = zip(group.rules, standing.errors, strict=True)
    return {
        "name": group.name,
        "file": group.file,
        "interval": group.interval_seconds,
        "limit": 0,
        "evaluationTime": 0,
        "lastEvaluation": at,
        "rules": [_rule_json(rule, by_rule, error=error, at=at) for rule, error in rules],
    }


def _rule_json(
    rule: AlertRule | RecordingRule,
    by_rule: Mapping[str, Sequence[AlertState]],
    *,
    error: str | None,
    at: str,
) -> dict[str, Any]:
    told = {
        "name": rule.name,
        "query": render(parse(rule.expression)),
        "labels": dict(rule.labels),
        "health": "unknown" if at == _NEVER else "err" if error else "ok",
        **({"lastError": error} if error else {}),
        "evaluationTime": 0,
        "lastEvaluation": at,
    }
    if isinstance(rule, RecordingRule):
        return {**told, "type": "recording"}
    active = by_rule.get(rule.id, ())
    return {
        "state": _worst(active),
        **told,
        "duration": rule.for_seconds,
        "keepFiringFor": rule.keep_firing_seconds,
        "annotations": dict(rule.annotations),
        "alerts": [_alert_json(alert) for alert in active],
        "type": "alerting",
    }


def _worst(active: Sequence[AlertState]) -> str:
    phases = {alert.phase for alert in active}
    worst = (it for it in (AlertPhase.FIRING, AlertPhase.PENDING) if it in phases)
    return next(worst, AlertPhase.INACTIVE).value


def _alert_json(alert: AlertState) -> dict[str, Any]:
    since = alert.keep_firing_since
    return {
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "state": alert.phase.value,
        "activeAt": _rfc3339(alert.active_at),
        **({"keepFiringSince": _rfc3339(since)} if since is not None else {}),
        "value": _exponential(alert.value),
    }


def _exponential(value: float) -> str:
    """Return a number as Go's 'e' with the fewest digits: 1e+00."""
    if not np.isfinite(value):
        return plain(value)
    return np.format_float_scientific(value, trim="-", exp_digits=2)


def _rfc3339(at: UnixSeconds | None) -> str:
    if at is None:
        return _NEVER
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
