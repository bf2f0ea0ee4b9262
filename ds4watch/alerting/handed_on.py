"""Which alerts an Alertmanager is told, and until when they stand. Pure.

As Prometheus does it (rules/manager.go, SendAlerts; rules/alerting.go, needsSending): a firing
alert is sent again after the resend delay, with an end four times as far ahead, so that it ends by
itself if we die; one that resolved is sent, and repeated for 15 minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Labels

RESOLVED_SECONDS = 900.0
_ENDS_AHEAD = 4.0


@dataclass(frozen=True, slots=True)
class HandedOn:
    """An alert as Alertmanager has it from us. ended_at: None while it fires."""

    labels: Labels
    annotations: Labels
    started_at: UnixSeconds
    ended_at: UnixSeconds | None = None
    sent_at: UnixSeconds | None = None
    changed: bool = True

    def ends_at(self, now: UnixSeconds, *, resend_seconds: float, interval_seconds: float) -> float:
        """Return the `endsAt` to send."""
        if self.ended_at is not None:
            return self.ended_at
        return now + _ENDS_AHEAD * max(resend_seconds, interval_seconds)


def hand_on(
    known: Mapping[Labels, HandedOn], alerts: Iterable[AlertState], now: UnixSeconds
) -> dict[Labels, HandedOn]:
    """Return what Alertmanager is to know, given what it knows and how alerts stand."""
    firing = {it.labels: it for it in alerts if it.phase is AlertPhase.FIRING}
    found: dict[Labels, HandedOn] = {}
    for labels, alert in firing.items():
        before = known.get(labels)
        if (before is None or before.ended_at is not None) and not alert.confirmed:
            continue  # Restored, and not seen yet by this daemon.
        if before is None or before.ended_at is not None:
            started_at = alert.fired_at if alert.fired_at is not None else alert.active_at
            found[labels] = HandedOn(labels, alert.annotations, started_at)
        else:
            found[labels] = replace(before, annotations=alert.annotations)
    for labels, before in known.items():
        if labels in firing:
            continue
        if before.ended_at is None:
            found[labels] = replace(before, ended_at=now, changed=True)
        elif now - before.ended_at < RESOLVED_SECONDS or before.changed:
            found[labels] = before
    return found


def due(
    known: Mapping[Labels, HandedOn], now: UnixSeconds, *, resend_seconds: float
) -> list[HandedOn]:
    """Return what is to be sent now."""
    return [
        it
        for it in known.values()
        if it.changed or it.sent_at is None or now - it.sent_at >= resend_seconds
    ]


def handed(
    known: Mapping[Labels, HandedOn], sent: Iterable[HandedOn], now: UnixSeconds
) -> dict[Labels, HandedOn]:
    """Return what Alertmanager knows now that it was told."""
    told = {it.labels: replace(it, sent_at=now, changed=False) for it in sent}
    return {labels: told.get(labels, it) for labels, it in known.items()}
