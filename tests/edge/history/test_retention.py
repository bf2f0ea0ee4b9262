"""What is over is deleted when it is old; what is in force, unfinished, or a sum stays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from ds4watch.history.ledger_values import CostRow, SpoolBatch
from ds4watch.history.quality_values import QualityRun
from ds4watch.history.rows import AuditEntry, AuditKind, JobRun, Retention, TickCommit
from ds4watch.history.state import StateStore
from ds4watch.model.action import ActionStatus, Hold
from tests.edge.history.helpers import NOW, Bases, FixedClock
from tests.edge.history.state_facts import PLAN, RECORD, SHED, TO_FIRING, applied

DAY = 86_400.0
KEEP = Retention(audit_seconds=90 * DAY, ledger_seconds=1096 * DAY)
OLD = NOW - 91 * DAY


@pytest_asyncio.fixture
async def store(bases: Bases) -> AsyncIterator[StateStore]:
    store = StateStore.open(bases.state.place, FixedClock(), answer_timeout_seconds=30.0)
    await store.load(NOW)
    yield store
    await store.close()


async def do(store: StateStore, name: str, at: float, status: ActionStatus) -> None:
    plan = replace(PLAN, id=name, planned_at=at)
    await store.commit_tick(TickCommit(at=at, plans=(plan,)))
    assert await store.claim_action(at)
    await store.finish_action(replace(applied(plan, status=status), at=at))


async def test_old_audit_events_messages_holds_and_runs_go(store: StateStore) -> None:
    run = QualityRun(OLD, "q", "full", "m", 0.5, 8, 8, 1.0)
    for at in (OLD, NOW):
        event = replace(TO_FIRING, at=at)
        await store.commit_tick(TickCommit(at=at, transitions=(event,), messages=(event,)))
        message = await store.claim_notification(at)
        assert message is not None
        await store.finish_notification(message.id, at=at)
        await store.place_hold(Hold("pool", at + 60, "ann", "x", at))
        await store.quality.add_quality(replace(run, at=at))
    waiting = replace(TO_FIRING, at=OLD)
    await store.commit_tick(TickCommit(at=NOW, transitions=(waiting,), messages=(waiting,)))
    assert await store.prune(KEEP, NOW) > 0
    assert {entry.at for entry in await store.audit(100)} == {NOW}
    assert [hold.placed_at for hold in await store.holds(NOW)] == [NOW]
    assert [run.at for run in await store.quality.latest_quality()] == [NOW]
    message = await store.claim_notification(NOW)
    assert message is not None
    assert message.created_at == OLD, "what was never sent is not deleted"
    assert await store.prune(KEEP, NOW) == 0


async def test_actions_in_force_or_unfinished_stay_however_old(store: StateStore) -> None:
    await do(store, "failed", OLD, ActionStatus.FAILED)
    await do(store, "followed", OLD, ActionStatus.APPLIED)
    await do(store, "in force", OLD + 1, ActionStatus.APPLIED)
    await store.commit_tick(TickCommit(at=OLD, plans=(replace(PLAN, id="open", planned_at=OLD),)))
    await store.prune(KEEP, NOW)
    assert {record.plan.id for record in await store.actions()} == {"in force", "open"}
    assert {record.plan.id for record in (await store.load(NOW)).actions} == {"in force", "open"}


async def test_sums_of_the_ledger_outlive_the_hours(store: StateStore) -> None:
    ancient = NOW - 1100 * DAY
    for number, at in enumerate((ancient, ancient + 7200, NOW)):
        records = (replace(RECORD, ended_at=at), replace(SHED, ended_at=at))
        spool = SpoolBatch("g0", number * 100, number * 100 + 100, records)
        costs = tuple(CostRow(at, worker, "p", "busy", 7) for worker in ("w1", "w2"))
        await store.commit_tick(TickCommit(at=at, spools=(spool,), costs=costs))
    before = await store.ledger.requests_totals()
    assert await store.prune(KEEP, NOW) > 0
    assert await store.ledger.requests_totals() == before
    assert await store.ledger.spent_total() == 42
    assert len(await store.ledger.cost_between(0, NOW + 3600)) == 3
    assert await store.prune(KEEP, NOW) == 0
    assert await store.ledger.spent_total() == 42


async def test_more_rows_than_a_slice_go_too(store: StateStore) -> None:
    entries = [AuditEntry(OLD, AuditKind.WORKER, "w1", f"step {n}") for n in range(2500)]
    await store.add_audit(*entries)
    assert await store.prune(KEEP, NOW) == 2500


@pytest.mark.parametrize("count", [1500])
async def test_every_unfinished_action_is_restored_however_many(
    store: StateStore, count: int
) -> None:
    plans = tuple(
        replace(PLAN, id=f"p{n:04}", target=f"t{n}", planned_at=NOW + n) for n in range(count)
    )
    await store.commit_tick(TickCommit(at=NOW, plans=plans))
    restored = (await store.load(NOW)).actions
    assert [record.plan.id for record in restored] == [plan.id for plan in plans]


async def test_of_actions_on_one_target_the_last_applied_is_in_force(store: StateStore) -> None:
    for number in range(3):
        await do(store, f"level {number}", NOW + number, ActionStatus.APPLIED)
    assert [it.plan.id for it in (await store.load(NOW)).actions] == ["level 2"]


async def test_a_jobs_last_run_and_last_success_are_kept(store: StateStore) -> None:
    await store.job_started("prune", NOW)
    assert await store.jobs() == [JobRun("prune", NOW)]
    await store.job_finished("prune", at=NOW + 1, took_seconds=1.0, result="7 rows", ok=True)
    await store.job_started("prune", NOW + 60)
    await store.job_finished(
        "prune", at=NOW + 61, took_seconds=1.5, result="disk is full", ok=False
    )
    assert await store.jobs() == [
        JobRun(
            "prune", NOW + 60, NOW + 61, 1.5, "disk is full", ok=False, last_succeeded_at=NOW + 1
        )
    ]


async def test_text_that_a_server_would_refuse_is_stored_all_the_same(store: StateStore) -> None:
    odd = "nul \0, lone \ud800, é"
    long = "x" * 400
    entry = AuditEntry(NOW, AuditKind.WORKER, long, odd, {"value": float("nan"), "text": odd})
    await store.add_audit(entry, replace(entry, subject=long + "y"))
    second, first = await store.audit(10)
    assert first.summary == "nul \N{REPLACEMENT CHARACTER}, lone ?, é"
    assert first.detail == {"value": "nan", "text": odd}
    assert len(first.subject) == 255
    assert first.subject != second.subject
