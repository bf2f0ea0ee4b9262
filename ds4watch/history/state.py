"""The store of decisions: states, claims, outbox, audit, ledger, holds, jobs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ds4watch.alerting.grouping import Group, GroupSettings, Note
from ds4watch.history import (
    action_rows,
    alert_rows,
    audit_rows,
    group_rows,
    job_rows,
    key_rows,
    ledger_rows,
    meta_rows,
    outbox_rows,
    retention_rows,
    silence_rows,
    steering_rows,
    worker_rows,
)
from ds4watch.history.alert_rows import AlertKey
from ds4watch.history.asked_values import RollingChange, StoredKey, WorkerWish
from ds4watch.history.database import Database
from ds4watch.history.desk import Desk
from ds4watch.history.lease import VANISHED_SECONDS
from ds4watch.history.ledger import Ledger
from ds4watch.history.line import Fence, SetAside, Tuning
from ds4watch.history.loss import Mended, Remembered
from ds4watch.history.measured import Measured
from ds4watch.history.migrate import Which
from ds4watch.history.place import Place
from ds4watch.history.rows import (
    ActionRecord,
    AuditEntry,
    AuditKind,
    Committed,
    JobRun,
    Notification,
    RestoredState,
    Retention,
    StartTime,
    StoredGroup,
    TickCommit,
    Verified,
)
from ds4watch.history.tick_rows import Written, restored_state, stored_state
from ds4watch.model.action import ActionPlan, ActionStatus, Hold, Outcome
from ds4watch.model.alert import AlertState
from ds4watch.model.errors import EdgeReason, StoreError
from ds4watch.model.key_budget import KeyUse
from ds4watch.model.money import Nanos
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.worker import WorkerView

_log = logging.getLogger(__name__)

BUSY_TIMEOUT_SECONDS = 2.0
ANSWER_TIMEOUT_SECONDS = 2.0

T = TypeVar("T")


class StateStore:
    """Decisions on disk. Open it with `open`; every method may be called from the event loop.

    Each write is one transaction: on StoreError nothing of it was stored, unless the answer of a
    server was lost: a tick that is committed again then counts once.

    A file that proves corrupt, at the start or later, is set aside and started anew. What is
    remembered (holds, silences, alerts, spools) is written into the new one; if nothing is, a hold
    on everything takes the place of holds that may have been lost. The new one's audit says so.
    """

    def __init__(self, database: Database, alerts: dict[AlertKey, AlertState]) -> None:
        self._remembered = Remembered()
        self._written = Written(alerts)
        self._database = Mended(database, self._remembered, on_loss=self._written.forget)
        self.desk = Desk(self._database, self._remembered)
        self.ledger = Ledger(self._database)
        self.quality = Measured(self._database)

    @classmethod
    def open(
        cls,
        place: Place,
        clock: Clock,
        *,
        busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS,
        answer_timeout_seconds: float = ANSWER_TIMEOUT_SECONDS,
        fence: Fence | None = None,
    ) -> StateStore:
        """Open or make the database. Raises what Database does.

        fence: what every transaction that writes has to pass; on a server, the lease.
        """
        tuning = Tuning(
            durable=True,
            busy_timeout_seconds=busy_timeout_seconds,
            answer_timeout_seconds=answer_timeout_seconds,
            vanished_seconds=VANISHED_SECONDS if fence is not None else 60.0,
        )
        database = Database(place, Which.STATE, tuning, clock, fence=fence)
        store = cls(database, database.first_read(alert_rows.stored_alerts))
        store.tell_of_loss()
        return store

    @property
    def set_aside(self) -> SetAside | None:
        """The corrupt file that was set aside last, if any was."""
        return self._database.set_aside

    def tell_of_loss(self) -> None:
        """Write what a corrupt file took with it into the new one, before anything else is."""
        self._database.tell()

    async def load(self, now: UnixSeconds) -> RestoredState:
        """Return what to go on from, and let claims of messages by a dead daemon go."""
        return await self._database.in_writer(self._load, now)

    async def look(self, now: UnixSeconds) -> RestoredState:
        """Return what another daemon goes by at the moment; nothing is let go of."""
        return await self._database.read(stored_state, now)

    async def workers(self) -> list[WorkerView]:
        """Return how workers stood when that was last stored."""
        return await self._database.read(meta_rows.stored_workers)

    async def commit_tick(self, commit: TickCommit) -> Committed:
        """Store everything a tick decided, in one transaction."""
        committed = await self._database.in_writer(self._commit_tick, commit)
        self.ledger.note_booked(commit)
        return committed

    async def claim_action(self, at: UnixSeconds) -> ActionPlan | None:
        """Take the next planned action as running; no other claimant gets it.

        A plan under a person's hold is refused here, in the same transaction.
        """
        return await self._database.write(action_rows.claim, at)

    async def finish_action(
        self, outcome: Outcome, *, policy: Mapping[str, Any] | None = None
    ) -> bool:
        """Store how an action ended, with the service policy that came of it.

        An undo that was applied marks what it undoes as undone. False: it was not running.
        """
        return await self._database.write(action_rows.finish, outcome, policy)

    async def claim_notification(self, at: UnixSeconds) -> Notification | None:
        """Take the oldest message that is due; no other claimant gets it."""
        return await self._database.write(outbox_rows.claim, at)

    async def finish_notification(
        self,
        notification_id: int,
        *,
        at: UnixSeconds,
        error: str | None = None,
        retry_at: UnixSeconds | None = None,
    ) -> None:
        """Store how sending went. With an error and no `retry_at` the message is given up."""
        await self._database.write(outbox_rows.finish, notification_id, at, error, retry_at)

    async def add_notes(self, *notes: Note) -> None:
        """Have something told beside alerts: an action, a question, a report."""
        await self._database.write(group_rows.insert_notes, list(notes))

    async def absorb_news(self, channels: Mapping[str, GroupSettings], at: UnixSeconds) -> int:
        """Put what is new in the outbox into the groups of each channel; return how much."""
        return await self._database.write(group_rows.absorb_news, channels, at)

    async def due_groups(
        self, channel: str, at: UnixSeconds, settings: GroupSettings
    ) -> list[StoredGroup]:
        """Return the groups that are to be told by now, the longest due first."""
        return await self._database.write(group_rows.due_groups, channel, at, settings)

    async def begin_group(self, channel: str, key: str, trying: str) -> None:
        """Store that a message is about to be sent."""
        await self._database.write(group_rows.begin, channel, key, trying)

    async def keep_handle(self, channel: str, key: str, handle: Mapping[str, Any]) -> None:
        """Store by what a channel finds its message again."""
        await self._database.write(group_rows.keep_handle, channel, key, handle)

    async def group_failed(self, channel: str, key: str, error: str, *, unsure: bool) -> None:
        """Store that a message was not sent, or that nobody knows."""
        await self._database.write(group_rows.failed, channel, key, error, unsure)

    async def group_told(
        self, channel: str, sent: Group, at: UnixSeconds, settings: GroupSettings
    ) -> None:
        """Store that a group was told as it was `sent`."""
        await self._database.write(group_rows.finished, channel, sent, at, settings)

    async def say_in_group(
        self,
        channel: str,
        key: str,
        note: Note,
        *,
        acknowledged_by: str | None,
        settings: GroupSettings,
    ) -> bool:
        """Add to a group what a person did; False if there is no such group any more."""
        return await self._database.write(
            group_rows.say, channel, key, note, acknowledged_by, settings
        )

    async def groups_waiting(self, at: UnixSeconds) -> list[tuple[str, int, UnixSeconds]]:
        """Return by channel how many groups are due, and since when the first is."""
        return await self._database.read(group_rows.waiting, at)

    async def add_audit(self, *entries: AuditEntry) -> None:
        """Store audit rows that belong to no tick."""
        if entries:
            await self._database.write(audit_rows.insert_audit, entries)

    async def steering_actions(self, since: UnixSeconds) -> list[ActionRecord]:
        """Return the actions on workers that are not over, or were planned since then."""
        return await self._database.read(steering_rows.steering_actions, since)

    async def decide_action(
        self, action: str, status: ActionStatus, *, who: str, at: UnixSeconds, why: str
    ) -> bool:
        """Let an action that waits be done, or not; False if it waits no longer."""
        return await self._database.write(steering_rows.decide_action, action, status, who, at, why)

    async def save_verdicts(self, verdicts: Sequence[Verified]) -> None:
        """Store what came of actions, with audit rows."""
        if verdicts:
            await self._database.write(steering_rows.save_verdicts, verdicts)

    async def place_hold(self, hold: Hold) -> None:
        """Store a hold, with its audit row."""
        await self._database.in_writer(self._place_hold, hold)

    async def lift_hold(self, target: str, *, who: str, at: UnixSeconds) -> int:
        """End the holds on `target`, with an audit row, and return how many there were."""
        return await self._database.in_writer(self._lift_hold, target, who, at)

    async def save_policy(self, document: Mapping[str, Any]) -> None:
        """Store the service policy, `version` included."""
        await self._database.write(meta_rows.save_policy, document)

    async def keep_value(self, name: str, value: Any) -> None:
        """Keep a JSON value under a name of its own."""
        await self._database.write(meta_rows.set_meta, name, value)

    async def keep_carry(self, carry: Mapping[str, Any]) -> None:
        """Keep what cost accounting takes over to the next daemon, beside any tick."""
        await self._database.write(meta_rows.set_meta, meta_rows.CARRY, dict(carry))

    async def kept_values(self) -> dict[str, Any]:
        """Return every value that is kept by name."""
        return await self._database.read(meta_rows.all_meta)

    async def save_workers(self, workers: Sequence[WorkerView]) -> None:
        """Store how workers stand."""
        await self._database.in_writer(self._save_workers, tuple(workers))

    async def forget_spool(self, gateway: str) -> None:
        """Forget how far a spool was read: its file is gone or begins anew."""
        await self._database.in_writer(self._forget_spool, gateway)

    async def job_started(self, name: str, at: UnixSeconds) -> None:
        """Store that a job began."""
        await self._database.write(job_rows.started, name, at)

    async def job_finished(
        self, name: str, *, at: UnixSeconds, took_seconds: float, result: str, ok: bool
    ) -> None:
        """Store how a job ended."""
        await self._database.write(job_rows.finished, name, at, took_seconds, result, ok)

    async def save_worker_wish(self, wish: WorkerWish, told: str) -> None:
        """Store what a person wishes of a worker, with its audit row."""
        await self._database.write(worker_rows.save_wish, wish, told)

    async def began_at(self) -> UnixSeconds | None:
        """Return when the story that is kept begins; None if nothing was written yet."""
        return await self._database.read(audit_rows.oldest_at)

    async def worker_wishes(self) -> list[WorkerWish]:
        """Return what a person wishes of each worker."""
        return await self._database.read(worker_rows.stored_wishes)

    async def save_key(self, key: StoredKey, entry: AuditEntry) -> None:
        """Store an API key in place of the one of its name, with its audit row."""
        await self._database.write(key_rows.save_key, key, entry)

    async def keys(self) -> list[StoredKey]:
        """Return every API key that ever was."""
        return await self._database.read(key_rows.stored_keys)

    async def key_use(
        self, start_at: UnixSeconds
    ) -> tuple[list[KeyUse], dict[tuple[UnixSeconds, str], Nanos]]:
        """Return tokens by key, and the money of busy workers, of the hours from then on."""
        uses = await self._database.read(key_rows.key_use, start_at)
        return uses, await self._database.read(key_rows.busy_costs, start_at)

    async def save_rolling(self, change: RollingChange, *entries: AuditEntry) -> None:
        """Store how far a rolling change is, with its audit rows."""
        await self._database.write(worker_rows.save_rolling, change, entries)

    async def last_rolling(self) -> RollingChange | None:
        """Return the rolling change that was begun last."""
        return await self._database.read(worker_rows.last_rolling)

    async def add_start_time(self, start: StartTime) -> None:
        """Store how long a start took; the last ten of a profile are kept."""
        await self._database.write(worker_rows.insert_start_time, start)

    async def start_times(self) -> list[StartTime]:
        """Return the last starts of every profile, oldest first."""
        return await self._database.read(worker_rows.stored_start_times)

    async def prune(self, keep: Retention, now: UnixSeconds) -> int:
        """Delete what is over and older than it is kept; return how many rows.

        In slices, so that ticks go between.
        """
        deleted = 0
        for table, is_old in retention_rows.slices(keep, now):
            while gone := await self._database.write(retention_rows.delete_slice, table, is_old):
                deleted += gone
        return deleted

    async def audit(
        self, limit: int, *, before_id: int | None = None, kind: AuditKind | None = None
    ) -> list[AuditEntry]:
        """Return audit rows, newest first; page on with the last one's id as `before_id`."""
        return await self._database.read(audit_rows.read_audit, limit, before_id, kind)

    async def alerts(self) -> list[AlertState]:
        """Return the stored alerts."""
        return list((await self._database.read(alert_rows.stored_alerts)).values())

    async def actions(self, limit: int = 100) -> list[ActionRecord]:
        """Return the newest actions, newest first."""
        return await self._database.read(action_rows.recent_actions, limit)

    async def holds(self, now: UnixSeconds) -> tuple[Hold, ...]:
        """Return the holds in force."""
        return await self._database.read(action_rows.holds_in_force, now)

    async def jobs(self) -> list[JobRun]:
        """Return every job that ever ran, by name."""
        return await self._database.read(job_rows.stored_jobs)

    async def close(self) -> None:
        """Finish what is queued and close the file."""
        await self._database.close()

    def _load(self, now: UnixSeconds) -> RestoredState:
        restored = self._database.transact(restored_state, now)
        silences = self._database.transact(silence_rows.not_over, now)
        self._remembered.restore(restored.holds, silences, restored.spool_offsets)
        return restored

    def _place_hold(self, hold: Hold) -> None:
        self._database.transact(action_rows.place_hold, hold)
        self._remembered.place(hold)

    def _lift_hold(self, target: str, who: str, at: UnixSeconds) -> int:
        lifted = self._database.transact(action_rows.lift_holds, target, who, at)
        self._remembered.lift(target)
        return lifted

    def _forget_spool(self, gateway: str) -> None:
        self._database.transact(ledger_rows.forget_spool, gateway)
        self._remembered.forget_spool(gateway)

    def _commit_tick(self, commit: TickCommit) -> Committed:
        try:
            committed = self._database.transact(self._written.save_tick, commit)
        except StoreError as error:
            if error.reason in _ANSWER_LOST:
                self._written.doubt(commit)
            raise
        self._written.note(commit)
        self._remembered.note(commit, committed)
        return committed

    def _save_workers(self, views: Sequence[WorkerView]) -> None:
        self._database.transact(self._written.save_workers, views)
        self._written.note_workers(views)


_ANSWER_LOST = frozenset({EdgeReason.GONE, EdgeReason.TIMEOUT})
"""A commit that ended so may have been stored all the same."""
