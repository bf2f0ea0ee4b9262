"""Rules as loaded, alerts as they stand, and the transitions between."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Labels


class Tier(StrEnum):
    """The `severity` label of a rule."""

    NONE = "none"
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Order of tiers: higher is worse."""
        return ("none", "info", "warning", "critical").index(self.value)


class AlertPhase(StrEnum):
    """The state of one alert; INACTIVE is never stored."""

    INACTIVE = "inactive"
    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


class OnNoData(StrEnum):
    """What a rule's alerts do when their data is gone (`ds4_on_no_data` annotation)."""

    HOLD = "hold"
    RESOLVE = "resolve"
    ALERT = "alert"


@dataclass(frozen=True, slots=True)
class AlertRule:
    """An alerting rule. `labels` and `annotations` are templates as written."""

    group: str
    name: str
    expression: str
    for_seconds: float = 0.0
    keep_firing_seconds: float = 0.0
    labels: Labels = ()
    annotations: Labels = ()
    on_no_data: OnNoData = OnNoData.RESOLVE
    min_firing_seconds: float = 0.0
    """How long an alert fires at least (`ds4_min_firing` annotation)."""
    ordinal: int = 0
    """Counts the rules of a group that have one name and the same labels; nearly always 0."""

    @property
    def id(self) -> str:
        """Identity over reloads: group, name and labels (Prometheus' CopyState key)."""
        again = (str(self.ordinal),) if self.ordinal else ()
        return _digest(self.group, self.name, repr(self.labels), *again)

    @property
    def tier(self) -> Tier:
        """The severity label; NONE when absent or not one of ours."""
        value = dict(self.labels).get("severity", "none")
        return Tier(value) if value in Tier._value2member_map_ else Tier.NONE


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """A recording rule: the expression's result becomes the series `name`."""

    group: str
    name: str
    expression: str
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules evaluated in file order every `interval_seconds` (0: the default interval)."""

    name: str
    file: str
    interval_seconds: float
    rules: tuple[AlertRule | RecordingRule, ...]


@dataclass(frozen=True, slots=True)
class AlertState:
    """One alert. `labels` include `alertname` and the rule's labels, templated."""

    rule_id: str
    labels: Labels
    phase: AlertPhase
    active_at: UnixSeconds
    value: float
    fired_at: UnixSeconds | None = None
    keep_firing_since: UnixSeconds | None = None
    last_sent_at: UnixSeconds | None = None
    resolved_at: UnixSeconds | None = None
    annotations: Labels = ()
    held: bool = False
    """True while the state is kept for want of data; a held alert never steps anything."""
    confirmed: bool = True
    """False from a restart until one fresh evaluation; nothing is acted on before."""

    @property
    def fingerprint(self) -> str:
        """Identity of the alert: 16 hex digits over its labels."""
        return fingerprint_of(self.labels)

    @property
    def name(self) -> str:
        """The alertname label."""
        return dict(self.labels)["alertname"]

    @property
    def tier(self) -> Tier:
        """The severity label; NONE when absent or not one of ours."""
        value = dict(self.labels).get("severity", "none")
        return Tier(value) if value in Tier._value2member_map_ else Tier.NONE


@dataclass(frozen=True, slots=True)
class Transition:
    """An alert went from one phase to another, and why."""

    fingerprint: str
    labels: Labels
    old: AlertPhase
    new: AlertPhase
    at: UnixSeconds
    value: float
    reason: str
    annotations: Labels = ()


def fingerprint_of(labels: Labels) -> str:
    """Return 16 hex digits that identify a label set."""
    return _digest(repr(labels))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:16]
