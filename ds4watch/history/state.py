"""The store of decisions, state.db: states, claims, outbox, audit, ledger, holds."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from ds4watch.history import (
    action_rows,
    alert_rows,
    audit_rows,
    ledger_rows,
    meta_rows,
    outbox_rows,
)
from ds4watch.history.alert_rows import AlertKey
from ds4watch.history.database import Database, Tuning
from ds4watch.history.errors import CorruptError
from ds4watch.history.migrate import Which
from ds4watch.history.rows import (
    ActionRecord,
    AuditEntry,
    AuditKind,
    Committed,
    CostRow,
    Notification,
    QualityRun,
    RequestTotals,
    RestoredState,
    TickCommit,
)
from ds4watch.model.action import ActionPlan, Hold, Outcome
from ds4watch.model.alert import AlertState
from ds4watch.model.errors import ConfigError, Located
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerView

_log = logging.getLogger(__name__)

BUSY_TIMEOUT_SECONDS = 2.0


class StateStore:
    """Decisions on disk. Open it with `open`; every method may be called from the event loop.

    Each write is one transaction: on StoreError nothing of it was stored.
    """

    def __init__(self, database: Database, alerts: dict[AlertKey, AlertState]) -> None:
        self._database = database
        # What is stored, so that a tick writes only what changed. Touched by the writer alone.
        self._alerts = alerts
        self._workers: dict[str, dict[str, Any]] = {}

    @classmethod
    def open(cls, path: Path, *, busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS) -> StateStore:
        """Open or make the file.

        Raises ConfigError if it cannot be written, is corrupt, or is of a newer ds4watch.
        """
        tuning = Tuning(synchronous="FULL", busy_timeout_seconds=busy_timeout_seconds)
        try:
            return cls(*_opened(path, tuning))
        except CorruptError as error:
            finding = Located(
                f"is no database, or a damaged one: {error}",
                file=str(path),
                mend="put a backup in its place, or move it away to start without history",
            )
            raise ConfigError(finding) from error

    async def load(self, now: UnixSeconds) -> RestoredState:
        """Return what to go on from, and let claims of messages by a dead daemon go."""
        return await self._database.write(self._load, now)

    async def commit_tick(self, commit: TickCommit) -> Committed:
        """Store everything a tick decided, in one transaction."""
        return await self._database.in_writer(self._commit_tick, commit)

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

    async def add_audit(self, *entries: AuditEntry) -> None:
        """Store audit rows that belong to no tick."""
        await self._database.write(audit_rows.insert_audit, entries)

    async def place_hold(self, hold: Hold) -> None:
        """Store a hold, with its audit row."""
        await self._database.write(action_rows.place_hold, hold)

    async def lift_hold(self, target: str, *, who: str, at: UnixSeconds) -> int:
        """End the holds on `target`, with an audit row, and return how many there were."""
        return await self._database.write(action_rows.lift_holds, target, who, at)

    async def save_policy(self, document: Mapping[str, Any]) -> None:
        """Store the service policy, `version` included."""
        await self._database.write(meta_rows.save_policy, document)

    async def save_workers(self, workers: Sequence[WorkerView]) -> None:
        """Store how workers stand."""
        await self._database.in_writer(self._save_workers_alone, tuple(workers))

    async def add_quality(self, run: QualityRun) -> None:
        """Store a quality run."""
        await self._database.write(meta_rows.insert_quality, run)

    async def forget_spool(self, gateway: str) -> None:
        """Forget how far a spool was read: its file is gone or begins anew."""
        await self._database.write(ledger_rows.forget_spool, gateway)

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

    async def requests_totals(self) -> RequestTotals:
        """Return the sums that the gateway's counters go on from."""
        return await self._database.read(ledger_rows.request_totals)

    async def cost_between(self, start_at: UnixSeconds, end_at: UnixSeconds) -> list[CostRow]:
        """Return the cost of the hours that begin in [start_at, end_at)."""
        return await self._database.read(ledger_rows.cost_between, start_at, end_at)

    async def spent_total(self) -> Nanos:
        """Return all money ever booked."""
        return await self._database.read(ledger_rows.spent_total)

    async def latest_quality(self) -> list[QualityRun]:
        """Return the newest run of each profile, reference and metric."""
        return await self._database.read(meta_rows.latest_quality)

    async def close(self) -> None:
        """Finish what is queued and close the file."""
        await self._database.close()

    def _load(self, connection: Connection, now: UnixSeconds) -> RestoredState:
        if released := outbox_rows.release(connection):
            _log.warning("%s notifications may be sent twice: a daemon died sending", released)
        values = meta_rows.all_meta(connection)
        policy = values.get(meta_rows.POLICY)
        return RestoredState(
            alerts=tuple(alert_rows.stored_alerts(connection).values()),
            actions=action_rows.restored_actions(connection),
            holds=action_rows.holds_in_force(connection, now),
            last_tick_at=values.get(meta_rows.LAST_TICK_AT),
            policy=policy,
            policy_version=int((policy or {}).get("version", 0)),
            carry=values.get(meta_rows.CARRY, {}),
            spool_offsets=ledger_rows.stored_offsets(connection),
        )

    def _commit_tick(self, commit: TickCommit) -> Committed:
        states = {alert_rows.key_of(state): state for state in commit.alerts or ()}
        with self._database.writing() as connection:
            if commit.alerts is not None:
                self._save_alerts(connection, states)
            workers = self._save_workers(connection, commit.workers)
            committed = store_tick(connection, commit)
        if commit.alerts is not None:
            self._alerts = states
        self._workers.update(workers)
        return committed

    def _save_workers_alone(self, views: Sequence[WorkerView]) -> None:
        with self._database.writing() as connection:
            workers = self._save_workers(connection, views)
        self._workers.update(workers)

    def _save_workers(
        self, connection: Connection, views: Sequence[WorkerView]
    ) -> dict[str, dict[str, Any]]:
        rows = {view.id: meta_rows.worker_row(view) for view in views}
        changed = {name: row for name, row in rows.items() if self._workers.get(name) != row}
        meta_rows.save_workers(connection, list(changed.values()))
        return changed

    def _save_alerts(self, connection: Connection, states: dict[AlertKey, AlertState]) -> None:
        changed = [state for key, state in states.items() if self._alerts.get(key) != state]
        alert_rows.save_alerts(connection, changed, self._alerts.keys() - states.keys())


