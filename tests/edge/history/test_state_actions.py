from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ds4watch.history.rows import AuditKind, Committed, TickCommit, Verified
from ds4watch.history.state import StateStore
from ds4watch.model.action import (
    ActionKind,
    ActionStatus,
    Hold,
)
from tests.edge.history.helpers import NOW, Base
from tests.edge.history.state_facts import PLAN, applied, opened


async def test_a_plan_whose_id_exists_is_reported_and_not_planned_again(
    store: StateStore,
) -> None:
    await store.commit_tick(TickCommit(at=NOW, plans=(PLAN,)))
    other = replace(PLAN, reason="again")
    committed = await store.commit_tick(TickCommit(at=NOW + 1, plans=(other,)))
    assert committed.duplicate_plans == (PLAN.id,)
    assert [record.plan.reason for record in await store.actions()] == [PLAN.reason]
    assert len(await store.audit(10)) == 1


async def test_two_claimants_never_get_the_same_action(store: StateStore, base: Base) -> None:
    plans = tuple(replace(PLAN, id=f"p{number}") for number in range(10))
    await store.commit_tick(TickCommit(at=NOW, plans=plans))
    one, other = opened(base), opened(base)  # which wait for each other as long as daemons do
    claims = [it.claim_action(NOW + 1) for _ in range(8) for it in (one, other)]
    claimed = [plan.id for plan in await asyncio.gather(*claims) if plan is not None]
    assert sorted(claimed) == sorted(plan.id for plan in plans)
    await one.close()
    await other.close()


async def test_what_a_tick_claims_with_its_plans_nobody_else_gets(store: StateStore) -> None:
    dry = replace(PLAN, id="dry", dry_run=True)
    committed = await store.commit_tick(TickCommit(at=NOW, plans=(PLAN, dry), claims=True))
    assert committed == Committed(claimed_plans=(PLAN.id,))
    assert await store.claim_action(NOW + 1) is None
    (record,) = (await store.load(NOW)).actions
    assert (record.status, record.started_at) == (ActionStatus.RUNNING, NOW)
    again = await store.commit_tick(TickCommit(at=NOW + 1, plans=(PLAN,), claims=True))
    assert again == Committed(duplicate_plans=(PLAN.id,))
    assert await store.finish_action(applied(PLAN))


async def test_a_tick_claims_nothing_that_a_person_holds(store: StateStore) -> None:
    await store.place_hold(Hold("pool", NOW + 60, "ann", "a demo", NOW))
    assert await store.commit_tick(TickCommit(at=NOW, plans=(PLAN,), claims=True)) == Committed()
    assert [record.status for record in await store.actions()] == [ActionStatus.FAILED]
    (refusal,) = await store.audit(10, kind=AuditKind.REFUSAL)
    assert refusal.summary == "refused set_level on pool: hold: held by ann: a demo"


async def test_an_action_is_finished_audited_and_undone(store: StateStore) -> None:
    await store.commit_tick(TickCommit(at=NOW, plans=(PLAN,)))
    assert await store.finish_action(applied(PLAN)) is False
    assert await store.claim_action(NOW + 1) == PLAN
    assert await store.claim_action(NOW + 1) is None
    (record,) = (await store.load(NOW)).actions
    assert (record.status, record.started_at) == (ActionStatus.RUNNING, NOW + 1)
    assert await store.finish_action(applied(PLAN), policy={"version": 1})
    assert await store.finish_action(applied(PLAN, status=ActionStatus.APPLIED))
    restored = await store.load(NOW)
    assert [one.status for one in restored.actions] == [ActionStatus.APPLIED]
    assert restored.policy_version == 1

    undo = replace(PLAN, id="undo", undoes=PLAN.id, planned_at=NOW + 3)
    await store.commit_tick(TickCommit(at=NOW + 3, plans=(undo,)))
    await store.claim_action(NOW + 3)
    assert await store.finish_action(applied(undo, detail="level 0"))
    assert (await store.load(NOW)).actions == ()
    statuses = {record.plan.id: record.status for record in await store.actions()}
    assert statuses == {PLAN.id: ActionStatus.UNDONE, "undo": ActionStatus.APPLIED}
    outcomes = await store.audit(10, kind=AuditKind.OUTCOME)
    assert [entry.summary for entry in outcomes] == [
        "set_level on pool: applied: level 0",
        "set_level on pool: applied",
        "set_level on pool: applied",
    ]


