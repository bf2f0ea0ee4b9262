"""Statements on commands by which a person steers, and on answers kept for who asks again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from ds4watch.history import sql
from ds4watch.history.asked_values import Command, CommandStatus, GivenAnswer
from ds4watch.history.audit_rows import insert_audit
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.history.state_models import commands, given_answers
from ds4watch.model.ports import UnixSeconds

ANSWER_LIFE_SECONDS = 86_400.0
MOST_ANSWERS = 10_000


def ask(
    connection: Connection, kind: str, body: Mapping[str, Any], who: str, at: UnixSeconds
) -> Command:
    """Write what a person asks for, with its audit row."""
    row = {
        "at": at,
        "kind": kind,
        "who": who,
        "body": dict(body),
        "status": CommandStatus.WAITING.value,
        "told": "",
    }
    (number,) = connection.execute(insert(commands).returning(commands.c.id), row).one()
    why = f": {body['why']}" if body.get("why") else ""
    subject = str(body.get("action") or body.get("pool") or body.get("silence") or "")
    summary = f"{who} asks for {kind}{f' on {subject}' if subject else ''}{why}"
    detail = {"id": number, "kind": kind, "body": dict(body)}
    insert_audit(connection, [AuditEntry(at, AuditKind.COMMAND, subject, summary, detail, who)])
    return Command(number, at, kind, who, dict(body), CommandStatus.WAITING)


def waiting(connection: Connection) -> list[Command]:
    """Return what nobody has carried out yet, oldest first."""
    query = select(commands).where(commands.c.status == CommandStatus.WAITING.value)
    return [_command(row) for row in connection.execute(query.order_by(commands.c.id).limit(100))]


def finish(
    connection: Connection, number: int, status: CommandStatus, told: str, at: UnixSeconds
) -> bool:
    """Write what became of a command; False if that is known already."""
    done = connection.execute(
        update(commands)
        .where(commands.c.id == number, commands.c.status == CommandStatus.WAITING.value)
        .values(status=status.value, told=told, finished_at=at)
    )
    return done.rowcount > 0


def command(connection: Connection, number: int) -> Command | None:
    """Return a command by its id."""
    row = connection.execute(select(commands).where(commands.c.id == number)).one_or_none()
    return None if row is None else _command(row)


def answer(connection: Connection, who: str, key: str, now: UnixSeconds) -> GivenAnswer | None:
    """Return what was answered to who sent this key, if that is kept still."""
    found = connection.execute(
        select(given_answers).where(
            given_answers.c.who == who,
            given_answers.c.key == key,
            given_answers.c.at > now - ANSWER_LIFE_SECONDS,
        )
    ).mappings()
    row = found.one_or_none()
    return None if row is None else GivenAnswer(**row)


def keep_answer(connection: Connection, given: GivenAnswer) -> None:
    """Keep an answer; those too old, or too many, are let go."""
    old = given_answers.c.at <= given.at - ANSWER_LIFE_SECONDS
    connection.execute(delete(given_answers).where(old))
    surplus = (
        select(given_answers.c.at)
        .order_by(given_answers.c.at.desc())
        .offset(MOST_ANSWERS - 1)
        .limit(1)
    ).scalar_subquery()
    connection.execute(delete(given_answers).where(given_answers.c.at <= surplus))
    row = {name: getattr(given, name) for name in GivenAnswer.__slots__}
    sql.replace(connection, given_answers, [row])


def _command(row: Row[Any]) -> Command:
    return Command(
        id=row.id,
        at=row.at,
        kind=row.kind,
        who=row.who,
        body=row.body,
        status=CommandStatus(row.status),
        told=row.told,
        finished_at=row.finished_at,
    )
