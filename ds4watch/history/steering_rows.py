"""Statements on actions on workers: those of late, those that persons or time decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, or_, select, update

from ds4watch.history.action_rows import action_record
from ds4watch.history.audit_rows import insert_audit
from ds4watch.history.group_rows import action_note, insert_notes
from ds4watch.history.rows import ActionRecord, AuditEntry, AuditKind, Verified
from ds4watch.history.state_models import actions
from ds4watch.model.action import ActionKind, ActionStatus
from ds4watch.model.ports import UnixSeconds

MOST_ACTIONS = 2000
_LIVE = (
    ActionStatus.WAITING,
    ActionStatus.PLANNED,
    ActionStatus.RUNNING,
    ActionStatus.APPLIED,
    ActionStatus.UNKNOWN,
)


def steering_actions(connection: Connection, since: UnixSeconds) -> list[ActionRecord]:
    """Return the actions on workers that are not over, or were planned since then, oldest first."""
    is_live = actions.c.status.in_([status.value for status in _LIVE])
    query = (
        select(actions)
        .where(actions.c.kind != ActionKind.SET_LEVEL.value)
        .where(or_(is_live, actions.c.planned_at >= since))
        .order_by(actions.c.planned_at.desc(), actions.c.id)
        .limit(MOST_ACTIONS)
    )
    return [action_record(row) for row in connection.execute(query)][::-1]


def decide_action(
    connection: Connection, action: str, status: ActionStatus, who: str, at: UnixSeconds, why: str
) -> bool:
    """End the waiting of an action for a person; False if it waits no longer.

    A yes is taken only before the action expires, in this very transaction.
    """
    waits = (actions.c.id == action) & (actions.c.status == ActionStatus.WAITING.value)
    if status is ActionStatus.PLANNED:
        waits &= actions.c.expires_at > at
    values: dict[str, Any] = {"status": status.value, "decided_by": who or None}
    if status is not ActionStatus.PLANNED:
        values |= {"finished_at": at, "detail": why}
    row = connection.execute(select(actions.c.kind, actions.c.target).where(waits)).one_or_none()
    if (
        row is None
        or not connection.execute(update(actions).where(waits).values(**values)).rowcount
    ):
        return False
    word = "approved" if status is ActionStatus.PLANNED else status.value
    told = f"{row.kind} on {row.target}: {word}" + (f" by {who}" if who else "")
    entry = AuditEntry(
        at=at,
        kind=AuditKind.APPROVAL,
        subject=row.target,
        summary=f"{told}: {why}" if why else told,
        detail={"id": action, "status": status.value},
        who=who,
    )
    insert_audit(connection, [entry])
    if status is ActionStatus.PLANNED:
        begun = connection.execute(select(actions).where(actions.c.id == action)).one()
        insert_notes(connection, [action_note(action_record(begun).plan)])
    return True


def save_verdicts(connection: Connection, verdicts: Sequence[Verified]) -> None:
    """Write what came of actions, each with its audit row."""
    for it in verdicts:
        changed = connection.execute(
            update(actions)
            .where(actions.c.id == it.action, actions.c.verified_at.is_(None))
            .values(verified_at=it.at, helped=it.helped)
        )
        if changed.rowcount:
            detail = {"id": it.action, "helped": it.helped, "after": dict(it.after)}
            entry = AuditEntry(it.at, AuditKind.EFFECT, it.target, it.told, detail)
            insert_audit(connection, [entry])
