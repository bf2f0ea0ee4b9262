"""Actions: planned, refused, carried out, undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ds4watch.model.ports import UnixSeconds


class ActionKind(StrEnum):
    """What can be done. Each kind has a handler in actions/, a check and an undo."""

    SET_LEVEL = "set_level"
    """Move the degradation ladder of a pool to a level."""
    RESTART_WORKER = "restart_worker"
    """Drain a worker and start its process anew."""
    DRAIN_WORKER = "drain_worker"
    """Take a worker out of the routing, by way of the supervisor; it stays loaded."""
    EXCLUDE_WORKER = "exclude_worker"
    """Have the gateways pass a worker over; that never expires, with a daemon or without."""
    WAKE_WORKER = "wake_worker"
    """Call a sleeper or a spare."""
    DIVERT_CLASS = "divert_class"
    """Have a profile's reference answer one class of work; that never expires either."""


class ActionStatus(StrEnum):
    """Life of an action row: planned → running → applied, or another end that says why."""

    WAITING = "waiting"
    """A person has to approve of it, until `expires_at`; no answer means no."""
    PLANNED = "planned"
    RUNNING = "running"
    APPLIED = "applied"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """The daemon died while it ran; its effect is looked at before anything else is tried."""
    WOULD_DO = "would_do"
    """Dry run: decided in full, carried out not at all."""
    UNDONE = "undone"
    REFUSED = "refused"
    """A person said no."""
    EXPIRED = "expired"
    """Nobody said yes in time, or what asked for it was over before."""


class RefusalReason(StrEnum):
    """Why something that was asked for is not done."""

    DRY_RUN = "dry_run"
    SETTLING = "settling"
    HOLD = "hold"
    NO_TARGET = "no_target"
    """The alert does not say which worker it means, or there is none such."""
    NOT_POSSIBLE = "not_possible"
    SHARED_CAUSE = "shared_cause"
    IN_FLIGHT = "in_flight"
    COOLDOWN = "cooldown"
    FLOOR = "floor"
    CEILING = "ceiling"
    BUDGET = "budget"
    APPROVAL = "approval"
    STEP = "step"
    """By hand too a ladder is climbed one level at a time."""


@dataclass(frozen=True, slots=True)
class GuardResult:
    """What one guard said of an action: whether it lets it pass, and the values it went by."""

    guard: str
    passed: bool
    told: str
    reason: RefusalReason | None = None
    """What it is refused for, where it did not pass."""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {"guard": self.guard, "passed": self.passed, "told": self.told}


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """Something to do now. `id` is unique for (cause, kind, target, episode): the claim."""

    id: str
    kind: ActionKind
    target: str
    cause: str
    """Fingerprints of the alerts behind it, comma-joined; or `cleared`, `redefined`, or
    `operator:<name>`.
    """
    planned_at: UnixSeconds
    parameters: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    dry_run: bool = False
    undoes: str | None = None
    """Id of the action that this one takes back."""
    pool: str = ""
    """Pool of the target; a hold on it holds the action. Empty: the target is one."""
    guards: tuple[GuardResult, ...] = ()
    expires_at: UnixSeconds | None = None
    """A person has to approve of it before then; None: nobody needs to."""
    approvers: tuple[str, ...] = ()
    who: str = ""
    """The person who asked for it; empty: nobody, an alert did."""

    @property
    def is_on_worker(self) -> bool:
        """Whether it is decided beside the ladder: its target is no pool's level."""
        return self.kind is not ActionKind.SET_LEVEL

    @property
    def first_status(self) -> ActionStatus:
        """What its row begins as."""
        if self.dry_run:
            return ActionStatus.WOULD_DO
        return ActionStatus.PLANNED if self.expires_at is None else ActionStatus.WAITING


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that was not done, and why; audited like a done one."""

    kind: ActionKind
    target: str
    reason: RefusalReason
    detail: str
    cause: str
    at: UnixSeconds
    guards: tuple[GuardResult, ...] = ()
    who: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a plan ended."""

    plan_id: str
    status: ActionStatus
    at: UnixSeconds
    took_seconds: float
    detail: str = ""
    after: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hold:
    """A person's word that nothing is done to `target` (`*`: to anything) until `until_at`."""

    target: str
    until_at: UnixSeconds
    who: str
    why: str
    placed_at: UnixSeconds
