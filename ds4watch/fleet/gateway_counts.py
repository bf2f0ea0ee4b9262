"""What a gateway tells of those who wait and of what it did to requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class AdmissionCounts:
    """Who waits at a gateway now, and what it did to requests since its start."""

    waiting: int = 0
    waited: int = 0
    waited_seconds: float = 0.0
    shed: Mapping[str, int] = field(default_factory=dict)
    abnormal: Mapping[str, int] = field(default_factory=dict)
    degraded: Mapping[str, int] = field(default_factory=dict)
    followed: int = 0
    """Requests that waited for one that begins alike, for `followed_seconds` in all."""
    followed_seconds: float = 0.0
    compression: Mapping[str, int] = field(default_factory=dict)
    """Prompts compressed and skipped, tokens_before and tokens_after."""


def counts_of(message: Mapping[str, Any]) -> AdmissionCounts:
    """Read a `stats` message; what it does not tell (an older gateway) is 0."""
    return AdmissionCounts(
        waiting=int(message.get("waiting", 0)),
        waited=int(message.get("waited", 0)),
        waited_seconds=float(message.get("waited_seconds", 0.0)),
        shed=counts_in(message, "shed"),
        abnormal=counts_in(message, "abnormal"),
        degraded=counts_in(message, "degraded"),
        followed=int(message.get("prefix_windows", {}).get("followed", 0)),
        followed_seconds=float(message.get("prefix_windows", {}).get("waited_seconds", 0.0)),
        compression=counts_in(message, "compression"),
    )


def counts_in(message: Mapping[str, Any], name: str) -> dict[str, int]:
    """Return the counts by name under `name`. Raises TypeError or ValueError on anything else."""
    return {str(key): int(count) for key, count in message.get(name, {}).items()}
