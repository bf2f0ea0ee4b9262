"""Statements on workers: what a person wishes of them, and how long they took to come up."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from ds4watch.history import audit_rows, sql
from ds4watch.history.rows import AuditEntry, AuditKind, StartTime, WorkerWish
from ds4watch.history.state_models import start_times, worker_wishes

STARTS_KEPT = 10
"""Of each profile."""


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
