"""Whom a tier or a silence mutes, and which news of alerts people are told. Pure.

What was told is written in the alert itself (`last_sent_at`), in the transaction that queues the
message: each firing is told once, and each resolving of what was told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ds4watch.model.alert import AlertPhase, AlertState, Transition
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Labels

SEVERITY = "severity"
STILL_FIRES = "still fires, now that no higher tier and no silence mutes it"


@dataclass(frozen=True, slots=True)
class Telling:
    """Alerts, with what is now told of them, and the messages."""

    alerts: tuple[AlertState, ...]
    messages: tuple[Transition, ...] = ()


def outranked(alerts: Iterable[AlertState]) -> frozenset[Labels]:
    """Return the labels of those that a higher tier stands above, all other labels equal."""
    by_others: dict[Labels, list[AlertState]] = {}
    for alert in alerts:
        others = tuple([pair for pair in alert.labels if pair[0] != SEVERITY])
        by_others.setdefault(others, []).append(alert)
    return frozenset(
        labels
        for tiers in by_others.values()
        if len(tiers) > 1
        for labels in _below_the_highest(tiers)
    )


def _below_the_highest(alerts: Iterable[AlertState]) -> list[Labels]:
    ranks = {alert.labels: alert.tier.rank for alert in alerts}
    highest = max(ranks.values())
    return [labels for labels, rank in ranks.items() if rank < highest]


def tell(
    before: Iterable[AlertState],
    alerts: tuple[AlertState, ...],
    transitions: Sequence[Transition],
    now: UnixSeconds,
    *,
    is_silenced: Callable[[Labels], bool] = lambda _labels: False,
) -> Telling:
    """Return what people are to be told.

    before: the alerts as they stood before `transitions`. A firing alert is told once no higher
    tier fires beside it, and not before it was seen afresh; that it resolved only if it was told.
    Of a silenced one nobody is told anything; one that outlasts its silence is told then.
    """
    news = {id(alert): alert for alert in alerts if _is_news(alert)}
    muted = _muted(alerts) if news else frozenset[Labels]()
    fired = {it.fingerprint: it for it in transitions if it.new is AlertPhase.FIRING}
    told = {
        key: it for key, it in news.items() if it.labels not in muted and not is_silenced(it.labels)
    }
    messages = [
        *(it for it in _resolved(before, transitions) if not is_silenced(it.labels)),
        *(fired.get(it.fingerprint) or _still(it, now) for it in told.values()),
    ]
    if not told:
        return Telling(alerts, tuple(messages))
    marked = tuple([replace(it, last_sent_at=now) if id(it) in told else it for it in alerts])
    return Telling(marked, tuple(messages))


def _is_news(alert: AlertState) -> bool:
    is_fresh = alert.confirmed and not alert.held
    return alert.phase is AlertPhase.FIRING and alert.last_sent_at is None and is_fresh


def _muted(alerts: Iterable[AlertState]) -> frozenset[Labels]:
    return outranked(alert for alert in alerts if alert.phase is AlertPhase.FIRING)


def _resolved(
    before: Iterable[AlertState], transitions: Iterable[Transition]
) -> Iterable[Transition]:
    over = [it for it in transitions if it.new is AlertPhase.RESOLVED]
    told = _sent(before) if over else frozenset[str]()
    return [it for it in over if it.fingerprint in told]


def _sent(alerts: Iterable[AlertState]) -> frozenset[str]:
    firing = (alert for alert in alerts if alert.phase is AlertPhase.FIRING)
    return frozenset(it.fingerprint for it in firing if it.last_sent_at is not None)


def _still(alert: AlertState, now: UnixSeconds) -> Transition:
    return Transition(
        fingerprint=alert.fingerprint,
        labels=alert.labels,
        old=AlertPhase.FIRING,
        new=AlertPhase.FIRING,
        at=now,
        value=alert.value,
        reason=STILL_FIRES,
        annotations=alert.annotations,
    )
