"""Statements on jobs: when each ran last, and what came of it."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from ds4watch.history import sql
from ds4watch.history.rows import JobRun
from ds4watch.history.state_models import jobs
from ds4watch.model.ports import UnixSeconds


def started(connection: Connection, name: str, at: UnixSeconds) -> None:
    """Write that a job began."""
    if not sql.insert_new(connection, jobs, {"name": name, "last_started_at": at}):
        connection.execute(update(jobs).where(jobs.c.name == name).values(last_started_at=at))


def finished(
    connection: Connection,
    name: str,
    at: UnixSeconds,
    took_seconds: float,
    result: str,
    ok: bool,  # noqa: FBT001 - handed on by position to the writer's thread
) -> None:
    """Write how a job ended."""
    values = {"last_finished_at": at, "took_seconds": took_seconds, "result": result, "ok": ok}
    if ok:
        values["last_succeeded_at"] = at
    connection.execute(update(jobs).where(jobs.c.name == name).values(**values))


def stored_jobs(connection: Connection) -> list[JobRun]:
    """Return every job that ever ran, by name."""
    return [
        JobRun(
            name=row.name,
            last_started_at=row.last_started_at,
            last_finished_at=row.last_finished_at,
            took_seconds=row.took_seconds,
            result=row.result or "",
            ok=row.ok,
            last_succeeded_at=row.last_succeeded_at,
        )
        for row in connection.execute(select(jobs).order_by(jobs.c.name))
    ]
