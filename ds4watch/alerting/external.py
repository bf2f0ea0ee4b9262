"""Alerts of others, as Alertmanager's webhook tells them, among ours. Pure.

Such an alert counts while it is repeated. When it is not, that is no data and no all clear: it is
held, so that it keeps a level and never steps one, until it is told to be over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.model.errors import RefusedError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Labels, labels_of

SOURCE = "source"
MAX_ALERTS = 5000
_RULE = "external"


@dataclass(frozen=True, slots=True)
class External:
    """An alert of others. seen_at: 0 if it was not repeated since the daemon started."""

    labels: Labels
    annotations: Labels
    started_at: UnixSeconds
    seen_at: UnixSeconds


@dataclass(frozen=True, slots=True)
class Handed:
    """What a webhook said: which alerts fire, which are over, and what was not understood."""

    firing: tuple[External, ...]
    over: tuple[Labels, ...]
    faults: tuple[str, ...] = ()
    beyond: int = 0
    """How many more it named than are read."""


def read_webhook(document: Any, now: UnixSeconds, *, source: str = "alertmanager") -> Handed:
    """Return what Alertmanager's webhook (version 4) says. Raises RefusedError if it is none."""
    if not isinstance(document, dict) or not isinstance(document.get("alerts"), list):
        message = "the body must be an object with a list `alerts`, as Alertmanager sends it"
        raise RefusedError(message)
    firing, over, faults = [], [], []
    for index, alert in enumerate(document["alerts"][:MAX_ALERTS]):
        try:
            labels = _pairs(alert["labels"])
            if not labels.get("alertname"):
                faults.append(f"alerts[{index}] has no label alertname")
                continue
            own = labels_of({**labels, SOURCE: source})
            annotations = labels_of(_pairs(alert.get("annotations") or {}))
            status = alert["status"]
        except (KeyError, TypeError, AttributeError):
            faults.append(f"alerts[{index}] is not an alert")
            continue
        if status == "firing":
            firing.append(External(own, annotations, now, now))
        elif status == "resolved":
            over.append(own)
        else:
            faults.append(f"alerts[{index}].status must be firing or resolved")
    beyond = max(0, len(document["alerts"]) - MAX_ALERTS)
    return Handed(tuple(firing), tuple(over), tuple(faults), beyond)


def _pairs(found: Mapping[Any, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in found.items()}


def merged(
    known: Mapping[Labels, External], handed: Handed, *, most: int = MAX_ALERTS
) -> tuple[dict[Labels, External], int]:
    """Return the alerts of others with what was said about them, and how many had no room."""
    over = frozenset(handed.over)
    found = {labels: it for labels, it in known.items() if labels not in over}
    left_out = handed.beyond
    for it in handed.firing:
        before = found.get(it.labels)
        if before is not None:
            found[it.labels] = replace(it, started_at=before.started_at)
        elif len(found) < most:
            found[it.labels] = it
        else:
            left_out += 1
    return found, left_out


def current(
    known: Iterable[External], now: UnixSeconds, *, fresh_seconds: float
) -> tuple[AlertState, ...]:
    """Return the alerts of others as ours are: firing, and held once they are not fresh."""
    return tuple(
        AlertState(
            rule_id=_RULE,
            labels=it.labels,
            phase=AlertPhase.FIRING,
            active_at=it.started_at,
            value=math.nan,
            fired_at=it.started_at,
            annotations=it.annotations,
            held=now - it.seen_at > fresh_seconds,
        )
        for it in known
    )


def stored(known: Iterable[External]) -> list[dict[str, Any]]:
    """Return them as JSON."""
    return [
        {
            "labels": dict(it.labels),
            "annotations": dict(it.annotations),
            "started_at": it.started_at,
        }
        for it in known
    ]


def restored(documents: Sequence[Mapping[str, Any]]) -> dict[Labels, External]:
    """Return what was stored; held, until it is repeated."""
    found = (
        External(
            labels_of(it["labels"]),
            labels_of(it["annotations"]),
            it["started_at"],
            seen_at=0.0,
        )
        for it in documents
    )
    return {it.labels: it for it in found}
