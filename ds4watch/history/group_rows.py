"""Statements on groups of messages: what each channel was told, and what it is to be told next.

News goes from the outbox into the groups of all channels in one transaction, so that no channel
misses or doubles any of it. What was told is written after it was: told twice, never not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from ds4watch.alerting.group_document import document_of, group_of, news_of, note_of
from ds4watch.alerting.group_view import silenced_apart, without_gone, without_silenced
from ds4watch.alerting.grouping import (
    Group,
    GroupSettings,
    News,
    Note,
    absorb,
    decide,
    due_at,
    is_over,
    said,
    told,
)
from ds4watch.alerting.silences import mute_of
from ds4watch.history import silence_rows, sql
from ds4watch.history.rows import StoredGroup
from ds4watch.history.state_models import alerts, notify_groups, outbox
from ds4watch.model.action import ActionPlan
from ds4watch.model.ports import UnixSeconds

NEWS_AT_ONCE = 500
DUE_AT_ONCE = 50
_REST_SECONDS = 60.0
"""After so long a group of which there is nothing to say is looked at again."""
_ALERT_KINDS = ("firing", "resolved")


def insert_notes(connection: Connection, notes: list[Note]) -> None:
    """Put what is told beside alerts into the outbox; channels without groups skip it."""
    for note in notes:
        connection.execute(
            insert(outbox).values(
                created_at=note.at,
                kind=note.kind,
                fingerprint=(note.cause or ("",))[0],
                payload={**note.payload, "id": note.id, "cause": ",".join(note.cause)},
                status="sent",
                attempts=0,
                next_at=note.at,
                finished_at=note.at,
            )
        )


def action_note(plan: ActionPlan) -> Note:
    """Return what is told of an action that is begun."""
    cause = () if ":" in plan.cause else tuple(it for it in plan.cause.split(",") if it)
    payload = {
        "action": plan.id,
        "what": plan.kind.value,
        "target": plan.target,
        "reason": plan.reason,
        "undoes": plan.undoes or "",
        "parameters": {name: str(value) for name, value in plan.parameters.items()},
    }
    return Note(f"action {plan.id}", "action", plan.planned_at, payload, cause)


def absorb_news(
    connection: Connection, channels: Mapping[str, GroupSettings], at: UnixSeconds
) -> int:
    """Put what is new in the outbox into the groups of each channel; return how much it was."""
    rows = connection.execute(
        select(outbox).where(outbox.c.grouped_at.is_(None)).order_by(outbox.c.id)
        .limit(NEWS_AT_ONCE)
    ).all()  # fmt: skip
    if not rows:
        return 0
    items = [_item(row) for row in rows]
    for channel, settings in channels.items():
        before = stored_groups(connection, channel)
        after = absorb(before, items, settings)
        changed = [group for key, group in after.items() if before.get(key) != group]
        for group in changed:
            _save(
                connection, channel, group, due_at(group, settings), is_new=group.key not in before
            )
    connection.execute(
        update(outbox).where(outbox.c.id.in_([row.id for row in rows])).values(grouped_at=at)
    )
    return len(rows)


def stored_groups(connection: Connection, channel: str) -> dict[str, Group]:
    """Return the groups of a channel by their keys."""
    rows = connection.execute(select(notify_groups).where(notify_groups.c.channel == channel))
    return {row.key: group_of(row.key, row.document) for row in rows}


def due_groups(
    connection: Connection, channel: str, at: UnixSeconds, settings: GroupSettings
) -> list[StoredGroup]:
    """Return what is due, the longest first, less what a silence covers.

    What is over is deleted, what is gone ends, and that of which there is nothing to say rests.
    """
    query = (
        select(notify_groups)
        .where(notify_groups.c.channel == channel, notify_groups.c.next_at <= at)
        .order_by(notify_groups.c.next_at, notify_groups.c.key)
        .limit(DUE_AT_ONCE)
    )
    found = [_stored(row) for row in connection.execute(query)]
    over = [it.group.key for it in found if is_over(it.group, at, settings)]
    if over:
        connection.execute(_of(delete(notify_groups), channel, notify_groups.c.key.in_(over)))
    is_silenced = mute_of(silence_rows.not_over(connection, at), at)
    due, resting = [], []
    for it in _without_gone(connection, [it for it in found if it.group.key not in over], at):
        if decide(without_silenced(it.group, is_silenced), at, settings) is None:
            resting.append(it.group.key)
        else:
            due.append(replace(it, group=silenced_apart(it.group, is_silenced)))
    if resting:
        rest = _of(update(notify_groups), channel, notify_groups.c.key.in_(resting))
        connection.execute(rest.values(next_at=at + _REST_SECONDS))
    return due


def _without_gone(
    connection: Connection, stored: list[StoredGroup], at: UnixSeconds
) -> list[StoredGroup]:
    query = select(alerts.c.fingerprint).where(alerts.c.phase == "firing")
    firing = set(connection.execute(query).scalars())
    return [
        it
        if any(member.is_news for member in it.group.members)
        else replace(it, group=without_gone(it.group, firing, at))
        for it in stored
    ]


def begin(connection: Connection, channel: str, key: str, trying: str) -> None:
    """Note that a message is about to be sent; the note stays if nobody knows whether it was."""
    connection.execute(
        _of(update(notify_groups), channel, notify_groups.c.key == key).values(
            trying=trying, attempts=notify_groups.c.attempts + 1
        )
    )


def keep_handle(connection: Connection, channel: str, key: str, handle: Mapping[str, Any]) -> None:
    """Note by what the channel finds the message again."""
    connection.execute(
        _of(update(notify_groups), channel, notify_groups.c.key == key).values(handle=dict(handle))
    )


def failed(
    connection: Connection,
    channel: str,
    key: str,
    error: str,
    unsure: bool,  # noqa: FBT001 - passed by position through the writer's thread
) -> None:
    """Note that a message was not sent, or that it is not known."""
    values: dict[str, Any] = {"error": error}
    if not unsure:
        values["trying"] = ""
    connection.execute(
        _of(update(notify_groups), channel, notify_groups.c.key == key).values(**values)
    )


def finished(
    connection: Connection, channel: str, sent: Group, at: UnixSeconds, settings: GroupSettings
) -> None:
    """Note that a group was told."""
    row = connection.execute(
        _of(select(notify_groups), channel, notify_groups.c.key == sent.key)
    ).one_or_none()
    if row is None:
        return
    group = told(group_of(row.key, row.document), sent, at)
    connection.execute(
        _of(update(notify_groups), channel, notify_groups.c.key == sent.key).values(
            document=document_of(group),
            next_at=due_at(group, settings),
            trying="",
            attempts=0,
            error=None,
        )
    )


def say(
    connection: Connection,
    channel: str,
    key: str,
    note: Note,
    acknowledged_by: str | None,
    settings: GroupSettings,
) -> bool:
    """Add to a group what a person did; False if there is no such group any more."""
    found = stored_groups(connection, channel).get(key)
    if found is None:
        return False
    group = said(found, note, acknowledged_by)
    _save(connection, channel, group, due_at(group, settings), is_new=False)
    return True


def waiting(connection: Connection, at: UnixSeconds) -> list[tuple[str, int, UnixSeconds]]:
    """Return by channel how many groups are due, and since when the first of them is."""
    groups = notify_groups
    since = func.min(groups.c.next_at, type_=groups.c.next_at.type)
    query = (
        select(groups.c.channel, func.count(), since)
        .where(groups.c.next_at <= at)
        .group_by(groups.c.channel)
    )  # fmt: skip
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]


def _of(statement: Any, channel: str, condition: Any) -> Any:
    return statement.where(notify_groups.c.channel == channel, condition)


def _item(row: Row[Any]) -> News | Note:
    if row.kind in _ALERT_KINDS:
        return news_of(row.payload)
    return note_of(row.kind, row.created_at, row.payload)


def _save(
    connection: Connection, channel: str, group: Group, next_at: UnixSeconds, *, is_new: bool
) -> None:
    values = {"document": document_of(group), "next_at": next_at}
    if is_new:
        row = {"channel": channel, "key": group.key, "handle": {}, "trying": "", "attempts": 0}
        sql.replace(connection, notify_groups, [{**row, "error": None, **values}])
        return
    condition = notify_groups.c.key == group.key
    connection.execute(_of(update(notify_groups), channel, condition).values(**values))


def _stored(row: Row[Any]) -> StoredGroup:
    return StoredGroup(group_of(row.key, row.document), row.handle, row.trying, row.attempts)
