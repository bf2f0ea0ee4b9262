"""Statements on single values, workers and quality runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select

from ds4watch.history import sql
from ds4watch.history.quality_models import quality_runs
from ds4watch.history.quality_values import QualityRun
from ds4watch.history.state_models import meta, workers
from ds4watch.model.worker import WorkerPhase, WorkerView

LAST_TICK_AT = "last_tick_at"
POLICY = "policy"
CARRY = "carry"


def set_meta(connection: Connection, name: str, value: Any) -> None:
    """Keep a JSON value under a name; None is no value, and no row."""
    if value is None:
        connection.execute(delete(meta).where(meta.c.name == name))
    else:
        sql.replace(connection, meta, [{"name": name, "value": value}])


def all_meta(connection: Connection) -> dict[str, Any]:
    """Return every such value."""
    return {row.name: row.value for row in connection.execute(select(meta))}


def save_policy(connection: Connection, document: Mapping[str, Any]) -> None:
    """Keep the service policy, `version` included."""
    set_meta(connection, POLICY, dict(document))


def save_workers(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write how workers stand."""
    sql.replace(connection, workers, rows)


def worker_row(view: WorkerView) -> dict[str, Any]:
    """Return what is kept of a worker."""
    return {
        "id": view.id,
        "profile": view.profile,
        "pid": view.pid,
        "url": view.url,
        "phase": view.phase.value,
        "since": view.since,
        "reason": view.reason,
    }


def stored_workers(connection: Connection) -> list[WorkerView]:
    """Return how workers stood; what they serve is not kept."""
    return [
        WorkerView(
            id=row.id,
            profile=row.profile,
            models=(),
            url=row.url,
            phase=WorkerPhase(row.phase),
            since=row.since,
            reason=row.reason,
            pid=row.pid,
        )
        for row in connection.execute(select(workers).order_by(workers.c.id))
    ]


def insert_quality(connection: Connection, run: QualityRun) -> None:
    """Write a quality run."""
    connection.execute(
        insert(quality_runs).values(
            at=run.at,
            profile=run.profile,
            reference=run.reference,
            metric=run.metric,
            value=run.value,
            prompts=run.prompts,
            tokens=run.tokens,
            took_seconds=run.took_seconds,
            error=run.error,
        )
    )


def latest_quality(connection: Connection) -> list[QualityRun]:
    """Return the newest run of each profile, reference and metric."""
    newest = select(func.max(quality_runs.c.id)).group_by(
        quality_runs.c.profile, quality_runs.c.reference, quality_runs.c.metric
    )
    query = select(quality_runs).where(quality_runs.c.id.in_(newest)).order_by(quality_runs.c.id)
    return [_run(row) for row in connection.execute(query)]


def quality_page(
    connection: Connection, limit: int, before_id: int | None, profile: str | None
) -> list[tuple[int, QualityRun]]:
    """Return runs with their ids, newest first."""
    query = select(quality_runs).order_by(quality_runs.c.id.desc()).limit(limit)
    if before_id is not None:
        query = query.where(quality_runs.c.id < before_id)
    if profile is not None:
        query = query.where(quality_runs.c.profile == profile)
    return [(row.id, _run(row)) for row in connection.execute(query)]


def _run(row: Row[Any]) -> QualityRun:
    return QualityRun(
        at=row.at,
        profile=row.profile,
        reference=row.reference,
        metric=row.metric,
        value=row.value,
        prompts=row.prompts,
        tokens=row.tokens,
        took_seconds=row.took_seconds,
        error=row.error,
    )
