"""Groups and news as JSON, as they are kept in the database. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ds4watch.alerting.grouping import Group, Member, News, Note, Told
from ds4watch.model.series import labels_of


def news_of(payload: Mapping[str, Any]) -> News:
    """Return what a message of the outbox says of an alert."""
    return News(
        id=str(payload["id"]),
        fingerprint=payload["fingerprint"],
        firing=payload["new"] == "firing",
        at=float(payload["at"]),
        value=str(payload.get("value", "")),
        reason=payload.get("reason", ""),
        labels=labels_of(payload.get("labels", {})),
        annotations=labels_of(payload.get("annotations", {})),
    )


def note_of(kind: str, at: float, payload: Mapping[str, Any]) -> Note:
    """Return what a message of the outbox says that is no alert."""
    cause = tuple(it for it in str(payload.get("cause", "")).split(",") if it)
    return Note(str(payload["id"]), kind, at, dict(payload), cause)


def document_of(group: Group) -> dict[str, Any]:
    """Return a group as JSON."""
    return {
        "labels": dict(group.labels),
        "first_at": group.first_at,
        "members": [_member_document(it) for it in group.members],
        "notes": [
            {"id": it.id, "kind": it.kind, "at": it.at, "payload": it.payload} for it in group.notes
        ],
        "sent": group.sent,
        "sent_at": group.sent_at,
        "highest_told": group.highest_told,
        "more": group.more,
        "acknowledged_by": group.acknowledged_by,
    }


def group_of(key: str, document: Mapping[str, Any]) -> Group:
    """Return the group that a JSON document describes."""
    return Group(
        key=key,
        labels=labels_of(document["labels"]),
        first_at=document["first_at"],
        members=tuple(_member_of(it) for it in document["members"]),
        notes=tuple(note_of(it["kind"], it["at"], it["payload"]) for it in document["notes"]),
        sent=document["sent"],
        sent_at=document["sent_at"],
        highest_told=document["highest_told"],
        more=document["more"],
        acknowledged_by=document["acknowledged_by"],
    )


def _member_document(member: Member) -> dict[str, Any]:
    news = member.news
    return {
        "id": news.id,
        "fingerprint": news.fingerprint,
        "new": "firing" if news.firing else "resolved",
        "at": news.at,
        "value": news.value,
        "reason": news.reason,
        "labels": dict(news.labels),
        "annotations": dict(news.annotations),
        "fired_at": member.fired_at,
        "told": member.told.value,
    }


def _member_of(document: Mapping[str, Any]) -> Member:
    return Member(news_of(document), document["fired_at"], Told(document["told"]))
