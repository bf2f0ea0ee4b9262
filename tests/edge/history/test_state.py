from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import pytest_asyncio

from ds4watch.cost.budgets import Budget, Period, Scope
from ds4watch.engine.restart import budget_book
from ds4watch.history.rows import (
    AuditEntry,
    AuditKind,
    Committed,
    CostRow,
    QualityRun,
    RequestTotal,
    RequestTotals,
    RollingChange,
    SpoolBatch,
    TickCommit,
    WorkRow,
)
from ds4watch.history.state import StateStore
from ds4watch.model.action import (
    ActionKind,
    ActionPlan,
    ActionStatus,
    Hold,
    Outcome,
    Refusal,
    RefusalReason,
)
from ds4watch.model.alert import AlertPhase, AlertState, Transition
from ds4watch.model.errors import EdgeReason, StoreError
from ds4watch.model.usage import RequestOutcome, RequestRecord, RetryReason, Usage
from ds4watch.model.worker import WorkerPhase, WorkerView
from tests.edge.history.helpers import NOW, Base, Bases, FixedClock, SqliteBase

LABELS = (("alertname", "Queue"), ("severity", "critical"), ("worker", "w1"))
FIRING = AlertState(
    rule_id="r1",
    labels=LABELS,
    phase=AlertPhase.FIRING,
    active_at=NOW - 5.25,
    value=math.inf,
    fired_at=NOW,
    annotations=(("summary", "long queue"),),
    held=True,
)
PENDING = AlertState("r2", (("alertname", "Other"),), AlertPhase.PENDING, NOW, 0.5)
TO_FIRING = Transition(
    FIRING.fingerprint, LABELS, AlertPhase.PENDING, AlertPhase.FIRING, NOW, math.nan, "held 5 s"
)
TO_PENDING = replace(TO_FIRING, old=AlertPhase.INACTIVE, new=AlertPhase.PENDING, at=NOW - 5)
TO_RESOLVED = replace(TO_FIRING, old=AlertPhase.FIRING, new=AlertPhase.RESOLVED, at=NOW + 9)
PLAN = ActionPlan(
    id="f1/set_level/pool/1",
    kind=ActionKind.SET_LEVEL,
    target="pool",
    cause=FIRING.fingerprint,
    planned_at=NOW,
    parameters={"level": 1},
    before={"level": 0},
    reason="the queue is long",
)
REFUSAL = Refusal(
    ActionKind.SET_LEVEL, "pool", RefusalReason.SETTLING, "12 s to go", FIRING.fingerprint, NOW
)
RECORD = RequestRecord(
    id="req-1",
    gateway="g0",
    seq=1,
    ended_at=NOW + 10,
    key="alice",
    path="/v1/completions",
    model_asked="tiny",
    model_served="tiny-full",
    worker="w1",
    status=200,
    outcome=RequestOutcome.OK,
    stream=False,
    duration_seconds=1.0,
    usage=Usage(prompt=10, cached=4, completion=3),
    retries=(("w2", RetryReason.CONNECT), ("w3", RetryReason.CONNECT)),
)
SHED = replace(RECORD, seq=2, outcome=RequestOutcome.SHED, model_served="", usage=None, retries=())
COST = CostRow(NOW, "w1", "tiny-full", "busy", 263_888_889)


@pytest.fixture
def base(bases: Bases) -> Base:
    return bases.state


@pytest_asyncio.fixture
async def store(base: Base) -> AsyncIterator[StateStore]:
    store = StateStore.open(
        base.place, FixedClock(), busy_timeout_seconds=0.1, answer_timeout_seconds=30.0
    )
    yield store
    await store.close()


def opened(base: Base) -> StateStore:
    return StateStore.open(base.place, FixedClock(), answer_timeout_seconds=30.0)


def applied(
    plan: ActionPlan, *, status: ActionStatus = ActionStatus.APPLIED, detail: str = ""
) -> Outcome:
    return Outcome(plan.id, status, NOW + 2, 0.5, detail, after={"level": 1})


async def test_a_new_store_has_nothing_to_restore(store: StateStore) -> None:
    restored = await store.load(NOW)
    assert (restored.alerts, restored.actions, restored.holds) == ((), (), ())
    assert (restored.last_tick_at, restored.policy, restored.policy_version) == (None, None, 0)
    assert await store.requests_totals() == RequestTotals()
    assert await store.spent_total() == 0