def store_tick(connection: Connection, commit: TickCommit) -> Committed:
    """Write what a tick decided, but for the states, and say what had been there before."""
    alert_rows.insert_events(connection, commit.transitions)
    audit_rows.insert_audit(connection, map(audit_rows.of_transition, commit.transitions))
    duplicates = [plan.id for plan in commit.plans if not action_rows.insert_plan(connection, plan)]
    audit_rows.insert_audit(connection, map(audit_rows.of_refusal, commit.refusals))
    refused = []
    for batch in commit.spools:
        stored = ledger_rows.book_spool(connection, batch)
        if stored is not None:
            _log.warning(
                "spool of %s: read from byte %s, booked up to %s; not booked",
                batch.gateway,
                batch.start_bytes,
                stored,
            )
            refused.append((batch.gateway, stored))
    ledger_rows.add_costs(connection, commit.costs)
    meta_rows.set_meta(connection, meta_rows.LAST_TICK_AT, commit.at)
    if commit.carry is not None:
        meta_rows.set_meta(connection, meta_rows.CARRY, dict(commit.carry))
    return Committed(tuple(duplicates), tuple(refused))


def _opened(path: Path, tuning: Tuning) -> tuple[Database, dict[AlertKey, AlertState]]:
    database = Database(path, Which.STATE, tuning)
    try:
        with database.reading() as connection:
            return database, alert_rows.stored_alerts(connection)
    except BaseException:
        database.dispose()
        raise
