"""What people ask for, and the keys they come with, as they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ds4watch.model.key_budget import KeyBudget
from ds4watch.model.key_limits import KeyLimits
from ds4watch.model.ports import UnixSeconds


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
