"""Requests, tokens, time and cost are added up in the database, alike in both engines."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from sqlalchemy import insert

from ds4watch.cost.key_spending import spent_by_key
from ds4watch.history.ledger_models import cost_hourly
from ds4watch.history.ledger_values import CostRow, SpoolBatch
from ds4watch.history.migrate import Which, upgrade
from ds4watch.history.request_sums import RequestSum, SumBy
from ds4watch.history.rows import TickCommit
from ds4watch.history.state import StateStore
from ds4watch.model.usage import RequestOutcome, RequestRecord, RetryReason, Usage
from tests.edge.clock import SystemClock
from tests.edge.history.helpers import Bases
from tests.edge.history.test_migrate import downgrade, engine_of

HOUR = 1_800_000_000.0
ASKED = RequestRecord(
    id="r", gateway="g0", seq=1, ended_at=HOUR + 60, key="a", path="/", model_asked="m",
    model_served="m", worker="w", status=200, outcome=RequestOutcome.OK, stream=True,
    duration_seconds=4.0, queue_seconds=0.5, tried_seconds=1.0, first_byte_seconds=1.5,
    usage=Usage(100, 60, 10), profile="p", work_class="batch", choices=2,
    retries=(("v", RetryReason.BUSY),),
)  # fmt: skip
OTHER = replace(ASKED, key="b", usage=Usage(20), stream=False, choices=1, retries=())
SHED = replace(
    ASKED, key="b", outcome=RequestOutcome.SHED, worker="", profile="", model_served="",
    usage=None, queue_seconds=None, tried_seconds=None, first_byte_seconds=None, retries=(),
    degraded=("level=2", "shed=priority"), duration_seconds=0.25,
)  # fmt: skip
COSTS = (
    CostRow(HOUR, "w", "p", "busy", 1000),
    CostRow(HOUR, "w", "q", "busy", 3),
    CostRow(HOUR, "w", "p", "idle", 5000),
)


def opened(bases: Bases) -> StateStore:
    return StateStore.open(bases.state.place, SystemClock(), answer_timeout_seconds=30.0)


async def test_sums_by_key_have_counts_tokens_stages_and_a_share_of_the_busy_money(
    bases: Bases,
) -> None:
    store = opened(bases)
    batch = SpoolBatch("g0", 0, 9, (ASKED, OTHER, SHED))
    for _ in range(2):  # told twice, booked once
        await store.commit_tick(TickCommit(at=HOUR + 90, spools=(batch,)))
    await store.commit_tick(TickCommit(at=HOUR + 91, costs=COSTS))
    first, second = await store.ledger.request_sums(SumBy.KEY, HOUR)
    assert first == RequestSum(
        name="a", requests=1, errors=0, refused=0, shed=0, gone=0, retries=1, degraded=0,
        filtered=0, estimated=0, unmetered=0, prompt_tokens=100, cached_tokens=60,
        completion_tokens=10, worker_prompt_tokens=200, queue_seconds=0.5, lost_seconds=0.5,
        prefill_seconds=0.5, decode_seconds=2.5, unsplit_seconds=0.0, nanos=1003 * 130 // 170,
    )  # fmt: skip
    assert second == RequestSum(
        name="b", requests=2, errors=0, refused=0, shed=1, gone=0, retries=0, degraded=1,
        filtered=0, estimated=0, unmetered=1, prompt_tokens=20, cached_tokens=0,
        completion_tokens=0, worker_prompt_tokens=20, queue_seconds=0.75, lost_seconds=0.5,
        prefill_seconds=0.0, decode_seconds=0.0, unsplit_seconds=3.0, nanos=1003 * 40 // 170,
    )  # fmt: skip
    names = {by: {it.name for it in await store.ledger.request_sums(by, HOUR)} for by in SumBy}
    assert names == {
        SumBy.KEY: {"a", "b"},
        SumBy.MODEL: {"m", "unknown"},
        SumBy.WORKER: {"w", ""},
        SumBy.PROFILE: {"p", ""},
        SumBy.CLASS: {"batch"},
    }
    assert await store.ledger.request_sums(SumBy.KEY, HOUR + 3600) == []
    sql = 'SELECT "key", sum(nanos) FROM requests_cost_hourly GROUP BY "key" ORDER BY 1'
    assert [(key, int(nanos)) for key, nanos in bases.state.query(sql)] == [("a", 767), ("b", 236)]
    await store.close()


async def test_shares_stay_exact_where_products_would_leave_64_bits(bases: Bases) -> None:
    much = Usage(4 * 10**14, 0, 10**14)
    store = opened(bases)
    records = (replace(ASKED, usage=much), replace(OTHER, usage=much))
    batch = SpoolBatch("g0", 0, 9, records)
    costs = (CostRow(HOUR, "w", "p", "busy", 10**15 + 1),)
    await store.commit_tick(TickCommit(at=HOUR + 90, spools=(batch,), costs=costs))
    assert [it.nanos for it in await store.ledger.request_sums(SumBy.KEY, HOUR)] == [5 * 10**14] * 2
    await store.close()


@st.composite
def hours(draw: DrawFn) -> tuple[list[RequestRecord], list[CostRow]]:
    tokens = st.integers(0, 10**6)
    records = [
        replace(
            ASKED,
            key=draw(st.sampled_from("abc")),
            worker=draw(st.sampled_from("vw")),
            ended_at=HOUR + draw(st.sampled_from([1, 3601])),
            usage=Usage(prompt := draw(tokens), draw(st.integers(0, prompt)), draw(tokens)),
        )
        for _ in range(draw(st.integers(1, 8)))
    ]
    costs = [
        CostRow(HOUR + at, worker, "p", "busy", draw(st.integers(0, 10**12)))
        for at in (0, 3600)
        for worker in "vw"
    ]
    return records, costs


@settings(max_examples=20, deadline=None)
@given(hours())
async def test_the_view_agrees_with_what_budgets_go_by_and_never_gives_out_more_than_was_spent(
    tmp_path_factory: object, told: tuple[list[RequestRecord], list[CostRow]]
) -> None:
    records, costs = told
    folder = tmp_path_factory.mktemp("it")  # type: ignore[attr-defined] # not exported by pytest
    store = StateStore.open(folder / "state.db", SystemClock(), answer_timeout_seconds=30.0)
    batch = SpoolBatch("g0", 0, 9, tuple(records))
    await store.commit_tick(TickCommit(at=HOUR, spools=(batch,), costs=tuple(costs)))
    sums = {it.name: it.nanos for it in await store.ledger.request_sums(SumBy.KEY, HOUR)}
    budgets = spent_by_key(*await store.key_use(HOUR))
    await store.close()
    assert {key: sum(it.values()) for key, it in budgets.items() if any(it.values())} == {
        key: nanos for key, nanos in sums.items() if nanos
    }
    assert sum(sums.values()) <= sum(it.nanos for it in costs)


def test_what_was_booked_before_is_kept_by_the_change_of_the_table_and_added_up_on_the_way_back(
    bases: Bases,
) -> None:
    engine = engine_of(bases.state)
    upgrade(engine, Which.STATE, name="it")
    downgrade(engine, Which.STATE, "0005")
    at = "'2027-01-15 08:00:00+00'"
    bases.state.execute(
        f"INSERT INTO requests_hourly VALUES ({at}, 'a', 'm', 'w', 'ok', 3, 1, 0, 50, 20, 7, 2)"
    )
    upgrade(engine, Which.STATE, name="it")
    sql = (
        "SELECT profile, work_class, requests, worker_prompt_tokens, retries, queue_seconds"
        " FROM requests_hourly"
    )
    assert bases.state.query(sql) == [("", "", 3, 50, 2, 0.0)]
    with engine.begin() as connection:
        connection.execute(
            insert(cost_hourly),
            {"hour_at": HOUR, "worker": "w", "profile": "p", "part": "busy", "nanos": 5},
        )
    bases.state.execute(
        "INSERT INTO requests_hourly SELECT hour_at, key, model, worker, 'p', 'batch', outcome,"
        " requests, estimated, unmetered, prompt_tokens, cached_tokens, completion_tokens,"
        " retries, 0, 0, 0, 0, 0, 0, 0, 0 FROM requests_hourly"
    )
    downgrade(engine, Which.STATE, "0005")
    sql = "SELECT key, requests, prompt_tokens, retries FROM requests_hourly"
    assert bases.state.query(sql) == [("a", 6, 100, 4)]
    engine.dispose()
