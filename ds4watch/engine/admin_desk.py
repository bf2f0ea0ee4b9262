"""What the admin API shows and takes beside the status (web.ports.AdminDesk)."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ds4watch.config.hidden import shown
from ds4watch.config.profile import Profile
from ds4watch.config.settings import Settings
from ds4watch.engine.command_run import CommandRun
from ds4watch.engine.history_export import HistoryExport
from ds4watch.engine.silence_desk import SilenceDesk
from ds4watch.engine.status import audit_json
from ds4watch.history.asked_values import Command, GivenAnswer
from ds4watch.history.desk import Desk
from ds4watch.history.quality_values import QualityRun
from ds4watch.history.rows import ActionFilter, ActionRecord, AuditEntry, AuditKind
from ds4watch.model.ports import Clock


@dataclass(frozen=True, slots=True)
class AdminDesk:
    """Answers from the state store and the settings. Raises StoreError."""

    desk: Desk
    silences: SilenceDesk
    run: CommandRun
    exports: HistoryExport
    settings: Settings
    profiles_now: Mapping[str, Profile]
    clock: Clock
    audit: Callable[[AuditEntry], Awaitable[None]]

    async def silence(
        self,
        *,
        matchers: Sequence[str],
        starts_at: float | None,
        until: float,
        who: str,
        why: str,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Mute the messages of alerts for a while; return the silence. Raises RefusedError."""
        return await self.silences.place(
            matchers=matchers, starts_at=starts_at, until=until, who=who, why=why, dry_run=dry_run
        )

    async def unsilence(self, silence: str, *, who: str, dry_run: bool = False) -> str | None:
        """End a silence; return what follows, None if none is in force or to come by this id."""
        return await self.silences.expire(silence, who=who, dry_run=dry_run)

    async def listed_silences(self, *, over: bool) -> list[dict[str, Any]]:
        """Return the silences in force and to come, with `over` also those that ended."""
        return await self.silences.listed(over=over)

    async def one_silence(self, silence: str) -> dict[str, Any] | None:
        """Return a silence by its id."""
        return await self.silences.one(silence)

    async def ask(self, *, kind: str, body: Mapping[str, Any], who: str) -> dict[str, Any]:
        """Store what a person asks for and wake who carries it out; return the command."""
        return command_json(await self.run.ask(kind, body, who))

    async def reload(self, *, who: str, why: str) -> None:
        """Have all files read anew, as SIGHUP does; faults of theirs are in log and audit."""
        now = self.clock.now()
        summary = f"{who} asks for a reload: {why}"
        await self.audit(AuditEntry(now, AuditKind.COMMAND, "daemon", summary, who=who))
        os.kill(os.getpid(), signal.SIGHUP)

    async def command(self, number: int) -> dict[str, Any] | None:
        """Return a command by its id."""
        found = await self.desk.command(number)
        return None if found is None else command_json(found)

    async def actions(
        self,
        *,
        limit: int,
        before: tuple[float, str] | None,
        status: str | None,
        kind: str | None,
        target: str | None,
    ) -> list[dict[str, Any]]:
        """Return actions, newest first: those before (planned_at, id)."""
        wanted = ActionFilter(status=status, kind=kind, target=target, before=before)
        return [action_json(it) for it in await self.desk.actions(limit, wanted)]

    async def action(self, action: str) -> dict[str, Any] | None:
        """Return an action by its id."""
        found = await self.desk.action(action)
        return None if found is None else action_json(found)

    async def quality_runs(
        self, *, limit: int, before: int | None, profile: str | None
    ) -> list[dict[str, Any]]:
        """Return quality runs, newest first: those with an id under `before`."""
        found = await self.desk.quality_runs(limit, before, profile)
        return [quality_json(number, run) for number, run in found]

    def config(self) -> dict[str, Any]:
        """Return the settings that the daemon started with, without secrets."""
        return shown(self.settings)

    def profiles(self) -> list[dict[str, Any]]:
        """Return the profiles of the workers that we run."""
        return [shown(profile) for _name, profile in sorted(self.profiles_now.items())]

    def export(
        self,
        *,
        form: str,
        start_at: float,
        end_at: float,
        targets: Sequence[str],
        names: Sequence[str],
    ) -> AsyncIterator[bytes]:
        """Yield stored samples as text."""
        return self.exports.texts(
            form=form, start_at=start_at, end_at=end_at, targets=targets, names=names
        )

    async def events_after(self, after: int, limit: int) -> list[dict[str, Any]]:
        """Return audit rows above an id, oldest first."""
        return [audit_json(it) for it in await self.desk.audit_after(after, limit)]

    async def newest_event(self) -> int:
        """Return the id of the newest audit row."""
        return await self.desk.newest_audit_id()

    async def given_answer(self, who: str, key: str) -> GivenAnswer | None:
        """Return what was answered to this key of somebody's."""
        return await self.desk.given_answer(who, key, self.clock.now())

    async def keep_answer(self, given: GivenAnswer) -> None:
        """Keep an answer for who asks again."""
        await self.desk.keep_answer(given)


def command_json(command: Command) -> dict[str, Any]:
    """Return a command as the API shows it."""
    return {
        "id": command.id,
        "at": command.at,
        "kind": command.kind,
        "who": command.who,
        "body": dict(command.body),
        "status": command.status.value,
        "told": command.told,
        "finished_at": command.finished_at,
    }


def action_json(record: ActionRecord) -> dict[str, Any]:
    """Return an action as the API shows it."""
    plan = record.plan
    return {
        "id": plan.id,
        "kind": plan.kind.value,
        "target": plan.target,
        "status": record.status.value,
        "cause": plan.cause,
        "reason": plan.reason,
        "planned_at": plan.planned_at,
        "started_at": record.started_at,
        "finished_at": record.finished_at,
        "took_seconds": record.took_seconds,
        "detail": record.detail,
        "dry_run": plan.dry_run,
        "undoes": plan.undoes,
        "parameters": dict(plan.parameters),
        "before": dict(plan.before),
        "after": dict(record.after),
    }


def quality_json(number: int, run: QualityRun) -> dict[str, Any]:
    """Return a quality run as the API shows it."""
    return {
        "id": number,
        "at": run.at,
        "profile": run.profile,
        "reference": run.reference,
        "metric": run.metric,
        "value": run.value if run.value is not None and math.isfinite(run.value) else None,
        "prompts": run.prompts,
        "tokens": run.tokens,
        "took_seconds": run.took_seconds,
        "error": run.error or None,
    }
