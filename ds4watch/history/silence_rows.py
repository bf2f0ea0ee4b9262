"""Statements on silences."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from ds4watch.history.audit_rows import insert_audit
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.history.state_models import silences
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.silence import LabelTest, Silence

_MOST_TOLD_CHARS = 200


def place(connection: Connection, silence: Silence) -> None:
    """Write a silence and its audit row."""
    connection.execute(
        insert(silences).values(
            id=silence.id,
            matchers=[[it.name, it.op, it.value] for it in silence.matchers],
            starts_at=silence.starts_at,
            ends_at=silence.ends_at,
            who=silence.who,
            why=silence.why,
            placed_at=silence.placed_at,
        )
    )
    summary = f"silence on {_told(silence)} by {silence.who}: {silence.why}"
    entry = _entry(silence, silence.placed_at, silence.who, summary)
    insert_audit(connection, [entry])


def expire(connection: Connection, silence_id: str, who: str, at: UnixSeconds) -> Silence | None:
    """End a silence that is in force or to come; None if there is no such one."""
    found = one(connection, silence_id)
    if found is None or found.ends_at <= at:
        return None
    connection.execute(
        update(silences).where(silences.c.id == silence_id).values(ends_at=at, ended_by=who)
    )
    summary = f"silence on {_told(found)} ended by {who}"
    insert_audit(connection, [_entry(found, at, who, summary)])
    return one(connection, silence_id)


def one(connection: Connection, silence_id: str) -> Silence | None:
    """Return a silence by its id."""
    row = connection.execute(select(silences).where(silences.c.id == silence_id)).one_or_none()
    return None if row is None else _silence(row)


def not_over(connection: Connection, now: UnixSeconds) -> tuple[Silence, ...]:
    """Return the silences in force and to come, the oldest first."""
    query = select(silences).where(silences.c.ends_at > now)
    rows = connection.execute(query.order_by(silences.c.starts_at, silences.c.id))
    return tuple(_silence(row) for row in rows)


def ended(connection: Connection, now: UnixSeconds, limit: int) -> tuple[Silence, ...]:
    """Return silences that are over, those that ended last first."""
    query = select(silences).where(silences.c.ends_at <= now)
    rows = connection.execute(query.order_by(silences.c.ends_at.desc()).limit(limit))
    return tuple(_silence(row) for row in rows)


def _told(silence: Silence) -> str:
    return ", ".join(str(it) for it in silence.matchers)[:_MOST_TOLD_CHARS]


def _entry(silence: Silence, at: UnixSeconds, who: str, summary: str) -> AuditEntry:
    detail = {"id": silence.id, "ends_at": silence.ends_at}
    return AuditEntry(at, AuditKind.SILENCE, silence.id, summary, detail, who)


def _silence(row: Row[Any]) -> Silence:
    return Silence(
        id=row.id,
        matchers=tuple(LabelTest(*it) for it in row.matchers),
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        who=row.who,
        why=row.why,
        placed_at=row.placed_at if row.placed_at is not None else row.starts_at,
        ended_by=row.ended_by or "",
    )
