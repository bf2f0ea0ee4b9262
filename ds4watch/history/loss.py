"""A state database that proves corrupt is replaced; what is remembered goes into the new one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sqlalchemy import Connection

from ds4watch.history import action_rows, audit_rows, ledger_rows, silence_rows
from ds4watch.history.database import Database
from ds4watch.history.errors import CorruptError
from ds4watch.history.line import SetAside
from ds4watch.history.rows import AuditEntry, AuditKind, Committed, TickCommit
from ds4watch.model.action import Hold
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.silence import Silence

HOLD_SECONDS = 3600.0
HELD_BY = "ds4watch"
EVERYTHING = "*"
_LOST = "alerts' history, open actions, unsent messages, costs, requests and audit are only there"


T = TypeVar("T")


class Remembered:
    """Holds, silences and spools as stored; holds and silences are None until read once."""

    def __init__(self) -> None:
        self.holds: tuple[Hold, ...] | None = None
        self.silences: tuple[Silence, ...] | None = None
        self.offsets: dict[str, int] = {}

    def restore(
        self,
        holds: tuple[Hold, ...],
        silences: tuple[Silence, ...],
        offsets: Mapping[str, int],
    ) -> None:
        """Note what was read at the start."""
        self.holds, self.silences, self.offsets = holds, silences, dict(offsets)

    def note_silence(self, silence: Silence) -> None:
        """Note a silence as it stands now, placed or ended; those that are over are left out."""
        now = silence.ends_at if silence.ended_by else silence.placed_at
        kept = [it for it in self.silences or () if it.id != silence.id and it.ends_at > now]
        self.silences = (*kept, *([] if silence.ended_by else [silence]))

    def place(self, hold: Hold) -> None:
        """Note a hold that was placed, in place of an earlier one on its target."""
        self.lift(hold.target)
        self.holds = (*(self.holds or ()), hold)

    def lift(self, target: str) -> None:
        """Note that the holds on a target were lifted."""
        self.holds = tuple(hold for hold in self.holds or () if hold.target != target)

    def forget_spool(self, gateway: str) -> None:
        """Note that a spool is gone."""
        self.offsets.pop(gateway, None)

    def note(self, commit: TickCommit, committed: Committed) -> None:
        """Note how far a tick read the spools."""
        refused = dict(committed.refused_spools)
        for batch in commit.spools:
            self.offsets[batch.gateway] = refused.get(batch.gateway, batch.end_bytes)


class Mended:
    """A database whose corrupt file is replaced as soon as that shows, and what failed done again.

    All but `write`, `read` and `close` are for the writer's thread.
    """

    def __init__(
        self, database: Database, remembered: Remembered, *, on_loss: Callable[[], None]
    ) -> None:
        self._database = database
        self._remembered = remembered
        self._on_loss = on_loss
        self._told: SetAside | None = None

    @property
    def set_aside(self) -> SetAside | None:
        """The corrupt file that was set aside last, if any was."""
        return self._database.set_aside

    async def in_writer(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work` in the writer's thread."""
        return await self._database.in_writer(work, *arguments)

    async def write(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work(connection, *arguments)` as one transaction."""
        return await self._database.in_writer(self.transact, work, *arguments)

    async def read(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work(connection, *arguments)` in the reader's thread."""
        seen = self._database.set_aside
        try:
            return await self._database.read(work, *arguments)
        except CorruptError as error:
            await self._database.in_writer(self._replace_unless_done, error, seen)
            return await self._database.read(work, *arguments)

    async def close(self) -> None:
        """Finish what is queued and close the database."""
        await self._database.close()

    def tell(self) -> None:
        """Write what was lost into a new database, if there is one."""
        if self._database.set_aside is not self._told:
            self.transact(_nothing)

    def transact(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work(connection, *arguments)` as one transaction, on a new file if need be."""
        if not self._database.is_open:
            self._database.connect()
        try:
            return self._transact(work, *arguments)
        except CorruptError as error:
            self._replace(error)
            return self._transact(work, *arguments)

    def _transact(self, work: Callable[..., T], *arguments: Any) -> T:
        aside = self._database.set_aside
        with self._database.writing() as connection:
            if aside is not None and aside is not self._told:
                tell_of_loss(connection, aside, self._remembered)
            result = work(connection, *arguments)
        self._told = aside
        return result

    def _replace(self, error: CorruptError) -> None:
        self._on_loss()
        self._database.start_anew(error)

    def _replace_unless_done(self, error: CorruptError, seen: SetAside | None) -> None:
        if self._database.set_aside is seen:
            self._replace(error)
        self.tell()


def tell_of_loss(connection: Connection, aside: SetAside, known: Remembered) -> None:
    """Write into a new database what came of the corrupt one."""
    ledger_rows.set_offsets(connection, known.offsets)
    if known.holds is None:
        again: tuple[Hold, ...] = (_hold_on_everything(aside.at),)
        holds = (
            "Silences may have been lost. "
            f"Holds may have been lost: everything is held for {HOLD_SECONDS / 3600:g} h."
        )
    else:
        again = tuple(hold for hold in known.holds if hold.until_at > aside.at)
        holds = "Holds, silences, alerts and the level are as they were."
    summary = f"state database was corrupt ({aside.why}): kept as {aside.kept}; {_LOST}. {holds}"
    entry = AuditEntry(aside.at, AuditKind.DAEMON, "daemon", summary, {"kept": aside.kept})
    audit_rows.insert_audit(connection, [entry])
    for hold in again:
        action_rows.place_hold(connection, hold)
    for silence in known.silences or ():
        if silence.ends_at > aside.at:
            silence_rows.place(connection, silence)


def _hold_on_everything(at: UnixSeconds) -> Hold:
    why = "state database was corrupt: holds may have been lost"
    return Hold(EVERYTHING, at + HOLD_SECONDS, HELD_BY, why, at)


def _nothing(_connection: Connection) -> None:
    return None
