from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from ds4watch.history.asked_values import RollingChange
from ds4watch.history.ledger_values import RequestTotals, SpoolBatch
from ds4watch.history.quality_values import QualityRun
from ds4watch.history.rows import AuditEntry, AuditKind, Committed, TickCommit
from ds4watch.history.state import StateStore
from ds4watch.model.action import (
    ActionStatus,
)
from ds4watch.model.errors import EdgeReason, StoreError
from ds4watch.model.worker import WorkerPhase, WorkerView
from tests.edge.history.helpers import NOW, Base, SqliteBase
from tests.edge.history.state_facts import (
    COST,
    FIRING,
    LABELS,
    PENDING,
    PLAN,
    RECORD,
    REFUSAL,
    TO_FIRING,
    TO_PENDING,
    TO_RESOLVED,
    opened,
)


async def test_a_new_store_has_nothing_to_restore(store: StateStore) -> None:
    restored = await store.load(NOW)
    assert (restored.alerts, restored.actions, restored.holds) == ((), (), ())
    assert (restored.last_tick_at, restored.policy, restored.policy_version) == (None, None, 0)
    assert await store.ledger.requests_totals() == RequestTotals()
    assert await store.ledger.spent_total() == 0


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
        assert await store.ledger.requests_totals() == RequestTotals()
    assert await store.commit_tick(commit) == Committed()
    assert [state.name for state in await store.alerts()] == ["Queue"]
    assert await store.ledger.spent_total() == COST.nanos


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
        await store.quality.add_quality(run)
    assert await store.quality.latest_quality() == [new, broken]


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
        await store.ledger.spent_total()


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
    assert await store.ledger.spent_total() == last_tick_at + 1
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