async def test_a_dry_run_is_stored_as_would_do_and_never_claimed(store: StateStore) -> None:
    await store.commit_tick(TickCommit(at=NOW, plans=(replace(PLAN, dry_run=True),)))
    assert await store.claim_action(NOW + 1) is None
    assert [record.status for record in await store.actions()] == [ActionStatus.WOULD_DO]
    assert (await store.audit(1))[0].summary.startswith("would do set_level on pool")


@pytest.mark.parametrize("target", ["pool", "*"])
async def test_a_persons_hold_is_checked_in_the_claim_itself(
    store: StateStore, target: str
) -> None:
    await store.commit_tick(TickCommit(at=NOW, plans=(PLAN, replace(PLAN, id="x", target="y"))))
    await store.place_hold(Hold(target, NOW + 60, "ann", "a demo", NOW))
    claimed = await store.claim_action(NOW + 1)
    assert claimed is None if target == "*" else claimed is not None and claimed.target == "y"
    records = {record.plan.id: record for record in await store.actions()}
    assert records[PLAN.id].status is ActionStatus.FAILED
    assert records[PLAN.id].detail == "held by ann: a demo"
    refusals = await store.audit(10, kind=AuditKind.REFUSAL)
    assert refusals[-1].summary == "refused set_level on pool: hold: held by ann: a demo"


async def test_a_hold_ends_by_itself_or_when_it_is_lifted(store: StateStore) -> None:
    hold = Hold("pool", NOW + 60, "ann", "a demo", NOW)
    await store.place_hold(hold)
    assert await store.holds(NOW + 59) == (hold,)
    assert await store.holds(NOW + 60) == ()
    assert await store.lift_hold("other", who="bob", at=NOW + 1) == 0
    assert await store.lift_hold("pool", who="bob", at=NOW + 1) == 1
    assert (await store.load(NOW + 1)).holds == ()
    assert [entry.summary for entry in await store.audit(10)] == [
        "hold on pool lifted by bob",
        "hold on pool by ann: a demo",
    ]


async def test_a_hold_on_the_pool_of_a_worker_refuses_in_the_claim_itself(
    store: StateStore,
) -> None:
    plan = replace(PLAN, kind=ActionKind.RESTART_WORKER, target="w0", pool="default")
    await store.commit_tick(TickCommit(at=NOW, plans=(plan,)))
    await store.place_hold(Hold("default", NOW + 60, "ann", "a demo", NOW))
    assert await store.claim_action(NOW + 1) is None
    (record,) = await store.steering_actions(NOW)
    assert (record.status, record.plan.pool) == (ActionStatus.FAILED, "default")


async def test_an_action_that_waits_is_claimed_by_nobody_until_a_person_says_yes_in_time(
    store: StateStore,
) -> None:
    plan = replace(PLAN, kind=ActionKind.EXCLUDE_WORKER, expires_at=NOW + 9, approvers=("ann",))
    await store.commit_tick(TickCommit(at=NOW, plans=(plan, replace(plan, id="late")), claims=True))
    assert await store.claim_action(NOW) is None
    yes, no = ActionStatus.PLANNED, ActionStatus.EXPIRED
    assert not await store.decide_action("late", yes, who="ann", at=NOW + 9, why="")
    assert await store.decide_action("late", no, who="", at=NOW + 9, why="too late")
    assert await store.decide_action(plan.id, yes, who="ann", at=NOW + 8, why="do it")
    assert not await store.decide_action(plan.id, yes, who="bob", at=NOW + 8, why="")
    claimed = await store.claim_action(NOW + 10)
    assert claimed is not None
    assert (claimed.id, claimed.approvers) == (plan.id, ("ann",))
    told = [it.summary for it in await store.audit(9, kind=AuditKind.APPROVAL)]
    assert told == [
        "exclude_worker on pool: approved by ann: do it",
        "exclude_worker on pool: expired: too late",
    ]


async def test_what_came_of_an_action_is_kept_once(store: StateStore) -> None:
    plan = replace(
        PLAN, kind=ActionKind.DRAIN_WORKER, target="w0", parameters={"verify_seconds": 60}
    )
    await store.commit_tick(TickCommit(at=NOW, plans=(plan,)))
    await store.claim_action(NOW)
    done = applied(plan)
    await store.finish_action(done)
    (record,) = await store.steering_actions(NOW)
    assert record.verify_by == done.at + 60
    verdict = Verified(plan.id, "w0", NOW + 9, helped=False, told="no better")
    await store.save_verdicts([verdict, replace(verdict, helped=True)])
    (record,) = await store.steering_actions(NOW)
    assert (record.verified_at, record.helped) == (NOW + 9, False)
    assert [it.summary for it in await store.audit(9, kind=AuditKind.EFFECT)] == ["no better"]
