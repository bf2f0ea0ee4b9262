"""Carries out what persons asked for by rows: a command is a row and a wake-up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from ds4watch.engine.silence_desk import SilenceDesk
from ds4watch.history.asked_values import Command, CommandStatus
from ds4watch.history.desk import Desk
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.history.state import StateStore
from ds4watch.model.errors import Ds4watchError, EdgeError, RefusedError, StoreError
from ds4watch.model.ports import Clock
from ds4watch.model.silence import LabelTest

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
Carry = Callable[[Command], Awaitable[str]]
"""Carries a command out and returns what came of it. Raises RefusedError."""


class CommandRun:
    """Takes waiting commands in order and hands each to who carries out its kind.

    One that nobody carries out is refused, so that whoever asked hears of it. A daemon that dies in
    between carries a command out again: what carries it out must bear that.
    """

    def __init__(
        self,
        state: StateStore,
        silences: SilenceDesk,
        *,
        wake: Callable[[], None],
        clock: Clock,
        carry: Mapping[str, Carry] = MappingProxyType({}),
    ) -> None:
        """Call `wake` after each, for the next tick is to see what changed.

        carry: who carries out which kind, beside silences.
        """
        self.silences = silences
        self._state = state
        self._desk: Desk = state.desk
        self._carry = {**silencing(silences), **carry}
        self._tell = wake
        self._clock = clock
        self._asked = asyncio.Event()
        self._failing = False

    async def ask(self, kind: str, body: Mapping[str, Any], who: str) -> Command:
        """Store what a person asks for, to be carried out at once. Raises StoreError."""
        command = await self._desk.ask(kind=kind, body=body, who=who, at=self._clock.now())
        self.wake()
        return command

    def wake(self) -> None:
        """Say that a command may wait."""
        self._asked.set()

    async def run(self) -> None:
        """Serve until cancelled; rows that others wrote are found within a second."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._asked.wait()
            self._asked.clear()
            try:
                await self.carry_out()
            except EdgeError as error:
                if not self._failing:
                    log.warning("commands wait: %s", error)
                self._failing = True
            else:
                self._failing = False

    async def carry_out(self) -> None:
        """Carry out all that waits. Raises StoreError."""
        for command in await self._desk.waiting_commands():
            status, told = await self._outcome(command)
            now = self._clock.now()
            await self._desk.finish_command(command.id, status, told, at=now)
            summary = f"{command.kind} asked for by {command.who}: {status.value}: {told}"
            detail = {"id": command.id, "status": status.value}
            entry = AuditEntry(now, AuditKind.COMMAND, command.kind, summary, detail, command.who)
            await self._state.add_audit(entry)
            self._tell()

    async def _outcome(self, command: Command) -> tuple[CommandStatus, str]:
        carry = self._carry.get(command.kind)
        if carry is None:
            return CommandStatus.REFUSED, f"nothing here carries out {command.kind}"
        try:
            return CommandStatus.DONE, await carry(command)
        except StoreError:
            raise  # It waits; of all else the person hears, and the next has its turn.
        except Ds4watchError as error:
            return CommandStatus.REFUSED, str(error)
        except (KeyError, TypeError, ValueError) as error:
            log.warning("command %s (%s) is malformed: %s", command.id, command.kind, error)
            return CommandStatus.REFUSED, "the command is malformed"


def silencing(silences: SilenceDesk) -> Mapping[str, Carry]:
    """Return who carries out `silence` and `unsilence`."""

    async def silence(command: Command) -> str:
        body: Mapping[str, Any] = command.body
        placed = await silences.place(
            matchers=[_written(it) for it in body["matchers"]],
            until=float(body["until"]),
            why=str(body.get("why", "")),
            who=command.who,
        )
        return f"silence {placed['id']}"

    async def unsilence(command: Command) -> str:
        silence_id = str(command.body["silence"])
        if await silences.expire(silence_id, who=command.who) is None:
            raise RefusedError(f"no silence {silence_id} is in force")
        return f"silence {silence_id} ended"

    return {"silence": silence, "unsilence": unsilence}


def _written(matcher: Any) -> str:
    """Return a matcher as it is written; buttons give it as a name and a value."""
    if isinstance(matcher, Mapping):
        return str(LabelTest(str(matcher["name"]), "=", str(matcher["value"])))
    return str(matcher)
