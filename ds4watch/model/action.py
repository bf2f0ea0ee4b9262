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


class ActionStatus(StrEnum):
    """Life of an action row: planned → running → applied, or another end that says why."""

    PLANNED = "planned"
    RUNNING = "running"
    APPLIED = "applied"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """The daemon died while it ran; its effect is looked at before anything else is tried."""
    WOULD_DO = "would_do"
    """Dry run: decided in full, carried out not at all."""
    UNDONE = "undone"


class RefusalReason(StrEnum):
    """Why something that was asked for is not done."""

    DRY_RUN = "dry_run"
    SETTLING = "settling"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """Something to do now. `id` is unique for (cause, kind, target, episode): the claim."""

    id: str
    kind: ActionKind
    target: str
    cause: str
    """Fingerprints of the alerts behind it, comma-joined; or `cleared`, or `operator:<name>`."""
    planned_at: UnixSeconds
    parameters: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    dry_run: bool = False
    undoes: str | None = None
    """Id of the action that this one takes back."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that was not done, and why; audited like a done one."""

    kind: ActionKind
    target: str
    reason: RefusalReason
    detail: str
    cause: str
    at: UnixSeconds


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
