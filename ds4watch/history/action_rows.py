"""Statements on actions and holds: plan, claim, finish, undo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, select, update

from ds4watch.history import sql
from ds4watch.history.audit_rows import insert_audit, of_outcome, of_plan, of_refusal
from ds4watch.history.meta_rows import save_policy
from ds4watch.history.rows import ActionFilter, ActionRecord, AuditEntry, AuditKind
from ds4watch.history.state_models import actions, holds
from ds4watch.model.action import (
    ActionKind,
    ActionPlan,
    ActionStatus,
    GuardResult,
    Hold,
    Outcome,
    Refusal,
    RefusalReason,
)
from ds4watch.model.ports import UnixSeconds

_DONE = (ActionStatus.APPLIED,)
_OPEN = (ActionStatus.PLANNED, ActionStatus.RUNNING)
_FINISHABLE = (ActionStatus.RUNNING, ActionStatus.APPLIED, ActionStatus.UNKNOWN)


def insert_plan(connection: Connection, plan: ActionPlan) -> bool:
    """Write a plan with its audit row, unless its id exists; return whether it was written."""
    row = {
        "id": plan.id,
        "kind": plan.kind.value,
        "target": plan.target,
        "cause": plan.cause,
        "reason": plan.reason,
        "status": plan.first_status.value,
        "planned_at": plan.planned_at,
        "parameters": dict(plan.parameters),
        "before": dict(plan.before),
        "after": {},
        "detail": "",
        "dry_run": plan.dry_run,
        "undoes": plan.undoes,
        "pool": plan.pool,
        "who": plan.who,
        "guards": [it.as_json() for it in plan.guards],
        "expires_at": plan.expires_at,
        "approvers": list(plan.approvers),
    }
    is_new = sql.insert_new(connection, actions, row)
    if is_new:
        insert_audit(connection, [of_plan(plan)])
    return is_new


def claim(connection: Connection, at: UnixSeconds) -> ActionPlan | None:
    """Take the oldest planned action as running, for one claimant only.

    A plan under a hold ends here as failed, with a refusal in the audit.
    """
    query = (
        select(actions)
        .where(actions.c.status == ActionStatus.PLANNED.value)
        .order_by(actions.c.planned_at, actions.c.id)
    )
    for row in connection.execute(query).all():
        plan = _plan(row)
        if claim_plan(connection, plan, at):
            return plan
    return None


def claim_plan(connection: Connection, plan: ActionPlan, at: UnixSeconds) -> bool:
    """Take a planned action as running; return whether it is ours. Under a hold it ends here."""
    hold = _hold_on(connection, (plan.target, plan.pool, "*"), at)
    status = ActionStatus.RUNNING if hold is None else ActionStatus.FAILED
    taken = connection.execute(
        update(actions)
        .where(actions.c.id == plan.id, actions.c.status == ActionStatus.PLANNED.value)
        .values(status=status.value, started_at=at)
    )
    if not taken.rowcount:
        return False
    if hold is not None:
        _refuse(connection, plan, hold, at)
    return hold is None


def finish(connection: Connection, outcome: Outcome, policy: Mapping[str, Any] | None) -> bool:
    """Write how an action ended, and the policy it made; False if it was not running.

    A plan that nobody has claimed can be given up (FAILED), and end in no other way.
    """
    from_status = (*_FINISHABLE, ActionStatus.PLANNED)
    allowed = from_status if outcome.status is ActionStatus.FAILED else _FINISHABLE
    row = connection.execute(
        select(actions.c.kind, actions.c.target, actions.c.undoes, actions.c.parameters).where(
            actions.c.id == outcome.plan_id,
            actions.c.status.in_([status.value for status in allowed]),
        )
    ).one_or_none()
    if row is None:
        return False
    connection.execute(
        update(actions)
        .where(actions.c.id == outcome.plan_id)
        .values(
            status=outcome.status.value,
            finished_at=outcome.at,
            took_seconds=outcome.took_seconds,
            after=dict(outcome.after),
            detail=outcome.detail,
            verify_by=_verify_by(row.parameters, outcome),
        )
    )
    if row.undoes is not None and outcome.status in _DONE:
        connection.execute(
            update(actions)
            .where(actions.c.id == row.undoes)
            .values(status=ActionStatus.UNDONE.value)
        )
    insert_audit(connection, [of_outcome(outcome, row.kind, row.target)])
    if policy is not None:
        save_policy(connection, policy)
    return True


def _verify_by(parameters: Mapping[str, Any], outcome: Outcome) -> UnixSeconds | None:
    """Return by when the effect is looked at; None for what was not done, or is not looked at."""
    seconds = parameters.get("verify_seconds")
    is_done = outcome.status in (ActionStatus.APPLIED, ActionStatus.UNKNOWN)
    return outcome.at + float(seconds) if is_done and seconds is not None else None


def restored_actions(connection: Connection) -> tuple[ActionRecord, ...]:
    """Return what is unfinished or in force, oldest first."""
    unfinished = actions.c.status.in_([status.value for status in _OPEN])
    query = (
        select(actions)
        .where(unfinished | actions.c.id.in_(in_force()))
        .order_by(actions.c.planned_at, actions.c.id)
    )
    return tuple(action_record(row) for row in connection.execute(query))


def in_force() -> Select[tuple[str]]:
    """Return the query for the ids of actions in force: each follows the one before it."""
    newest_first = (actions.c.planned_at.desc(), actions.c.id.desc())
    ranked = (
        select(
            actions.c.id,
            func.row_number()
            .over(partition_by=(actions.c.kind, actions.c.target), order_by=newest_first)
            .label("place"),
        )
        .where(actions.c.status.in_([status.value for status in _DONE]), actions.c.undoes.is_(None))
        .subquery()
    )
    return select(ranked.c.id).where(ranked.c.place == 1)


def recent_actions(connection: Connection, limit: int) -> list[ActionRecord]:
    """Return the newest actions, newest first."""
    query = select(actions).order_by(actions.c.planned_at.desc(), actions.c.id.desc())
    return [action_record(row) for row in connection.execute(query.limit(limit))]


def listed(connection: Connection, limit: int, wanted: ActionFilter) -> list[ActionRecord]:
    """Return actions as asked for, newest first."""
    query = select(actions).order_by(actions.c.planned_at.desc(), actions.c.id.desc())
    for column, value in (
        (actions.c.status, wanted.status),
        (actions.c.kind, wanted.kind),
        (actions.c.target, wanted.target),
    ):
        if value is not None:
            query = query.where(column == value)
    if wanted.before is not None:
        at, action_id = wanted.before
        older = (actions.c.planned_at == at) & (actions.c.id < action_id)
        query = query.where((actions.c.planned_at < at) | older)
    return [action_record(row) for row in connection.execute(query.limit(limit))]


def one(connection: Connection, action_id: str) -> ActionRecord | None:
    """Return an action by its id."""
    row = connection.execute(select(actions).where(actions.c.id == action_id)).one_or_none()
    return None if row is None else action_record(row)


def place_hold(connection: Connection, hold: Hold) -> None:
    """Write a hold in place of an earlier one on its target, and its audit row."""
    connection.execute(
        update(holds)
        .where(holds.c.target == hold.target, holds.c.lifted_at.is_(None))
        .where(holds.c.until_at > hold.placed_at)
        .values(lifted_at=hold.placed_at, lifted_by=hold.who)
    )
    connection.execute(
        insert(holds).values(
            target=hold.target,
            until_at=hold.until_at,
            who=hold.who,
            why=hold.why,
            placed_at=hold.placed_at,
        )
    )
    summary = f"hold on {hold.target} by {hold.who}: {hold.why}"
    insert_audit(connection, [_hold_entry(hold.placed_at, hold.target, hold.who, summary)])


def lift_holds(connection: Connection, target: str, who: str, at: UnixSeconds) -> int:
    """End the holds on exactly `target` and return how many there were."""
    lifted = connection.execute(
        update(holds)
        .where(holds.c.target == target, holds.c.lifted_at.is_(None), holds.c.until_at > at)
        .values(lifted_at=at, lifted_by=who)
    ).rowcount
    if lifted:
        summary = f"hold on {target} lifted by {who}"
        insert_audit(connection, [_hold_entry(at, target, who, summary)])
    return lifted


def holds_in_force(connection: Connection, at: UnixSeconds) -> tuple[Hold, ...]:
    """Return the holds that are neither over nor lifted."""
    query = select(holds).where(holds.c.lifted_at.is_(None), holds.c.until_at > at)
    return tuple(
        Hold(row.target, row.until_at, row.who, row.why, row.placed_at)
        for row in connection.execute(query.order_by(holds.c.id))
    )


def _hold_on(connection: Connection, names: tuple[str, ...], at: UnixSeconds) -> Hold | None:
    in_force = holds_in_force(connection, at)
    return next((hold for hold in in_force if hold.target in names), None)


def _hold_entry(at: UnixSeconds, target: str, who: str, summary: str) -> AuditEntry:
    return AuditEntry(at=at, kind=AuditKind.HOLD, subject=target, summary=summary, who=who)


def _refuse(connection: Connection, plan: ActionPlan, hold: Hold, at: UnixSeconds) -> None:
    detail = f"held by {hold.who}: {hold.why}"
    connection.execute(
        update(actions).where(actions.c.id == plan.id).values(finished_at=at, detail=detail)
    )
    refusal = Refusal(plan.kind, plan.target, RefusalReason.HOLD, detail, plan.cause, at)
    insert_audit(connection, [of_refusal(refusal)])


def _plan(row: Row[Any]) -> ActionPlan:
    return ActionPlan(
        id=row.id,
        kind=ActionKind(row.kind),
        target=row.target,
        cause=row.cause,
        planned_at=row.planned_at,
        parameters=row.parameters,
        before=row.before,
        reason=row.reason,
        dry_run=row.dry_run,
        undoes=row.undoes,
        pool=row.pool,
        guards=tuple(GuardResult(it["guard"], it["passed"], it["told"]) for it in row.guards),
        expires_at=row.expires_at,
        approvers=tuple(row.approvers),
        who=row.who,
    )


def action_record(row: Row[Any]) -> ActionRecord:
    """Return an action and how far it got."""
    return ActionRecord(
        plan=_plan(row),
        status=ActionStatus(row.status),
        started_at=row.started_at,
        finished_at=row.finished_at,
        took_seconds=row.took_seconds,
        detail=row.detail,
        after=row.after,
        verify_by=row.verify_by,
        verified_at=row.verified_at,
        helped=row.helped,
        decided_by=row.decided_by,
    )
