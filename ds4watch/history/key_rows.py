"""Statements on API keys, and on what the ledger says they used."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from ds4watch.history import audit_rows, sql
from ds4watch.history.asked_values import StoredKey
from ds4watch.history.ledger_models import cost_hourly, requests_hourly
from ds4watch.history.rows import AuditEntry
from ds4watch.history.state_models import api_keys
from ds4watch.model.key_budget import KeyBudget, KeyUse
from ds4watch.model.key_limits import KeyLimits
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.usage import Usage

BUSY = ("busy", "prefill", "decode")
"""The parts of a worker's cost that requests are to blame for."""


def save_key(connection: Connection, key: StoredKey, entry: AuditEntry) -> None:
    """Write a key in place of the one of its name, with its audit row."""
    row = {
        "name": key.name,
        "sha256": key.sha256,
        "signing": key.signing,
        "limits": key.limits.as_json(),
        "budget": key.budget.as_json(),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "old_sha256": key.old_sha256,
        "old_until_at": key.old_until_at,
    }
    sql.replace(connection, api_keys, [row])
    audit_rows.insert_audit(connection, (entry,))


def stored_keys(connection: Connection) -> list[StoredKey]:
    """Return every key that ever was, by name."""
    return [
        StoredKey(
            name=row.name,
            sha256=row.sha256,
            signing=row.signing,
            limits=KeyLimits.from_json(row.limits),
            budget=KeyBudget.from_json(row.budget),
            created_at=row.created_at,
            expires_at=row.expires_at,
            revoked_at=row.revoked_at,
            old_sha256=row.old_sha256,
            old_until_at=row.old_until_at,
        )
        for row in connection.execute(select(api_keys).order_by(api_keys.c.name))
    ]


def key_use(connection: Connection, start_at: UnixSeconds) -> list[KeyUse]:
    """Return the tokens of each hour from `start_at` on, by key and worker."""
    table = requests_hourly.c
    sums = (table.prompt_tokens, table.cached_tokens, table.completion_tokens)
    query = (
        select(table.hour_at, table.worker, table.key, *(func.sum(column) for column in sums))
        .where(table.hour_at >= start_at)
        .group_by(table.hour_at, table.worker, table.key)
    )
    return [
        KeyUse(hour_at, worker, key, Usage(*(int(count) for count in counts)))
        for hour_at, worker, key, *counts in connection.execute(query)
    ]


def busy_costs(
    connection: Connection, start_at: UnixSeconds
) -> dict[tuple[UnixSeconds, str], Nanos]:
    """Return the money of each hour from `start_at` on in which a worker was busy."""
    table = cost_hourly.c
    query = (
        select(table.hour_at, table.worker, func.sum(table.nanos))
        .where(table.hour_at >= start_at, table.part.in_(BUSY))
        .group_by(table.hour_at, table.worker)
    )
    return {(hour_at, worker): int(nanos) for hour_at, worker, nanos in connection.execute(query)}
