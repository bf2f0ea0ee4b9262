"""What the admin API reads and writes of the state, beside what ticks do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ds4watch.history import action_rows, audit_rows, command_rows, meta_rows, silence_rows
from ds4watch.history.asked_values import Command, CommandStatus, GivenAnswer
from ds4watch.history.loss import Mended, Remembered
from ds4watch.history.quality_values import QualityRun
from ds4watch.history.rows import ActionFilter, ActionRecord, AuditEntry
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.silence import Silence


class Desk:
    """Silences, commands, answers given, and lists page by page. Raises StoreError."""

    def __init__(self, database: Mended, remembered: Remembered) -> None:
        self._database = database
        self._remembered = remembered

    async def place_silence(self, silence: Silence) -> None:
        """Store a silence, with its audit row."""
        await self._database.in_writer(self._place_silence, silence)

    async def expire_silence(self, silence_id: str, *, who: str, at: UnixSeconds) -> Silence | None:
        """End a silence, with its audit row; None if none is in force or to come by this id."""
        return await self._database.in_writer(self._expire_silence, silence_id, who, at)

    async def silence(self, silence_id: str) -> Silence | None:
        """Return a silence by its id, one that is over too."""
        return await self._database.read(silence_rows.one, silence_id)

    async def silences(self, now: UnixSeconds) -> tuple[Silence, ...]:
        """Return the silences in force and to come."""
        return await self._database.read(silence_rows.not_over, now)

    async def ended_silences(self, now: UnixSeconds, limit: int) -> tuple[Silence, ...]:
        """Return silences that are over, those that ended last first."""
        return await self._database.read(silence_rows.ended, now, limit)

    async def ask(
        self, *, kind: str, body: Mapping[str, Any], who: str, at: UnixSeconds
    ) -> Command:
        """Store what a person asks for, with its audit row."""
        return await self._database.write(command_rows.ask, kind, body, who, at)

    async def waiting_commands(self) -> list[Command]:
        """Return what nobody has carried out yet, oldest first."""
        return await self._database.read(command_rows.waiting)

    async def finish_command(
        self, number: int, status: CommandStatus, told: str, *, at: UnixSeconds
    ) -> bool:
        """Store what became of a command; False if that is known already."""
        return await self._database.write(command_rows.finish, number, status, told, at)

    async def command(self, number: int) -> Command | None:
        """Return a command by its id."""
        return await self._database.read(command_rows.command, number)

    async def given_answer(self, who: str, key: str, now: UnixSeconds) -> GivenAnswer | None:
        """Return what was answered to this key of somebody's, for a day."""
        return await self._database.read(command_rows.answer, who, key, now)

    async def keep_answer(self, given: GivenAnswer) -> None:
        """Keep an answer for who asks again."""
        await self._database.write(command_rows.keep_answer, given)

    async def actions(self, limit: int, wanted: ActionFilter) -> list[ActionRecord]:
        """Return actions, newest first."""
        return await self._database.read(action_rows.listed, limit, wanted)

    async def action(self, action_id: str) -> ActionRecord | None:
        """Return an action by its id."""
        return await self._database.read(action_rows.one, action_id)

    async def quality_runs(
        self, limit: int, before_id: int | None, profile: str | None
    ) -> list[tuple[int, QualityRun]]:
        """Return quality runs with their ids, newest first."""
        return await self._database.read(meta_rows.quality_page, limit, before_id, profile)

    async def audit_after(self, after_id: int, limit: int) -> list[AuditEntry]:
        """Return audit rows above an id, oldest first."""
        return await self._database.read(audit_rows.read_after, after_id, limit)

    async def newest_audit_id(self) -> int:
        """Return the id of the newest audit row; 0 if there is none."""
        return await self._database.read(audit_rows.newest_id)

    def _place_silence(self, silence: Silence) -> None:
        self._database.transact(silence_rows.place, silence)
        self._remembered.note_silence(silence)

    def _expire_silence(self, silence_id: str, who: str, at: UnixSeconds) -> Silence | None:
        ended = self._database.transact(silence_rows.expire, silence_id, who, at)
        if ended is not None:
            self._remembered.note_silence(ended)
        return ended
