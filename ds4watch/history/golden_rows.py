"""Statements on golden runs and the answers given in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import Connection, and_, func, insert, select, update

from ds4watch.history import sql
from ds4watch.history.audit_rows import insert_audit
from ds4watch.history.quality_models import golden_answers, golden_runs
from ds4watch.history.quality_values import GoldenAnswer, GoldenRun, GoldenStatus
from ds4watch.history.rows import AuditEntry
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds

ANSWER_CHARACTERS = 2000
"""Of an answer so much is kept: its end, where the result stands."""


def begin(connection: Connection, run: GoldenRun, entry: AuditEntry) -> int:
    """Write a new run; its id is given here."""
    values = asdict(run)
    del values["id"]
    insert_audit(connection, (entry,))
    key = connection.execute(insert(golden_runs).values(**values)).inserted_primary_key
    assert key is not None
    return int(key[0])


def save(connection: Connection, run: GoldenRun, entries: Sequence[AuditEntry]) -> None:
    """Write how far a run is; what it cost is added up with the answers."""
    changed = update(golden_runs).where(golden_runs.c.id == run.id)
    connection.execute(
        changed.values(
            status=run.status.value,
            told=run.told,
            ended_at=run.ended_at,
            budget_nanos=run.budget_nanos,
        )
    )
    if entries:
        insert_audit(connection, entries)


def add_answer(connection: Connection, answer: GoldenAnswer) -> None:
    """Write an answer once."""
    row = asdict(answer) | {"answer": answer.answer[-ANSWER_CHARACTERS:]}
    if sql.insert_new(connection, golden_answers, row):
        add_cost(connection, answer.run, answer.nanos)


def add_cost(connection: Connection, run: int, nanos: Nanos) -> None:
    """Add to what a run cost."""
    changed = update(golden_runs).where(golden_runs.c.id == run)
    connection.execute(changed.values(spent_nanos=golden_runs.c.spent_nanos + nanos))


def newest(connection: Connection, limit: int) -> list[GoldenRun]:
    """Return the newest runs, newest first."""
    query = select(golden_runs).order_by(golden_runs.c.id.desc()).limit(limit)
    return [
        GoldenRun(**{**row._mapping, "status": GoldenStatus(row.status)})  # noqa: SLF001 - SQLAlchemy's public name
        for row in connection.execute(query)
    ]


def answered(connection: Connection, run: int) -> dict[str, dict[str, bool]]:
    """Return whether each answer of a run was right, by profile and question."""
    table = golden_answers
    query = select(table.c.profile, table.c.question, table.c.is_right).where(table.c.run == run)
    found: dict[str, dict[str, bool]] = {}
    for profile, question, is_right in connection.execute(query):
        found.setdefault(profile, {})[question] = is_right
    return found


def newest_answers(connection: Connection, since_at: UnixSeconds) -> list[GoldenAnswer]:
    """Return each profile's newest answer to each question since then."""
    table = golden_answers
    last = (
        select(table.c.profile, table.c.question, func.max(table.c.run).label("run"))
        .where(table.c.at >= since_at)
        .group_by(table.c.profile, table.c.question)
        .subquery()
    )
    query = select(table).join(
        last,
        and_(
            table.c.profile == last.c.profile,
            table.c.question == last.c.question,
            table.c.run == last.c.run,
        ),
    )
    return [GoldenAnswer(**row._mapping) for row in connection.execute(query)]  # noqa: SLF001 - SQLAlchemy's public name
