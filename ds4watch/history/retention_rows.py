"""Statements that delete what is over and old, a slice at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Table,
    and_,
    delete,
    or_,
    select,
    tuple_,
)

from ds4watch.history import sql
from ds4watch.history.action_rows import in_force
from ds4watch.history.ledger_models import (
    cost_hourly,
    cost_parts_hourly,
    own_requests_hourly,
    paid_hourly,
    requests_hourly,
    retries_hourly,
    storage_hourly,
    work_hourly,
)
from ds4watch.history.outbox_rows import GIVEN_UP, SENT
from ds4watch.history.quality_models import golden_answers, golden_runs, quality_runs
from ds4watch.history.rows import Retention
from ds4watch.history.state_models import (
    actions,
    alert_events,
    audit,
    commands,
    holds,
    outbox,
    silences,
)
from ds4watch.model.action import ActionStatus
from ds4watch.model.ports import UnixSeconds

ROWS_PER_SLICE = 500
"""Deleted in some 10 ms."""
BEFORE = 0.0
"""The hour that stands for all hours no longer kept: 1970-01-01."""
_LEDGER = (
    requests_hourly,
    own_requests_hourly,
    retries_hourly,
    cost_hourly,
    paid_hourly,
    cost_parts_hourly,
    work_hourly,
    storage_hourly,
)
_KEPT_BY_NAME = frozenset(
    {"model", "outcome", "reason", "part", "work", "band", "what"}
    | {"nanos_per_hour", "nanos_per_gb_hour"}
)
_UNFINISHED = (ActionStatus.WAITING, ActionStatus.PLANNED, ActionStatus.RUNNING)

Slice = tuple[Table, ColumnElement[bool]]


def slices(keep: Retention, now: UnixSeconds) -> Iterator[Slice]:
    """Yield each table with the condition under which its rows are old."""
    before = now - keep.audit_seconds
    yield audit, audit.c.at < before
    yield alert_events, alert_events.c.at < before
    yield quality_runs, quality_runs.c.at < before
    yield golden_answers, golden_answers.c.at < before
    yield golden_runs, and_(golden_runs.c.at < before, golden_runs.c.ended_at.is_not(None))
    yield silences, silences.c.ends_at < before
    yield commands, commands.c.finished_at < before
    yield holds, or_(holds.c.until_at < before, holds.c.lifted_at < before)
    yield outbox, and_(outbox.c.status.in_((SENT, GIVEN_UP)), outbox.c.finished_at < before)
    yield (
        actions,
        and_(
            actions.c.planned_at < before,
            actions.c.status.not_in([status.value for status in _UNFINISHED]),
            actions.c.id.not_in(in_force()),
        ),
    )
    for table in _LEDGER:
        hour = table.c.hour_at
        yield table, and_(hour < now - keep.ledger_seconds, hour > BEFORE)


def delete_slice(connection: Connection, table: Table, is_old: ColumnElement[bool]) -> int:
    """Delete some of the old rows and return how many; sums of a ledger stay."""
    key = list(table.primary_key)
    oldest = select(*key).where(is_old).order_by(*key).limit(ROWS_PER_SLICE)
    if table in _LEDGER:
        rows = select(*table.columns).where(is_old).order_by(*key).limit(ROWS_PER_SLICE)
        sql.add(connection, table, _summed(table, connection.execute(rows).all()))
    place = key[0] if len(key) == 1 else tuple_(*key)
    return connection.execute(delete(table).where(place.in_(oldest))).rowcount


def _summed(table: Table, rows: Sequence[Row[Any]]) -> list[dict[str, Any]]:
    """Return the rows added up under BEFORE: by what the totals are asked for, nothing else."""
    sums: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = {column.name: _kept(column.name, row) for column in table.primary_key}
        into = sums.setdefault(tuple(key.values()), key)
        for column in table.columns:
            if not column.primary_key:
                into[column.name] = into.get(column.name, 0) + getattr(row, column.name)
    return list(sums.values())


def _kept(name: str, row: Row[Any]) -> Any:
    if name == "hour_at":
        return BEFORE
    return getattr(row, name) if name in _KEPT_BY_NAME else ""
