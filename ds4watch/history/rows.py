"""What goes into the state database and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ds4watch.alerting.grouping import Group
from ds4watch.model.action import ActionPlan, ActionStatus, Hold, Refusal
from ds4watch.model.alert import AlertState, Transition
from ds4watch.model.key_budget import KeyBudget
from ds4watch.model.key_limits import KeyLimits
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.usage import RequestOutcome, RequestRecord, RetryReason, Usage
from ds4watch.model.work import Place, Work
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
class CostRow:
    """Money to add to, or the sum of, an hour of a worker; `part` says what it was spent on."""

    hour_at: UnixSeconds
    worker: str
    profile: str
    part: str
    nanos: Nanos


@dataclass(frozen=True, slots=True)
class PaidRow:
    """Time of a worker that was paid for, and at which price; to be added to an hour."""

    hour_at: UnixSeconds
    worker: str
    profile: str
    nanos_per_hour: Nanos
    paid_ms: int
    nanos: Nanos


@dataclass(frozen=True, slots=True)
class PlacedWork:
    """What an hour's requests took of a worker, of prompts of one band."""

    hour_at: UnixSeconds
    place: Place
    work: Work


@dataclass(frozen=True, slots=True)
class StorageRow:
    """What was kept in an hour: bytes times seconds, at one price; to be added to it, or a sum."""

    hour_at: UnixSeconds
    what: str
    nanos_per_gb_hour: Nanos
    byte_seconds: int


@dataclass(frozen=True, slots=True)
class WorkRow:
    """Tokens of an hour's requests of one key and model."""

    hour_at: UnixSeconds
    key: str
    model: str
    requests: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class OwnRow:
    """What requests of our own to a worker used, to be added to an instant's hour."""

    at: UnixSeconds
    worker: str
    work: str
    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class SpoolBatch:
    """Requests read from a gateway's spool between two byte offsets."""

    gateway: str
    start_bytes: int
    end_bytes: int
    records: tuple[RequestRecord, ...]


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
class RequestTotal:
    """Requests since the ledger began, of one outcome and model."""

    outcome: RequestOutcome
    model: str
    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class RequestTotals:
    """What the gateway's counters go on from after a restart."""

    requests: tuple[RequestTotal, ...] = ()
    retries: tuple[tuple[RetryReason, int], ...] = ()


@dataclass(frozen=True, slots=True)
class QualityRun:
    """One comparison of a quantized profile with its reference. `value` is None if it failed."""

    at: UnixSeconds
    profile: str
    reference: str
    metric: str
    value: float | None
    prompts: int
    tokens: int
    took_seconds: float
    error: str = ""


class GoldenStatus(StrEnum):
    """How far a golden run is. Those that are not over go on after a restart."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class GoldenRun:
    """Golden questions asked of a profile and, unless `reference` is empty, of another one.

    questions: of each. budget_nanos: what it may cost. told: why it waits, or how it ended.
    """

    id: int
    at: UnixSeconds
    profile: str
    reference: str
    questions: int
    budget_nanos: Nanos | None
    spent_nanos: Nanos
    who: str
    why: str
    status: GoldenStatus
    told: str = ""
    ended_at: UnixSeconds | None = None


@dataclass(frozen=True, slots=True)
class GoldenAnswer:
    """One answer, judged. nanos: what the worker cost meanwhile."""

    run: int
    profile: str
    question: str
    at: UnixSeconds
    work_class: str
    is_right: bool
    answer: str
    prompt_tokens: int
    completion_tokens: int
    first_token_seconds: float | None
    took_seconds: float
    nanos: Nanos


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
class WorkerWish:
    """What a person wishes of a worker. `wish` None: nothing that lasts."""

    worker: str
    wish: str | None
    restart_at: UnixSeconds | None
    pardon_at: UnixSeconds | None
    who: str
    why: str
    at: UnixSeconds


@dataclass(frozen=True, slots=True)
class StoredKey:
    """An API key as it is stored. `old_sha256`: what a rotation left good until `old_until_at`."""

    name: str
    sha256: str
    signing: str = field(repr=False)
    limits: KeyLimits
    budget: KeyBudget
    created_at: UnixSeconds
    expires_at: UnixSeconds | None = None
    revoked_at: UnixSeconds | None = None
    old_sha256: str = ""
    old_until_at: UnixSeconds | None = None

    def status(self, now: UnixSeconds) -> str:
        """Return live, expired or revoked."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and now >= self.expires_at else "live"

    def is_live(self, now: UnixSeconds) -> bool:
        """Return whether it lets in."""
        return self.status(now) == "live"


@dataclass(frozen=True, slots=True)
class RollingChange:
    """A rolling change. plan: digest of what it changes; own: of the daemon's own file's fleet."""

    number: int
    plan: str
    status: str
    who: str
    why: str
    begun_at: UnixSeconds
    updated_at: UnixSeconds
    own: str
    document: Mapping[str, Any]


class CommandStatus(StrEnum):
    """What became of a command."""

    WAITING = "waiting"
    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Command:
    """What a person asked for, whoever carries it out. `told`: what came of it."""

    id: int
    at: UnixSeconds
    kind: str
    who: str
    body: Mapping[str, Any]
    status: CommandStatus
    told: str = ""
    finished_at: UnixSeconds | None = None


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """What a request was answered; `request` is the digest of what was asked."""

    who: str
    key: str
    request: str
    at: UnixSeconds
    status: int
    content_type: str
    body: str


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
