"""A replay told by alerts: when each fired and for how long, and how a rule did in all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ds4watch.engine.replay import Replayed, Told
from ds4watch.model.alert import AlertPhase, AlertRule, Tier
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Labels

FLAP_SECONDS = 900.0
"""An alert that fires again so soon after its end flaps."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One alert from its firing to its end, None if it fires to the last.

    value: at its firing. pending_at: since when its condition held.
    """

    rule: AlertRule
    labels: Labels
    fired_at: UnixSeconds
    value: float
    pending_at: UnixSeconds
    resolved_at: UnixSeconds | None = None
    again: bool = False
    annotations: Labels = ()

    def seconds(self, end: UnixSeconds) -> float:
        """How long it fired, up to the end of the replay."""
        return (end if self.resolved_at is None else self.resolved_at) - self.fired_at


@dataclass(frozen=True, slots=True)
class Line:
    """How one rule did. missed: times it was pending and did not fire."""

    rule: AlertRule
    fired: int
    alerts: int
    firing_seconds: float
    longest_seconds: float
    flapped: int
    missed: int
    longest_missed_seconds: float

    @property
    def tier(self) -> Tier:
        """The rule's severity."""
        return self.rule.tier


@dataclass(slots=True)
class _Alert:
    """One alert as the transitions go by."""

    pending_at: UnixSeconds | None = None
    open: Episode | None = None
    resolved_at: UnixSeconds | None = None
    done: list[Episode] = field(default_factory=list)
    missed_seconds: list[float] = field(default_factory=list)


class Story:
    """The alerts of a replay, put together from its transitions."""

    def __init__(self, replayed: Replayed, rules: Iterable[AlertRule], end: UnixSeconds) -> None:
        self._end = end
        self._alerts: dict[tuple[str, str], _Alert] = {}
        self._rules = list(rules)
        for told in replayed.told:
            key = (told.rule.id, told.transition.fingerprint)
            _note(self._alerts.setdefault(key, _Alert()), told)

    def episodes(self) -> list[Episode]:
        """Return all times that an alert fired, in order."""
        return sorted(
            (it for alert in self._alerts.values() for it in _episodes(alert)),
            key=lambda it: it.fired_at,
        )

    def lines(self) -> list[Line]:
        """Return how each rule did, in file order."""
        return [self._line(rule) for rule in self._rules]

    def _line(self, rule: AlertRule) -> Line:
        alerts = [it for (rule_id, _), it in self._alerts.items() if rule_id == rule.id]
        episodes = [it for alert in alerts for it in _episodes(alert)]
        seconds = [it.seconds(self._end) for it in episodes]
        missed = [it for alert in alerts for it in alert.missed_seconds]
        return Line(
            rule=rule,
            fired=len(episodes),
            alerts=sum(1 for alert in alerts if any(_episodes(alert))),
            firing_seconds=sum(seconds),
            longest_seconds=max(seconds, default=0.0),
            flapped=sum(it.again for it in episodes),
            missed=len(missed),
            longest_missed_seconds=max(missed, default=0.0),
        )


def _note(alert: _Alert, told: Told) -> None:
    it = told.transition
    if it.new is AlertPhase.PENDING:
        alert.pending_at = it.at
    elif it.new is AlertPhase.FIRING:
        ended = alert.resolved_at
        alert.open = Episode(
            rule=told.rule,
            labels=it.labels,
            fired_at=it.at,
            value=it.value,
            pending_at=it.at if alert.pending_at is None else alert.pending_at,
            again=ended is not None and it.at - ended <= FLAP_SECONDS,
            annotations=it.annotations,
        )
    elif it.new is AlertPhase.RESOLVED and alert.open is not None:
        alert.done.append(_ended(alert.open, it.at))
        alert.open, alert.pending_at, alert.resolved_at = None, None, it.at
    elif it.new is AlertPhase.INACTIVE and alert.pending_at is not None:
        alert.missed_seconds.append(it.at - alert.pending_at)
        alert.pending_at = None


def _ended(it: Episode, at: UnixSeconds) -> Episode:
    return Episode(
        it.rule, it.labels, it.fired_at, it.value, it.pending_at, at, it.again, it.annotations
    )


def _episodes(alert: _Alert) -> Iterator[Episode]:
    yield from alert.done
    if alert.open is not None:
        yield alert.open
