"""Statements on the audit: what happened, in words, and the words for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select

from ds4watch.history.alert_rows import transition_document
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.history.state_models import audit
from ds4watch.model.action import ActionPlan, ActionStatus, Outcome, Refusal
from ds4watch.model.alert import AlertPhase, Transition
from ds4watch.model.ports import UnixSeconds

MOST_ENTRIES = 1000
MOST_ALIKE = 10
"""Of alerts of one name and tier that change alike in one tick each has a row up to here."""
_INSERT = insert(audit)


def insert_audit(connection: Connection, entries: Iterable[AuditEntry]) -> None:
    """Write audit rows, in order."""
    for entry in entries:
        row = {
            "at": entry.at,
            "kind": entry.kind.value,
            "subject": entry.subject,
            "who": entry.who,
            "summary": entry.summary,
            "detail": dict(entry.detail),
        }
        connection.execute(_INSERT, row)


def read_audit(
    connection: Connection, limit: int, before_id: int | None, kind: AuditKind | None
) -> list[AuditEntry]:
    """Return the newest entries first, those under `before_id` if that is given."""
    query = select(audit).order_by(audit.c.id.desc()).limit(min(limit, MOST_ENTRIES))
    if before_id is not None:
        query = query.where(audit.c.id < before_id)
    if kind is not None:
        query = query.where(audit.c.kind == kind.value)
    return [_entry(row) for row in connection.execute(query)]


def read_after(connection: Connection, after_id: int, limit: int) -> list[AuditEntry]:
    """Return the entries above an id, the oldest first."""
    query = select(audit).where(audit.c.id > after_id).order_by(audit.c.id)
    return [_entry(row) for row in connection.execute(query.limit(min(limit, MOST_ENTRIES)))]


def newest_id(connection: Connection) -> int:
    """Return the id of the newest entry; 0 if there is none."""
    found: int | None = connection.execute(select(func.max(audit.c.id))).scalar()
    return found or 0


def _entry(row: Row[Any]) -> AuditEntry:
    return AuditEntry(
        at=row.at,
        kind=AuditKind(row.kind),
        subject=row.subject,
        summary=row.summary,
        detail=row.detail,
        who=row.who,
        id=row.id,
    )


def of_transition(transition: Transition) -> AuditEntry:
    """Return the entry for an alert that changed phase."""
    labels = dict(transition.labels)
    name = labels.pop("alertname", transition.fingerprint)
    tier = labels.pop("severity", "none")
    # An alert that is over has no value any more, only its last.
    is_over = transition.new in (AlertPhase.RESOLVED, AlertPhase.INACTIVE)
    value = f"{'last ' if is_over else ''}at {transition.value:.4g}"
    whose = "".join(f", {labels[key]}" for key in ("worker", "gpu", "profile") if key in labels)
    return AuditEntry(
        at=transition.at,
        kind=AuditKind.ALERT,
        subject=name,
        summary=(
            f"{name} ({tier}{whose}): {transition.old} → {transition.new} "
            f"{value}: {transition.reason}"
        ),
        detail=transition_document(transition),
    )


def of_transitions(transitions: Iterable[Transition]) -> list[AuditEntry]:
    """Return the entries for alerts that changed phase; a flood of alike ones is one entry.

    Each of them has its row in `alert_events` all the same.
    """
    alike: dict[tuple[str, str, AlertPhase, AlertPhase], list[Transition]] = {}
    for it in transitions:
        labels = dict(it.labels)
        name = labels.get("alertname", it.fingerprint)
        alike.setdefault((name, labels.get("severity", "none"), it.old, it.new), []).append(it)
    return [
        entry
        for found in alike.values()
        for entry in (map(of_transition, found) if len(found) <= MOST_ALIKE else [_flood(found)])
    ]


def _flood(found: Sequence[Transition]) -> AuditEntry:
    first = of_transition(found[0])
    count = len(found)
    detail = {**first.detail, "count": count, "fingerprints": [it.fingerprint for it in found[:20]]}
    return replace(
        first, summary=f"{count} alerts alike, the first: {first.summary}", detail=detail
    )


def _change(plan: ActionPlan) -> str:
    """Return from what to what, where the plan says so."""
    if "level" not in plan.parameters:
        return ""
    return f", {plan.before.get('level')} → {plan.parameters['level']}"


_VERBS = {
    ActionStatus.WOULD_DO: "would do",
    ActionStatus.WAITING: "waits for approval:",
}


def of_plan(plan: ActionPlan) -> AuditEntry:
    """Return the entry for something that is to be done, or would be."""
    verb = _VERBS.get(plan.first_status, "planned")
    if plan.undoes is not None and plan.parameters.get("undo"):
        verb += ": take back"
    return AuditEntry(
        at=plan.planned_at,
        kind=AuditKind.PLAN,
        subject=plan.target,
        summary=f"{verb} {plan.kind} on {plan.target}{_change(plan)}: {plan.reason}",
        detail={
            "id": plan.id,
            "cause": plan.cause,
            "parameters": dict(plan.parameters),
            "before": dict(plan.before),
            "undoes": plan.undoes,
            "pool": plan.pool,
            "guards": [it.as_json() for it in plan.guards],
        },
        who=plan.who,
    )


def of_refusal(refusal: Refusal) -> AuditEntry:
    """Return the entry for something that was not done."""
    return AuditEntry(
        at=refusal.at,
        kind=AuditKind.REFUSAL,
        subject=refusal.target,
        summary=f"refused {refusal.kind} on {refusal.target}: {refusal.reason}: {refusal.detail}",
        detail={
            "reason": refusal.reason.value,
            "cause": refusal.cause,
            "guards": [it.as_json() for it in refusal.guards],
        },
        who=refusal.who,
    )


def of_outcome(outcome: Outcome, kind: str, target: str) -> AuditEntry:
    """Return the entry for how an action ended."""
    detail = f": {outcome.detail}" if outcome.detail else ""
    return AuditEntry(
        at=outcome.at,
        kind=AuditKind.OUTCOME,
        subject=target,
        summary=f"{kind} on {target}: {outcome.status}{detail}",
        detail={
            "id": outcome.plan_id,
            "status": outcome.status.value,
            "took_seconds": outcome.took_seconds,
            "after": dict(outcome.after),
        },
    )


def oldest_at(connection: Connection) -> UnixSeconds | None:
    """Return the instant of the oldest row that is kept."""
    found: UnixSeconds | None = connection.execute(select(func.min(audit.c.at))).scalar()
    return found
