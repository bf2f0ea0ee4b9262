"""Commands that buttons give: rows, as those of the admin API are (notify.clicks.Orders)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from ds4watch.history.asked_values import Command, CommandStatus
from ds4watch.model.errors import RefusedError
from ds4watch.model.ports import Clock
from ds4watch.notify.clicks import Given

Ask = Callable[[str, Mapping[str, Any], str], Awaitable[Command]]
"""Writes a command row of a kind, with its fields, by whom."""
Look = Callable[[int], Awaitable[Command | None]]
"""Returns a command as it stands."""

PATIENCE_SECONDS = 2.0
"""Slack wants its callback answered within three."""
_LOOK_SECONDS = 0.05


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

    def __init__(
        self,
        holds: Holds,
        clock: Clock,
        ask: Ask,
        look: Look,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Write all but holds through `ask`, and see through `look` what came of it."""
        self._holds = holds
        self._clock = clock
        self._ask = ask
        self._look = look
        self._patience_seconds = patience_seconds

    async def give(self, kind: str, fields: Mapping[str, Any], *, who: str) -> Given:
        """Write a command; return what came of it, if it did in time. Raises Ds4watchError."""
        if kind == "hold":
            seconds = max(1.0, float(fields["until"]) - self._clock.now())
            await self._holds.hold(
                target=fields["pool"], seconds=seconds, who=who, why=fields["why"]
            )
            self._holds.wake()
            until = _clock_of(fields["until"])
            return Given(f"no automatic action on {fields['pool']} until {until}")
        asked = await self._ask(kind, fields, who)
        self._holds.wake()
        return _given(await self._outcome(asked), fields)

    async def _outcome(self, asked: Command) -> Command:
        """Return a command once it is carried out, or as it stands when patience ends."""
        found = asked
        try:
            async with asyncio.timeout(self._patience_seconds):
                while found.status is CommandStatus.WAITING:
                    await asyncio.sleep(_LOOK_SECONDS)
                    found = await self._look(asked.id) or found
        except TimeoutError:
            pass
        return found


def _given(command: Command, fields: Mapping[str, Any]) -> Given:
    if command.status is CommandStatus.REFUSED:
        raise RefusedError(command.told)
    if command.status is CommandStatus.WAITING:
        subject = str(fields.get("action", ""))
        told = f"asked for: {command.kind} {subject}".rstrip()
        return Given(f"{told}; what comes of it is in the audit", is_done=False)
    if command.kind == "silence":
        matchers = ", ".join(f"{it['name']}={it['value']}" for it in fields["matchers"])
        return Given(f"silenced {matchers} until {_clock_of(fields['until'])}")
    return Given(command.told)


def _clock_of(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M UTC")
