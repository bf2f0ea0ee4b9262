"""What goes into the state database and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ds4watch.alerting.grouping import Group
from ds4watch.history.ledger_values import CostRow, PaidRow, SpoolBatch
from ds4watch.model.action import ActionPlan, ActionStatus, Hold, Refusal
from ds4watch.model.alert import AlertState, Transition
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerView


class AuditKind(StrEnum):
    """What an audit row is about."""

    ALERT = "alert"
    PLAN = "plan"
    REFUSAL = "refusal"
    OUTCOME = "outcome"
    EFFECT = "effect"
    HOLD = "hold"
    WORKER = "worker"
    QUALITY = "quality"
    DAEMON = "daemon"
    FLEET = "fleet"
    KEY = "key"
    SILENCE = "silence"
    COMMAND = "command"
    ACCESS = "access"
    APPROVAL = "approval"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the story. `id` is set on rows that were read; `who` is empty for ourselves."""

    at: UnixSeconds
    kind: AuditKind
    subject: str
    summary: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    who: str = ""
    id: int | None = None


@dataclass(frozen=True, slots=True)
class TickCommit:
    """Everything that one tick decided; stored whole or not at all.

    alerts: every alert there is now; those stored before and not among them are deleted. None
        leaves the stored ones as they are.
    messages: what people are told, by way of the outbox.
    claims: whether the plans are begun as soon as this is stored, and so are claimed with it.
    carry: what cost accounting takes over to the next tick, opaque here. None: unchanged.
    """

    at: UnixSeconds
    alerts: tuple[AlertState, ...] | None = None
    transitions: tuple[Transition, ...] = ()
    messages: tuple[Transition, ...] = ()
    plans: tuple[ActionPlan, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    spools: tuple[SpoolBatch, ...] = ()
    costs: tuple[CostRow, ...] = ()
    paid: tuple[PaidRow, ...] = ()
    workers: tuple[WorkerView, ...] = ()
    carry: Mapping[str, Any] | None = None
    claims: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of a tick's plans, and what was not stored, because it was there before.

    claimed_plans: ids of the plans that are ours to carry out now.
    refused_spools: gateways whose batch did not begin at the stored offset, with that offset.
    """

    duplicate_plans: tuple[str, ...] = ()
    claimed_plans: tuple[str, ...] = ()
    refused_spools: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """An action and how far it got."""

    plan: ActionPlan
    status: ActionStatus
    started_at: UnixSeconds | None = None
    finished_at: UnixSeconds | None = None
    took_seconds: float | None = None
    detail: str = ""
    after: Mapping[str, Any] = field(default_factory=dict)
    verify_by: UnixSeconds | None = None
    verified_at: UnixSeconds | None = None
    helped: bool | None = None
    decided_by: str | None = None
    """Who approved of it, or refused."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of an action: `told` in words, `after` in values, for its row and the audit."""

    action: str
    target: str
    at: UnixSeconds
    helped: bool
    told: str
    after: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Notification:
    """A transition that somebody has to be told of. `attempts` includes the one under way."""

    id: int
    kind: str
    fingerprint: str
    payload: Mapping[str, Any]
    created_at: UnixSeconds
    attempts: int


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group of messages as a channel has it.

    handle: by what the channel finds its message again. trying: the message that was being sent,
    empty if it is known what became of it.
    """

    group: Group
    handle: Mapping[str, Any]
    trying: str
    attempts: int


@dataclass(frozen=True, slots=True)
class JobRun:
    """When a job ran last, and what came of it.

    `result`, `ok` and `took_seconds` are those of the last run that ended.
    """

    name: str
    last_started_at: UnixSeconds
    last_finished_at: UnixSeconds | None = None
    took_seconds: float | None = None
    result: str = ""
    ok: bool | None = None
    last_succeeded_at: UnixSeconds | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """How long things that are over are kept.

    ledger_seconds: hours of requests and cost older than this become one row; their sums stay.
    """

    audit_seconds: float
    ledger_seconds: float


@dataclass(frozen=True, slots=True)
class ActionFilter:
    """Which actions are wanted; None: any. before: (planned_at, id) of the last one seen."""

    status: str | None = None
    kind: str | None = None
    target: str | None = None
    before: tuple[UnixSeconds, str] | None = None


@dataclass(frozen=True, slots=True)
class StartTime:
    """How long a worker took from process start to its first answered canary."""

    at: UnixSeconds
    profile: str
    worker: str
    took_seconds: float


@dataclass(frozen=True, slots=True)
class RestoredState:
    """What a daemon goes on from. Alerts are unconfirmed.

    actions: the unfinished ones (planned, running) and those in force (of each kind and target the
        last that was applied and not undone), oldest first. One that is RUNNING was running when
        the daemon died.
    """

    alerts: tuple[AlertState, ...] = ()
    actions: tuple[ActionRecord, ...] = ()
    holds: tuple[Hold, ...] = ()
    last_tick_at: UnixSeconds | None = None
    policy: Mapping[str, Any] | None = None
    policy_version: int = 0
    carry: Mapping[str, Any] = field(default_factory=dict)
    spool_offsets: Mapping[str, int] = field(default_factory=dict)
