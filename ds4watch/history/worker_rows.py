"""Statements on workers: wishes of persons, start-up times, rolling changes of them all."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, insert, select

from ds4watch.history import audit_rows, sql
from ds4watch.history.asked_values import RollingChange, WorkerWish
from ds4watch.history.rows import AuditEntry, AuditKind, StartTime
from ds4watch.history.state_models import rolling_changes, start_times, worker_wishes

STARTS_KEPT = 10
"""Of each profile."""
CHANGES_KEPT = 20


def save_wish(connection: Connection, wish: WorkerWish, told: str) -> None:
    """Write what a person wishes of a worker in place of what was wished before, and tell it."""
    row = {
        "worker": wish.worker,
        "wish": wish.wish,
        "restart_at": wish.restart_at,
        "pardon_at": wish.pardon_at,
        "who": wish.who,
        "why": wish.why,
        "at": wish.at,
    }
    sql.replace(connection, worker_wishes, [row])
    entry = AuditEntry(
        wish.at, AuditKind.WORKER, wish.worker, told, {"why": wish.why}, who=wish.who
    )
    audit_rows.insert_audit(connection, (entry,))


def stored_wishes(connection: Connection) -> list[WorkerWish]:
    """Return what a person wishes of each worker."""
    return [
        WorkerWish(
            worker=row.worker,
            wish=row.wish,
            restart_at=row.restart_at,
            pardon_at=row.pardon_at,
            who=row.who,
            why=row.why,
            at=row.at,
        )
        for row in connection.execute(select(worker_wishes).order_by(worker_wishes.c.worker))
    ]


def insert_start_time(connection: Connection, start: StartTime) -> None:
    """Write how long a start took; of a profile's the oldest go."""
    connection.execute(
        insert(start_times).values(
            at=start.at,
            profile=start.profile,
            worker=start.worker,
            took_seconds=start.took_seconds,
        )
    )
    newest = (
        select(start_times.c.id)
        .where(start_times.c.profile == start.profile)
        .order_by(start_times.c.id.desc())
        .limit(STARTS_KEPT)
    )
    is_old = start_times.c.id.not_in(newest) & (start_times.c.profile == start.profile)
    connection.execute(delete(start_times).where(is_old))


def stored_start_times(connection: Connection) -> list[StartTime]:
    """Return the last starts of every profile, oldest first."""
    return [
        StartTime(row.at, row.profile, row.worker, row.took_seconds)
        for row in connection.execute(select(start_times).order_by(start_times.c.id))
    ]


def save_rolling(
    connection: Connection, change: RollingChange, entries: Iterable[AuditEntry]
) -> None:
    """Write how far a rolling change is, with its audit rows; the oldest changes go."""
    names = [column.name for column in rolling_changes.columns]
    row = {name: getattr(change, name) for name in names} | {"document": dict(change.document)}
    sql.replace(connection, rolling_changes, [row])
    audit_rows.insert_audit(connection, entries)
    is_old = rolling_changes.c.number <= change.number - CHANGES_KEPT
    connection.execute(delete(rolling_changes).where(is_old))


def last_rolling(connection: Connection) -> RollingChange | None:
    """Return the rolling change that was begun last."""
    query = select(rolling_changes).order_by(rolling_changes.c.number.desc()).limit(1)
    row = connection.execute(query).first()
    if row is None:
        return None
    return RollingChange(
        number=row.number,
        plan=row.plan,
        status=row.status,
        who=row.who,
        why=row.why,
        begun_at=row.begun_at,
        updated_at=row.updated_at,
        own=row.own,
        document=row.document,
    )
