"""Alerts as rows for people: worst first, one row for many alike, what is over in one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ds4watch.cli.display import DASH, clock

PHASES = ("firing", "pending", "resolved")
SEVERITIES = ("critical", "warning", "info")
TIER_STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_APART = 3
"""So many of one kind have a row each; more share one."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class AlertRow:
    """One alert, or the worst of many with one name, tier and phase."""

    alert: Mapping[str, Any]
    others: tuple[Mapping[str, Any], ...] = ()

    @property
    def style(self) -> str:
        """Return the tier's colour, for one that fires."""
        is_firing = self.alert.get("phase") == "firing"
        return TIER_STYLES.get(str(self.alert.get("severity")), "") if is_firing else ""

    @property
    def summary(self) -> str:
        """Return what it says, and of whom else it is said."""
        told = str(self.alert.get("summary") or "")
        if not self.others:
            return told
        names = sorted(filter(None, map(_about, self.others)))
        more = len(self.others) - len(names[:_NAMED])
        told_of = ", ".join([*names[:_NAMED], *([f"{more} more"] if more and names else [])])
        return f"{told} (and {len(self.others)} alike{': ' if told_of else ''}{told_of})"


def worst_first(alert: Mapping[str, Any]) -> tuple[int, int]:
    """Sort by phase, then severity; the watchdog (severity none) is there to be last."""
    phase, severity = str(alert.get("phase")), str(alert.get("severity"))
    if severity == "none":
        return len(PHASES), 0
    return _place(phase, PHASES), _place(severity, SEVERITIES)


def active_rows(alerts: Iterable[Mapping[str, Any]]) -> list[AlertRow]:
    """Return what is pending or fires, the worst first."""
    kinds: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for alert in sorted(alerts, key=worst_first):
        if alert.get("phase") != "resolved":
            kind = (alert.get("name"), alert.get("severity"), alert.get("phase"))
            kinds.setdefault(kind, []).append(alert)
    return [row for alike in kinds.values() for row in _rows(alike)]


def _rows(alike: Sequence[Mapping[str, Any]]) -> list[AlertRow]:
    if len(alike) <= _APART:
        return [AlertRow(it) for it in alike]
    return [AlertRow(alike[0], tuple(alike[1:]))]


def alert_line(row: AlertRow) -> str:
    """Return a row as one sentence."""
    alert = row.alert
    phase = f"{alert['phase']} (held: no data)" if alert.get("held") else alert["phase"]
    tier = f"{alert.get('severity') or DASH}, {phase} since {clock(alert.get('since'))}"
    return f"{alert['name']} ({tier}): {row.summary}"


def over_line(alerts: Iterable[Mapping[str, Any]]) -> str:
    """Return the names of what is over, each with how many; empty if nothing is."""
    counts: dict[str, set[str]] = {}
    for alert in sorted(alerts, key=worst_first):
        if alert.get("phase") == "resolved":
            counts.setdefault(str(alert.get("name")), set()).add(_about(alert))
    told = (f"{name} ({len(of)})" if len(of) > 1 else name for name, of in counts.items())
    return f"resolved lately: {', '.join(told)}" if counts else ""


def _about(alert: Mapping[str, Any]) -> str:
    labels = alert.get("labels") or {}
    return str(labels.get("worker") or labels.get("profile") or labels.get("key") or "")


def _place(word: str, order: tuple[str, ...]) -> int:
    return order.index(word) if word in order else len(order) - 1