async def test_what_a_tick_decided_is_restored_after_a_restart(
    store: StateStore, base: Base
) -> None:
    view = WorkerView("w1", "tiny-full", ("tiny",), "http://w1", WorkerPhase.READY, NOW, pid=7)
    commit = TickCommit(
        at=NOW,
        alerts=(FIRING, PENDING),
        transitions=(TO_PENDING, TO_FIRING),
        plans=(PLAN,),
        refusals=(REFUSAL,),
        costs=(COST,),
        workers=(view,),
        carry={"w1": "0.25"},
    )
    assert await store.commit_tick(commit) == Committed()
    await store.save_policy({"version": 3, "level": 1})
    await store.close()

    again = opened(base)
    restored = await again.load(NOW + 1)
    assert restored.alerts == (replace(FIRING, confirmed=False), replace(PENDING, confirmed=False))
    assert [(one.plan, one.status) for one in restored.actions] == [(PLAN, ActionStatus.PLANNED)]
    assert restored.last_tick_at == NOW
    assert (restored.policy, restored.policy_version) == ({"version": 3, "level": 1}, 3)
    assert restored.carry == {"w1": "0.25"}
    assert [(entry.kind, entry.summary) for entry in await again.audit(10)] == [
        (AuditKind.REFUSAL, "refused set_level on pool: settling: 12 s to go"),
        (AuditKind.PLAN, "planned set_level on pool, 0 → 1: the queue is long"),
        (AuditKind.ALERT, "Queue (critical, w1): pending → firing at nan: held 5 s"),
        (AuditKind.ALERT, "Queue (critical, w1): inactive → pending at nan: held 5 s"),
    ]
    assert base.query("SELECT old, new, value FROM alert_events") == [
        ("inactive", "pending", "nan"),
        ("pending", "firing", "nan"),
    ]
    assert base.query("SELECT id, pid, phase, since FROM workers") == [
        ("w1", 7, "ready", "2027-01-15T08:00:00.000000Z")
    ]
    await again.commit_tick(TickCommit(at=NOW + 1, alerts=(FIRING,)))
    assert [state.name for state in await again.alerts()] == ["Queue"]
    await again.close()


@contextmanager
def no_room_for_costs(base: Base) -> Iterator[None]:
    """Let the last statements of a tick fail."""
    if isinstance(base, SqliteBase):
        raising = "BEGIN SELECT RAISE(ABORT, 'no more room'); END"
    else:
        body = "BEGIN RAISE 'no more room'; END"
        base.execute(f"CREATE FUNCTION full() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$")
        raising = "FOR EACH ROW EXECUTE FUNCTION full()"
    base.execute(f"CREATE TRIGGER is_full BEFORE INSERT ON cost_hourly {raising}")
    yield
    table = "" if isinstance(base, SqliteBase) else " ON cost_hourly"
    base.execute(f"DROP TRIGGER is_full{table}")


async def test_a_tick_that_fails_in_the_middle_stores_nothing(
    store: StateStore, base: Base
) -> None:
    await store.commit_tick(TickCommit(at=NOW, alerts=(PENDING,)))
    with no_room_for_costs(base):
        spool = SpoolBatch("g0", 0, 100, (RECORD,))
        commit = TickCommit(
            at=NOW + 1,
            alerts=(FIRING,),
            transitions=(TO_FIRING,),
            plans=(PLAN,),
            refusals=(REFUSAL,),
            spools=(spool,),
            costs=(COST,),
        )
        with pytest.raises(StoreError, match="no more room"):
            await store.commit_tick(commit)
        restored = await store.load(NOW)
        assert [state.name for state in restored.alerts] == ["Other"]
        assert (restored.actions, restored.spool_offsets) == ((), {})
        assert restored.last_tick_at == NOW
        assert await store.audit(10) == []
        assert await store.claim_notification(NOW + 9) is None
        assert await store.requests_totals() == RequestTotals()
    assert await store.commit_tick(commit) == Committed()
    assert [state.name for state in await store.alerts()] == ["Queue"]
    assert await store.spent_total() == COST.nanos


