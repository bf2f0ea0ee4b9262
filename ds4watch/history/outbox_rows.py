"""Statements on the outbox: each message is claimed by one, and kept until somebody was told."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from ds4watch.history.rows import Notification
from ds4watch.history.state_models import outbox
from ds4watch.model.ports import UnixSeconds

WAITING, SENDING, SENT, GIVEN_UP = "waiting", "sending", "sent", "given_up"


def claim(connection: Connection, at: UnixSeconds) -> Notification | None:
    """Take the oldest message that is due, for one claimant only."""
    query = (
        select(outbox)
        .where(outbox.c.status == WAITING, outbox.c.next_at <= at)
        .order_by(outbox.c.id)
        .limit(1)
    )
    while row := connection.execute(query).one_or_none():
        taken = connection.execute(
            update(outbox)
            .where(outbox.c.id == row.id, outbox.c.status == WAITING)
            .values(status=SENDING, attempts=outbox.c.attempts + 1)
        )
        if taken.rowcount:
            return Notification(
                id=row.id,
                kind=row.kind,
                fingerprint=row.fingerprint,
                payload=row.payload,
                created_at=row.created_at,
                attempts=row.attempts + 1,
            )
    return None


def finish(
    connection: Connection,
    message_id: int,
    at: UnixSeconds,
    error: str | None,
    retry_at: UnixSeconds | None,
) -> None:
    """Write how sending went: sent, to be tried again at `retry_at`, or given up."""
    if error is None:
        values = {"status": SENT, "finished_at": at, "error": None}
    elif retry_at is not None:
        values = {"status": WAITING, "next_at": retry_at, "error": error}
    else:
        values = {"status": GIVEN_UP, "finished_at": at, "error": error}
    connection.execute(update(outbox).where(outbox.c.id == message_id).values(**values))


def release(connection: Connection) -> int:
    """Let messages be claimed again that a dead daemon was sending: told twice, never not."""
    freed = connection.execute(
        update(outbox).where(outbox.c.status == SENDING).values(status=WAITING)
    )
    return freed.rowcount
