"""Commands that buttons give: rows, as those of the admin API are (notify.clicks.Orders)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from ds4watch.model.errors import RefusedError
from ds4watch.model.ports import Clock

Ask = Callable[[str, Mapping[str, Any], str], Awaitable[object]]
"""Writes a command row of a kind, with its fields, by whom."""


class Holds(Protocol):
    """Where holds are written."""

    async def hold(self, *, target: str, seconds: float, who: str, why: str) -> dict[str, Any]:
        """Forbid actions on `target` for so long."""
        ...

    def wake(self) -> None:
        """Let the next evaluation begin at once."""
        ...


class ButtonOrders:
    """Writes what was asked for, and wakes the engine; nothing is done here."""

    def __init__(self, holds: Holds, clock: Clock, ask: Ask | None = None) -> None:
        """Write all but holds through `ask`; None: nobody carries them out."""
        self._holds = holds
        self._clock = clock
        self._ask = ask

    async def give(self, kind: str, fields: Mapping[str, Any], *, who: str) -> str:
        """Write a command; return in a few words what follows. Raises Ds4watchError."""
        if kind == "hold":
            seconds = max(1.0, float(fields["until"]) - self._clock.now())
            await self._holds.hold(
                target=fields["pool"], seconds=seconds, who=who, why=fields["why"]
            )
            told = f"no automatic action on {fields['pool']} until {_clock_of(fields['until'])}"
        elif self._ask is None:
            message = f"this daemon takes no command {kind}"
            raise RefusedError(message)
        else:
            await self._ask(kind, fields, who)
            told = _told(kind, fields)
        self._holds.wake()
        return told


def _told(kind: str, fields: Mapping[str, Any]) -> str:
    if kind == "silence":
        matchers = ", ".join(f"{it['name']}={it['value']}" for it in fields["matchers"])
        return f"silenced {matchers} until {_clock_of(fields['until'])}"
    return f"asked for: {kind} {fields.get('action', '')}"


def _clock_of(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M UTC")