async def test_a_spool_is_booked_exactly_once(store: StateStore, base: Base) -> None:
    first = SpoolBatch("g0", 0, 100, (RECORD, SHED))
    second = SpoolBatch("g0", 100, 150, (replace(RECORD, seq=3, ended_at=NOW + 3600),))
    assert await store.commit_tick(TickCommit(at=NOW, spools=(first,))) == Committed()
    again = await store.commit_tick(TickCommit(at=NOW, spools=(first,)))
    assert again.refused_spools == (("g0", 100),)
    ahead = await store.commit_tick(TickCommit(at=NOW, spools=(SpoolBatch("g0", 120, 150, ()),)))
    assert ahead.refused_spools == (("g0", 100),)
    assert await store.commit_tick(TickCommit(at=NOW, spools=(second,))) == Committed()
    assert await store.requests_totals() == RequestTotals(
        requests=(
            RequestTotal(RequestOutcome.OK, "tiny-full", 2, 20, 8, 6),
            RequestTotal(RequestOutcome.SHED, "unknown", 1, 0, 0, 0),
        ),
        retries=((RetryReason.CONNECT, 4),),
    )
    assert (await store.load(NOW)).spool_offsets == {"g0": 150}
    sql = "SELECT hour_at, key, outcome, requests, unmetered FROM requests_hourly"
    assert sorted((hour[:13], *rest) for hour, *rest in base.query(sql)) == [
        ("2027-01-15T08", "alice", "ok", 1, 0),
        ("2027-01-15T08", "alice", "shed", 1, 1),
        ("2027-01-15T09", "alice", "ok", 1, 0),
    ]
    await store.forget_spool("g0")
    assert (await store.load(NOW)).spool_offsets == {}


async def test_money_adds_up_by_the_hour_in_integers(store: StateStore) -> None:
    idle = replace(COST, part="idle", hour_at=NOW + 3601, nanos=1)
    await store.commit_tick(TickCommit(at=NOW, costs=(COST, COST)))
    await store.commit_tick(TickCommit(at=NOW, costs=(replace(COST, hour_at=NOW + 9), idle)))
    assert await store.spent_total() == 3 * COST.nanos + 1
    assert await store.cost_between(NOW, NOW + 3600) == [replace(COST, nanos=3 * COST.nanos)]
    assert await store.cost_between(NOW + 3600, NOW + 7200) == [replace(idle, hour_at=NOW + 3600)]


async def test_work_is_told_by_hour_key_and_model(store: StateStore) -> None:
    other = replace(RECORD, seq=3, key="bob", worker="another", usage=Usage(7, 1, 2))
    later = replace(RECORD, seq=4, ended_at=NOW + 3600)
    batch = SpoolBatch("g0", 0, 100, (RECORD, replace(RECORD, worker="b"), other, later))
    await store.commit_tick(TickCommit(at=NOW, spools=(batch,)))
    hour = NOW // 3600 * 3600
    assert await store.work_between(hour, hour + 3600) == [
        WorkRow(hour, "alice", "tiny-full", 2, Usage(20, 8, 6)),
        WorkRow(hour, "bob", "tiny-full", 1, Usage(7, 1, 2)),
    ]


