"""When this install began, which is kept: its first week only tells of much that it would do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Protocol

from ds4watch.model.ports import UnixSeconds

INSTALLED_AT = "installed_at"
TRIAL_SECONDS = 7 * 86_400.0


class Kept(Protocol):
    """Where values are kept by name."""

    async def keep_value(self, name: str, value: Any) -> None:
        """Keep a JSON value under a name. Raises StoreError."""
        ...

    async def kept_values(self) -> dict[str, Any]:
        """Return every value that is kept by name. Raises StoreError."""
        ...


async def installed_at(
    state: Kept, now: UnixSeconds, story_began_at: UnixSeconds | None = None
) -> UnixSeconds:
    """Return when this install was first seen; if it never was, that is kept now.

    story_began_at: the oldest row of the audit, for installs from before this was kept.
    """
    kept = (await state.kept_values()).get(INSTALLED_AT)
    if isinstance(kept, int | float):
        return float(kept)
    first = now if story_began_at is None else min(now, story_began_at)
    await state.keep_value(INSTALLED_AT, first)
    return first


def trial_told(began_at: UnixSeconds, now: UnixSeconds) -> str:
    """Return what an install's first week is like, in words; empty once it is over."""
    if now >= began_at + TRIAL_SECONDS:
        return ""
    until = datetime.fromtimestamp(began_at + TRIAL_SECONDS, UTC)
    return (
        f"first week: until {until:%Y-%m-%d %H:%M} UTC scaling, rolling care and actions on "
        "adopted workers are only told (provisioning.dry_run and care.dry_run may say otherwise); "
        "what ds4watch starts is kept alive"
    )
