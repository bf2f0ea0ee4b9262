"""Statements on alerts and their events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import Connection, Row, delete, insert, select

from ds4watch.history import sql
from ds4watch.history.state_models import alert_events, alerts, outbox
from ds4watch.model.alert import AlertPhase, AlertState, Tier, Transition
from ds4watch.model.series import labels_of

AlertKey = tuple[str, str]
_INSERT_EVENT = insert(alert_events)
_INSERT_MESSAGE = insert(outbox)
_MESSAGES = UUID("a3c0f5f2-6d0e-4b5e-9a55-2f6c1d7e8b90")
"""The name space of messages' ids; never to be changed."""


def key_of(state: AlertState) -> AlertKey:
    """Return what a stored alert is found by."""
    return state.rule_id, state.fingerprint


def stored_alerts(connection: Connection) -> dict[AlertKey, AlertState]:
    """Return every stored alert, as not yet confirmed."""
    states = (
        _alert(row) for row in connection.execute(select(alerts).order_by(alerts.c.active_at))
    )
    return {key_of(state): state for state in states}


def save_alerts(
    connection: Connection, changed: Iterable[AlertState], gone: Iterable[AlertKey]
) -> None:
    """Write alerts that changed and delete those that are gone."""
    for rule_id, fingerprint in gone:
        connection.execute(
            delete(alerts).where(alerts.c.rule_id == rule_id, alerts.c.fingerprint == fingerprint)
        )
    sql.replace(connection, alerts, [_row(state) for state in changed])


def insert_events(connection: Connection, transitions: Iterable[Transition]) -> None:
    """Write transitions."""
    for transition in transitions:
        connection.execute(_INSERT_EVENT, _event(transition))


def insert_messages(connection: Connection, messages: Iterable[Transition]) -> None:
    """Write into the outbox what people are told."""
    for transition in messages:
        connection.execute(_INSERT_MESSAGE, _message(transition))


def transition_document(transition: Transition) -> dict[str, Any]:
    """Return a transition as JSON; its value as text, for JSON knows no NaN."""
    return {
        "fingerprint": transition.fingerprint,
        "old": transition.old.value,
        "new": transition.new.value,
        "at": transition.at,
        "value": repr(float(transition.value)),
        "reason": transition.reason,
        "labels": dict(transition.labels),
        "annotations": dict(transition.annotations),
    }


def _event(transition: Transition) -> dict[str, Any]:
    labels = dict(transition.labels)
    return {
        "at": transition.at,
        "fingerprint": transition.fingerprint,
        "name": labels.get("alertname", ""),
        "tier": labels.get("severity", Tier.NONE.value),
        "old": transition.old.value,
        "new": transition.new.value,
        "value": transition.value,
        "reason": transition.reason,
        "labels": labels,
        "annotations": dict(transition.annotations),
    }


def message_id(transition: Transition) -> str:
    """Return what a receiver knows a message by that it gets again: the same for the same news."""
    news = (transition.fingerprint, transition.new.value, repr(transition.at))
    return str(uuid5(_MESSAGES, "\x00".join(news)))


def _message(transition: Transition) -> dict[str, Any]:
    event = _event(transition)
    payload = transition_document(transition) | {"id": message_id(transition)}
    return {
        "created_at": transition.at,
        "kind": transition.new.value,
        "fingerprint": transition.fingerprint,
        "payload": payload | {"name": event["name"], "tier": event["tier"]},
        "status": "waiting",
        "attempts": 0,
        "next_at": transition.at,
    }


def _row(state: AlertState) -> dict[str, Any]:
    return {
        "rule_id": state.rule_id,
        "fingerprint": state.fingerprint,
        "name": state.name,
        "tier": state.tier.value,
        "phase": state.phase.value,
        "value": state.value,
        "active_at": state.active_at,
        "fired_at": state.fired_at,
        "keep_firing_since": state.keep_firing_since,
        "last_sent_at": state.last_sent_at,
        "resolved_at": state.resolved_at,
        "held": state.held,
        "labels": dict(state.labels),
        "annotations": dict(state.annotations),
    }


def _alert(row: Row[Any]) -> AlertState:
    return AlertState(
        rule_id=row.rule_id,
        labels=labels_of(row.labels),
        phase=AlertPhase(row.phase),
        active_at=row.active_at,
        value=row.value,
        fired_at=row.fired_at,
        keep_firing_since=row.keep_firing_since,
        last_sent_at=row.last_sent_at,
        resolved_at=row.resolved_at,
        annotations=labels_of(row.annotations),
        held=row.held,
        confirmed=False,
    )