async def test_budgets_go_on_after_a_restart(store: StateStore) -> None:
    hour = int(NOW // 3600 * 3600)
    batch = SpoolBatch("g0", 0, 100, (RECORD,))
    await store.commit_tick(TickCommit(at=NOW, costs=(COST,), spools=(batch,)))
    budgets = [Budget(scope, who, Period.DAY, 10**9) for scope, who in WHOSE]
    book = await budget_book(store, budgets, NOW + 60)
    assert [it.spent for it in book.standings(NOW + 60)] == [COST.nanos, COST.nanos, 0]
    book.add_money(hour, 5)
    assert next(it.spent for it in book.standings(NOW + 60)) == COST.nanos + 5


WHOSE = ((Scope.TOTAL, ""), (Scope.KEY, "alice"), (Scope.MODEL, "another"))


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


async def test_firing_and_resolved_are_told_and_a_failed_message_waits(
    store: StateStore, base: Base
) -> None:
    news = (TO_FIRING, TO_RESOLVED)
    await store.commit_tick(TickCommit(at=NOW, transitions=(TO_PENDING, *news), messages=news))
    assert base.query("SELECT status FROM outbox") == [("waiting",), ("waiting",)]
    first = await store.claim_notification(NOW)
    assert first is not None
    assert (first.kind, first.attempts, first.payload["value"]) == ("firing", 1, "nan")
    assert first.payload["labels"] == dict(LABELS)
    assert await store.claim_notification(NOW) is None
    await store.finish_notification(first.id, at=NOW, error="429", retry_at=NOW + 30)
    second = await store.claim_notification(NOW + 20)
    assert second is not None
    assert second.kind == "resolved"
    await store.finish_notification(second.id, at=NOW + 20)
    retried = await store.claim_notification(NOW + 30)
    assert retried is not None
    assert (retried.id, retried.attempts) == (first.id, 2)
    await store.close()

    again = opened(base)
    await again.load(NOW + 40)
    after_restart = await again.claim_notification(NOW + 40)
    assert after_restart is not None
    assert after_restart.id == first.id
    await again.finish_notification(first.id, at=NOW + 40, error="gone for good")
    assert base.query("SELECT status, error FROM outbox ORDER BY id") == [
        ("given_up", "gone for good"),
        ("sent", None),
    ]
    await again.close()


async def test_the_audit_is_paged_from_the_newest(store: StateStore) -> None:
    entries = [
        AuditEntry(NOW + number, AuditKind.WORKER, "w1", f"step {number}", {"n": number}, "ann")
        for number in range(5)
    ]
    await store.add_audit(*entries)
    await store.add_audit(AuditEntry(NOW + 9, AuditKind.DAEMON, "daemon", "started"))
    page = await store.audit(2, kind=AuditKind.WORKER)
    assert [entry.summary for entry in page] == ["step 4", "step 3"]
    rest = await store.audit(10, before_id=page[-1].id)
    assert [replace(entry, id=None) for entry in rest] == entries[2::-1]


async def test_the_newest_quality_run_of_each_pair_counts(store: StateStore) -> None:
    old = QualityRun(NOW, "q", "full", "mean_abs_delta_logp", 0.25, 8, 128, 1.5)
    new = replace(old, at=NOW + 1, value=math.inf)
    broken = replace(old, profile="r", value=None, error="no answer")
    for run in (old, new, broken):
        await store.add_quality(run)
    assert await store.latest_quality() == [new, broken]


async def test_a_reader_that_holds_a_transaction_stops_no_commit(
    store: StateStore, base: Base
) -> None:
    with base.reading("SELECT count(*) FROM audit"):
        await store.commit_tick(TickCommit(at=NOW, transitions=(TO_FIRING,)))
    assert len(await store.audit(10)) == 1


async def test_a_locked_file_is_a_retryable_error_and_the_same_tick_goes_in_later(
    store: StateStore, base: Base
) -> None:
    commit = TickCommit(at=NOW, alerts=(FIRING,), plans=(PLAN,))
    with base.writing():
        with pytest.raises(StoreError) as caught:
            await store.commit_tick(commit)
        assert (caught.value.reason, caught.value.retryable) == (EdgeReason.LOCKED, True)
    assert await store.commit_tick(commit) == Committed()
    assert len(await store.alerts()) == 1


async def test_after_close_a_call_is_refused_and_closing_twice_is_nothing(
    store: StateStore,
) -> None:
    await store.close()
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.spent_total()


async def test_worker_rows_follow_the_worker_whoever_writes_them(
    store: StateStore, base: Base
) -> None:
    ready = WorkerView("w1", "p", ("m",), "http://w1", WorkerPhase.READY, NOW)
    await store.commit_tick(TickCommit(at=NOW, workers=(ready,)))
    await store.save_workers([replace(ready, phase=WorkerPhase.DRAINING)])
    await store.commit_tick(TickCommit(at=NOW, workers=(ready,)))
    assert base.query("SELECT id, phase FROM workers") == [("w1", "ready")]


WRITER = """
import asyncio, sys
from ds4watch.history.rows import CostRow, TickCommit
from ds4watch.history.state import StateStore
from tests.edge.history.helpers import FixedClock, place_from

async def main():
    store = StateStore.open(place_from(sys.argv[1]), FixedClock())
    for at in range(1_000_000):
        await store.commit_tick(TickCommit(at=at, costs=(CostRow(0.0, "w", "p", "busy", 1),)))
        print(at, flush=True)

asyncio.run(main())
"""


async def test_kill_9_keeps_every_tick_that_was_committed(base: Base) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, base.argument], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    with writer:
        said = [int(writer.stdout.readline()) for _ in range(50)]
        writer.kill()
        said += [int(line) for line in writer.stdout.read().split()]
    store = opened(base)
    last_tick_at = (await store.load(NOW)).last_tick_at
    assert last_tick_at is not None
    assert last_tick_at in (said[-1], said[-1] + 1)
    assert await store.spent_total() == last_tick_at + 1
    await store.close()


async def test_the_last_rolling_change_is_kept_as_far_as_it_is_and_old_ones_go(
    store: StateStore,
) -> None:
    assert await store.last_rolling() is None
    change = RollingChange(1, "p", "running", "ops", "new", NOW, NOW, "own", {"change": {"at": 0}})
    told = AuditEntry(
        NOW, AuditKind.FLEET, "fleet", "rolling change begun, 4 steps: new", who="ops"
    )
    await store.save_rolling(change, told)
    ahead = replace(change, updated_at=NOW + 5, document={"change": {"at": 1}})
    await store.save_rolling(ahead)
    assert await store.last_rolling() == ahead
    (row,) = await store.audit(10, kind=AuditKind.FLEET)
    assert (row.who, row.summary) == ("ops", told.summary)
    for number in range(2, 40):
        await store.save_rolling(replace(change, number=number))
    last = await store.last_rolling()
    assert last is not None
    assert last.number == 39
