"""What a tick writes, and what a daemon goes on from."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from ds4watch.history import (
    action_rows,
    alert_rows,
    audit_rows,
    group_rows,
    ledger_parts,
    ledger_rows,
    meta_rows,
    outbox_rows,
)
from ds4watch.history.alert_rows import AlertKey
from ds4watch.history.rows import Committed, RestoredState, TickCommit
from ds4watch.model.action import ActionStatus
from ds4watch.model.alert import AlertState
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerView

_log = logging.getLogger(__name__)


class Written:
    """What is stored of alerts and workers, so that a tick writes only what changed."""

    def __init__(self, alerts: dict[AlertKey, AlertState]) -> None:
        # None: not known for certain.
        self._alerts: dict[AlertKey, AlertState] | None = alerts
        self._workers: dict[str, dict[str, Any]] = {}
        self._unsure: TickCommit | None = None

    def forget(self) -> None:
        """Take nothing for stored: the database is a new one."""
        self._alerts, self._workers, self._unsure = None, {}, None

    def doubt(self, commit: TickCommit) -> None:
        """Note that a tick may have been stored although its answer was lost."""
        self._alerts, self._unsure = None, commit

    def note(self, commit: TickCommit) -> None:
        """Note that a tick was stored."""
        self._unsure = None
        if commit.alerts is not None:
            self._alerts = _by_key(commit.alerts)
        self.note_workers(commit.workers)

    def note_workers(self, views: Sequence[WorkerView]) -> None:
        """Note that workers were stored."""
        self._workers.update((view.id, meta_rows.worker_row(view)) for view in views)

    def save_tick(self, connection: Connection, commit: TickCommit) -> Committed:
        """Write everything that a tick decided, and say what had been there before."""
        if self._unsure is not None:
            take_back_costs(connection, self._unsure)
        if commit.alerts is not None:
            self._save_alerts(connection, _by_key(commit.alerts))
        self.save_workers(connection, commit.workers)
        return store_tick(connection, commit)

    def save_workers(self, connection: Connection, views: Sequence[WorkerView]) -> None:
        """Write the workers that changed."""
        rows = [meta_rows.worker_row(view) for view in views]
        meta_rows.save_workers(
            connection, [row for row in rows if self._workers.get(row["id"]) != row]
        )

    def _save_alerts(self, connection: Connection, states: dict[AlertKey, AlertState]) -> None:
        stored = self._alerts
        if stored is None:
            stored = alert_rows.stored_alerts(connection)
        changed = [state for key, state in states.items() if stored.get(key) != state]
        alert_rows.save_alerts(connection, changed, stored.keys() - states.keys())


def restored_state(connection: Connection, now: UnixSeconds) -> RestoredState:
    """Return what a daemon goes on from, and let go of what a dead one was sending."""
    if released := outbox_rows.release(connection):
        _log.warning("%s notifications may be sent twice: a daemon died sending", released)
    return stored_state(connection, now)


def stored_state(connection: Connection, now: UnixSeconds) -> RestoredState:
    """Return how everything stands."""
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


def take_back_costs(connection: Connection, unsure: TickCommit) -> None:
    """Take back the costs of a tick if it was stored; the next one brings them again."""
    if meta_rows.all_meta(connection).get(meta_rows.LAST_TICK_AT) == unsure.at:
        ledger_rows.add_costs(
            connection, [replace(cost, nanos=-cost.nanos) for cost in unsure.costs]
        )
        ledger_parts.add_paid(
            connection, [replace(it, paid_ms=-it.paid_ms, nanos=-it.nanos) for it in unsure.paid]
        )


def store_tick(connection: Connection, commit: TickCommit) -> Committed:
    """Write what a tick decided, but for the states, and say what had been there before."""
    alert_rows.insert_events(connection, commit.transitions)
    alert_rows.insert_messages(connection, commit.messages)
    audit_rows.insert_audit(connection, audit_rows.of_transitions(commit.transitions))
    duplicates = [plan.id for plan in commit.plans if not action_rows.insert_plan(connection, plan)]
    claimed = [
        plan.id
        for plan in (commit.plans if commit.claims else ())
        if plan.id not in duplicates and action_rows.claim_plan(connection, plan, commit.at)
    ]
    # What waits for a person's yes is told when it is begun; they are asked until then.
    is_begun = ActionStatus.PLANNED
    begun = [it for it in commit.plans if it.first_status is is_begun and it.id not in duplicates]
    group_rows.insert_notes(connection, [group_rows.action_note(it) for it in begun])
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
    ledger_parts.add_paid(connection, commit.paid)
    meta_rows.set_meta(connection, meta_rows.LAST_TICK_AT, commit.at)
    if commit.carry is not None:
        meta_rows.set_meta(connection, meta_rows.CARRY, dict(commit.carry))
    return Committed(tuple(duplicates), tuple(claimed), tuple(refused))


def _by_key(alerts: Sequence[AlertState]) -> dict[AlertKey, AlertState]:
    return {alert_rows.key_of(state): state for state in alerts}
