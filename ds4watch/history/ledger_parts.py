"""Statements on what goes with the ledger's money: prices paid, work, parts, storage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Connection, delete, func, select

from ds4watch.cost.attribution import CostPart
from ds4watch.cost.parts import method_of
from ds4watch.cost.recent import worker_hours
from ds4watch.history import sql
from ds4watch.history.ledger_models import (
    cost_hourly,
    cost_parts_hourly,
    paid_hourly,
    storage_hourly,
    work_hourly,
)
from ds4watch.history.ledger_values import PaidRow, PlacedWork, StorageRow
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.work import Place, Work

_HOUR_SECONDS = 3600
_WORK = tuple(item.name for item in fields(Work))


def add_work(connection: Connection, works: Mapping[tuple[UnixSeconds, Place], Work]) -> None:
    """Add to hours what requests took of workers."""
    rows = [
        {"hour_at": hour_at, **place._asdict(), **asdict(work)}
        for (hour_at, place), work in works.items()
    ]
    sql.add(connection, work_hourly, rows)


def add_paid(connection: Connection, paid: Iterable[PaidRow]) -> None:
    """Add to hours what was paid."""
    sums: dict[tuple[UnixSeconds, str, str, Nanos], list[int]] = {}
    for it in paid:
        key = (it.hour_at, it.worker, it.profile, it.nanos_per_hour)
        into = sums.setdefault(key, [0, 0])
        into[0] += it.paid_ms
        into[1] += it.nanos
    names = [column.name for column in paid_hourly.columns]
    rows = [dict(zip(names, (*key, *values), strict=True)) for key, values in sums.items()]
    sql.add(connection, paid_hourly, rows)


def works_between(
    connection: Connection, start_at: UnixSeconds, end_at: UnixSeconds | None = None
) -> list[PlacedWork]:
    """Return what requests took, of the hours that begin in [start_at, end_at)."""
    table = work_hourly
    query = select(table).where(table.c.hour_at >= start_at).order_by(*table.primary_key)
    if end_at is not None:
        query = query.where(table.c.hour_at < end_at)
    return [
        PlacedWork(
            row.hour_at,
            Place(row.worker, row.profile, row.band),
            Work(*(int(getattr(row, name)) for name in _WORK)),
        )
        for row in connection.execute(query)
    ]


def last_served(connection: Connection) -> dict[str, UnixSeconds]:
    """Return the end of the last hour in which each worker had requests."""
    table = work_hourly.c
    query = select(table.worker, func.max(table.hour_at)).group_by(table.worker)
    return {worker: hour_at + _HOUR_SECONDS for worker, hour_at in connection.execute(query)}


def settle(connection: Connection, start_at: UnixSeconds) -> int:
    """Make the parts of the hours from `start_at` on anew; return how many rows."""
    rows = list(_parts(connection, start_at))
    connection.execute(delete(cost_parts_hourly).where(cost_parts_hourly.c.hour_at >= start_at))
    sql.add(connection, cost_parts_hourly, rows)
    return len(rows)


def _parts(connection: Connection, start_at: UnixSeconds) -> Iterator[dict[str, Any]]:
    money = connection.execute(select(cost_hourly).where(cost_hourly.c.hour_at >= start_at))
    hours = worker_hours(
        (((it.hour_at, it.worker, it.profile), CostPart(it.part), it.nanos) for it in money),
        ((it.hour_at, it.place, it.work) for it in works_between(connection, start_at)),
    )
    for (hour_at, worker, profile), hour in hours.items():
        found = hour.parts()
        for part, nanos in found.nanos.items():
            yield {
                "hour_at": hour_at,
                "worker": worker,
                "profile": profile,
                "part": part.value,
                "method": method_of(part, found.method),
                "nanos": nanos,
            }


def add_storage(connection: Connection, rows: Iterable[StorageRow]) -> None:
    """Add to hours what was kept in them."""
    sums: Counter[tuple[UnixSeconds, str, Nanos]] = Counter()
    for it in rows:
        hour_at = float(it.hour_at // _HOUR_SECONDS * _HOUR_SECONDS)
        sums[hour_at, it.what, it.nanos_per_gb_hour] += it.byte_seconds
    names = [column.name for column in storage_hourly.columns]
    values = [dict(zip(names, (*key, total), strict=True)) for key, total in sums.items()]
    sql.add(connection, storage_hourly, values)


def storage_between(
    connection: Connection, start_at: UnixSeconds, end_at: UnixSeconds
) -> list[StorageRow]:
    """Return what was kept in the hours that begin in [start_at, end_at)."""
    table = storage_hourly
    query = (
        select(table)
        .where(table.c.hour_at >= start_at, table.c.hour_at < end_at)
        .order_by(*table.primary_key)
    )
    return [
        StorageRow(row.hour_at, row.what, row.nanos_per_gb_hour, int(row.byte_seconds))
        for row in connection.execute(query)
    ]
