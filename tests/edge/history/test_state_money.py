from __future__ import annotations

from dataclasses import replace

from ds4watch.cost.budgets import Budget, Period, Scope
from ds4watch.engine.restart import budget_book
from ds4watch.history.ledger_values import RequestTotal, RequestTotals, SpoolBatch, WorkRow
from ds4watch.history.rows import Committed, TickCommit
from ds4watch.history.state import StateStore
from ds4watch.model.usage import RequestOutcome, RetryReason, Usage
from tests.edge.history.helpers import NOW, Base
from tests.edge.history.state_facts import COST, RECORD, SHED

WHOSE = ((Scope.TOTAL, ""), (Scope.KEY, "alice"), (Scope.MODEL, "another"))


async def test_a_spool_is_booked_exactly_once(store: StateStore, base: Base) -> None:
    first = SpoolBatch("g0", 0, 100, (RECORD, SHED))
    second = SpoolBatch("g0", 100, 150, (replace(RECORD, seq=3, ended_at=NOW + 3600),))
    assert await store.commit_tick(TickCommit(at=NOW, spools=(first,))) == Committed()
    again = await store.commit_tick(TickCommit(at=NOW, spools=(first,)))
    assert again.refused_spools == (("g0", 100),)
    ahead = await store.commit_tick(TickCommit(at=NOW, spools=(SpoolBatch("g0", 120, 150, ()),)))
    assert ahead.refused_spools == (("g0", 100),)
    assert await store.commit_tick(TickCommit(at=NOW, spools=(second,))) == Committed()
    assert await store.ledger.requests_totals() == RequestTotals(
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
    assert await store.ledger.spent_total() == 3 * COST.nanos + 1
    assert await store.ledger.cost_between(NOW, NOW + 3600) == [replace(COST, nanos=3 * COST.nanos)]
    assert await store.ledger.cost_between(NOW + 3600, NOW + 7200) == [
        replace(idle, hour_at=NOW + 3600)
    ]


async def test_work_is_told_by_hour_key_and_model(store: StateStore) -> None:
    other = replace(RECORD, seq=3, key="bob", worker="another", usage=Usage(7, 1, 2))
    later = replace(RECORD, seq=4, ended_at=NOW + 3600)
    batch = SpoolBatch("g0", 0, 100, (RECORD, replace(RECORD, worker="b"), other, later))
    await store.commit_tick(TickCommit(at=NOW, spools=(batch,)))
    hour = NOW // 3600 * 3600
    assert await store.ledger.work_between(hour, hour + 3600) == [
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
