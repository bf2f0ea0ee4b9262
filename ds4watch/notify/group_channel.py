"""What a channel is that tells groups of alerts, and how it fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from ds4watch.alerting.grouping import Group, Why
from ds4watch.model.errors import EdgeReason, NotifyError
from ds4watch.model.ports import UnixSeconds

Keep = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Stores by what the channel finds its message again; called as soon as that is known."""


class Fault(StrEnum):
    """What a failure says about the messages that wait."""

    BUSY = "busy"
    """The channel asked for a pause; none of them may be sent before."""
    OUTAGE = "outage"
    """It does not answer, or not as it should."""
    ACCESS = "access"
    """Our token or address is not good any more; a person has to mend it."""
    MESSAGE = "message"
    """This one message is refused; it would be for ever."""
    BLIND = "blind"
    """It takes messages, but nobody may look whether one is there."""


class ChannelError(NotifyError):
    """A message was not sent; if `unsure`, it may have been.

    wait_seconds: how long the channel asked us to wait.
    """

    def __init__(
        self, message: str, *, fault: Fault, wait_seconds: float = 0.0, unsure: bool = False
    ) -> None:
        reason = EdgeReason.REFUSED if fault is Fault.MESSAGE else EdgeReason.STATUS
        super().__init__(message, reason=reason, retryable=fault is not Fault.MESSAGE)
        self.fault = fault
        self.wait_seconds = wait_seconds
        self.unsure = unsure


@dataclass(frozen=True, slots=True)
class Telling:
    """A group to be told.

    handle: what the channel kept of the group's earlier messages. unsure: this very message (by
    `group.id`) may have been sent already. doubled: so it may, and nobody can look; it is to be
    sent with a word about that.
    """

    group: Group
    why: Why
    at: UnixSeconds
    handle: Mapping[str, Any] = field(default_factory=dict)
    unsure: bool = False
    doubled: bool = False


@dataclass(frozen=True, slots=True)
class Digest:
    """What happened while the channel could not be reached."""

    id: str
    since: UnixSeconds
    until: UnixSeconds
    groups: tuple[Group, ...]
    error: str = ""
    unsure: bool = False
    doubled: bool = False


class GroupChannel(Protocol):
    """A way to tell people. `name` is its metric label and its name in the database.

    gap_seconds: the least time between two messages.
    """

    name: str
    gap_seconds: float

    async def tell(self, telling: Telling, keep: Keep) -> None:
        """Tell of a group. Raises ChannelError."""
        ...

    async def digest(self, digest: Digest) -> None:
        """Tell in one message what came up during an outage. Raises ChannelError."""
        ...
