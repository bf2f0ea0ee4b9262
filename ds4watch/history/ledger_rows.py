"""Statements on the ledger: requests and money, added up by the hour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, delete, func, select

from ds4watch.history import ledger_parts, sql
from ds4watch.history.ledger_models import (
    cost_hourly,
    requests_hourly,
    retries_hourly,
    spool_offsets,
)
from ds4watch.history.ledger_values import CostRow, RequestTotal, RequestTotals, SpoolBatch, WorkRow
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.usage import RequestOutcome, RequestRecord, RetryReason, Usage
from ds4watch.model.work import Place, Work, works_of

_Sums = dict[tuple[Any, ...], dict[str, float]]

HOUR_SECONDS = 3600
UNKNOWN_MODEL = "unknown"


def hour_of(at: UnixSeconds) -> UnixSeconds:
    """Return the start of an instant's hour, in UTC."""
    return float(at // HOUR_SECONDS * HOUR_SECONDS)


def book_spool(connection: Connection, batch: SpoolBatch) -> int | None:
    """Book a batch and move the gateway's offset; exactly once.

    Returns None if it was booked, or the stored offset if the batch does not begin there.
    """
    stored = stored_offsets(connection).get(batch.gateway, 0)
    if stored != batch.start_bytes:
        return stored
    requests: _Sums = {}
    retries: _Sums = {}
    works: dict[tuple[UnixSeconds, Place], Work] = {}
    for record in batch.records:
        hour_at = hour_of(record.ended_at)
        _add(requests, _request_key(record), _counts(record))
        for place, work in works_of(record):
            works[hour_at, place] = works.get((hour_at, place), Work()).plus(work)
        for worker, reason in record.retries:
            _add(retries, (hour_at, worker, reason.value), {"retries": 1})
    sql.add(connection, requests_hourly, _rows(requests_hourly.primary_key, requests))
    sql.add(connection, retries_hourly, _rows(retries_hourly.primary_key, retries))
    ledger_parts.add_work(connection, works)
    set_offsets(connection, {batch.gateway: batch.end_bytes})
    return None


def set_offsets(connection: Connection, offsets: Mapping[str, int]) -> None:
    """Write up to which byte spools are booked."""
    rows = [{"gateway": name, "offset_bytes": at} for name, at in offsets.items()]
    sql.replace(connection, spool_offsets, rows)


def stored_offsets(connection: Connection) -> dict[str, int]:
    """Return up to which byte each gateway's spool is booked."""
    return {row.gateway: row.offset_bytes for row in connection.execute(select(spool_offsets))}


def forget_spool(connection: Connection, gateway: str) -> None:
    """Forget how far a spool was read: its file is gone or begins anew."""
    connection.execute(delete(spool_offsets).where(spool_offsets.c.gateway == gateway))


def add_costs(connection: Connection, costs: Iterable[CostRow]) -> None:
    """Add money to the hours it was spent in."""
    sums: Counter[tuple[UnixSeconds, str, str, str]] = Counter()
    for cost in costs:
        sums[hour_of(cost.hour_at), cost.worker, cost.profile, cost.part] += cost.nanos
    rows = [
        {"hour_at": hour_at, "worker": worker, "profile": profile, "part": part, "nanos": nanos}
        for (hour_at, worker, profile, part), nanos in sums.items()
    ]
    sql.add(connection, cost_hourly, rows)


def cost_between(
    connection: Connection, start_at: UnixSeconds, end_at: UnixSeconds
) -> list[CostRow]:
    """Return the hours that begin in [start_at, end_at)."""
    query = (
        select(cost_hourly)
        .where(cost_hourly.c.hour_at >= start_at, cost_hourly.c.hour_at < end_at)
        .order_by(*cost_hourly.primary_key)
    )
    return [
        CostRow(row.hour_at, row.worker, row.profile, row.part, row.nanos)
        for row in connection.execute(query)
    ]


def work_between(
    connection: Connection, start_at: UnixSeconds, end_at: UnixSeconds
) -> list[WorkRow]:
    """Return tokens by hour, key and model of the hours that begin in [start_at, end_at)."""
    table = requests_hourly.c
    by = (table.hour_at, table.key, table.model)
    sums = (table.requests, table.prompt_tokens, table.cached_tokens, table.completion_tokens)
    query = (
        select(*by, *(func.sum(column) for column in sums))
        .where(table.hour_at >= start_at, table.hour_at < end_at)
        .group_by(*by)
        .order_by(*by)
    )
    return [
        WorkRow(hour_at, key, model, int(requests), Usage(*(int(count) for count in tokens)))
        for hour_at, key, model, requests, *tokens in connection.execute(query)
    ]


def spent_total(connection: Connection) -> Nanos:
    """Return all money ever booked."""
    return int(connection.execute(select(func.sum(cost_hourly.c.nanos))).scalar() or 0)


def request_totals(connection: Connection) -> RequestTotals:
    """Return requests by outcome and model, and retries by reason, since the ledger began."""
    table = requests_hourly.c
    sums = (table.requests, table.prompt_tokens, table.cached_tokens, table.completion_tokens)
    requests = connection.execute(
        select(table.outcome, table.model, *(func.sum(column) for column in sums))
        .group_by(table.outcome, table.model)
        .order_by(table.outcome, table.model)
    )
    retries = connection.execute(
        select(retries_hourly.c.reason, func.sum(retries_hourly.c.retries))
        .group_by(retries_hourly.c.reason)
        .order_by(retries_hourly.c.reason)
    )
    return RequestTotals(
        requests=tuple(
            RequestTotal(RequestOutcome(outcome), model, *(int(count) for count in counts))
            for outcome, model, *counts in requests
        ),
        retries=tuple((RetryReason(reason), int(count)) for reason, count in retries),
    )


def _request_key(record: RequestRecord) -> tuple[UnixSeconds, str, str, str, str, str, str]:
    return (
        hour_of(record.ended_at),
        record.key,
        # Never the model asked for: clients could fill the table with names.
        record.model_served or UNKNOWN_MODEL,
        record.worker,
        record.profile,
        record.work_class,
        record.outcome.value,
    )


def _counts(record: RequestRecord) -> dict[str, float]:
    usage, stages = record.usage or Usage(), record.stages()
    return {
        "requests": 1,
        "estimated": int(record.estimated),
        "unmetered": int(record.usage is None),
        "prompt_tokens": usage.prompt,
        "cached_tokens": usage.cached,
        "completion_tokens": usage.completion,
        "worker_prompt_tokens": usage.prompt * record.choices,
        "retries": len(record.retries),
        "degraded": int(bool(record.degraded)),
        "filtered": int(bool(record.filter)),
        "queue_seconds": stages.queue_seconds,
        "lost_seconds": stages.lost_seconds,
        "prefill_seconds": stages.prefill_seconds,
        "decode_seconds": stages.decode_seconds,
        "unsplit_seconds": stages.unsplit_seconds,
    }


def _add(sums: _Sums, key: tuple[Any, ...], counts: Mapping[str, float]) -> None:
    into = sums.setdefault(key, {})
    for name, value in counts.items():
        into[name] = into.get(name, 0) + value


def _rows(key: Iterable[Any], sums: _Sums) -> list[dict[str, Any]]:
    names = [column.name for column in key]
    return [dict(zip(names, values, strict=True)) | counts for values, counts in sums.items()]
