"""The identity of docs/cost.md holds in both databases, by its own statements."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from ds4watch.cost.attribution import Charge, CostPart, charges, staged
from ds4watch.cost.prices import PriceEntry
from ds4watch.history.ledger_values import CostRow, PaidRow, SpoolBatch, StorageRow
from ds4watch.history.rows import TickCommit
from ds4watch.history.state import StateStore
from ds4watch.model.usage import RequestOutcome, RequestRecord, RetryReason, Usage
from ds4watch.model.worker import WorkerLoad, WorkerPhase, WorkerView
from tests.edge.clock import SystemClock
from tests.edge.history.helpers import Bases

HOUR = 1_800_000_000.0
PARTS_OFF, PRICE_OFF, TOKENS_OFF = re.findall(
    "```sql\n(.*?)```", (Path(__file__).parents[3] / "docs/cost.md").read_text(), re.DOTALL
)
WORKER = WorkerView(
    id="w", profile="p", models=("m",), url="", phase=WorkerPhase.READY, since=0.0,
    load=WorkerLoad(running=1.0),
)  # fmt: skip
ASKED = RequestRecord(
    id="r", gateway="g0", seq=1, ended_at=HOUR + 60, key="a", path="/", model_asked="m",
    model_served="m", worker="w", status=200, outcome=RequestOutcome.OK, stream=True,
    duration_seconds=4.0, queue_seconds=0.5, tried_seconds=1.0, first_byte_seconds=1.5,
    usage=Usage(3000, 60, 10), profile="p", again_tokens=740,
    retries=(("v", RetryReason.TIMEOUT),),
)  # fmt: skip


def opened(place: object) -> StateStore:
    return StateStore.open(place, SystemClock(), answer_timeout_seconds=30.0)  # type: ignore[arg-type]


def commit_of(found: tuple[Charge, ...], ratios: dict[str, float], at: float) -> TickCommit:
    return TickCommit(
        at=at,
        costs=tuple(
            CostRow(it.hour_at, it.worker, it.profile, it.part.value, it.nanos)
            for it in staged(found, ratios)
        ),
        paid=tuple(
            PaidRow(it.hour_at, it.worker, it.profile, it.nanos_per_hour, it.paid_ms, it.nanos)
            for it in found
        ),
    )


async def test_an_hour_is_its_price_and_its_parts_by_the_statements_for_people(
    bases: Bases,
) -> None:
    store = opened(bases.state.place)
    prices = (PriceEntry("*", 3_333_333_333, 0.0),)
    batch = SpoolBatch("g0", 0, 9, (ASKED, replace(ASKED, outcome=RequestOutcome.CLIENT_GONE)))
    await store.commit_tick(TickCommit(at=HOUR + 90, spools=(batch,)))
    cuts = (HOUR, HOUR + 61.003, HOUR + 1800.7, HOUR + 3600)
    for start, end in pairwise(cuts):
        found = charges(WORKER, prices, start, end)
        await store.commit_tick(commit_of(found, {"w": 0.37}, end))
    assert await store.ledger.settle_parts(HOUR) == await store.ledger.settle_parts(HOUR) > 0
    parts = bases.state.query("SELECT part, nanos FROM cost_parts_hourly ORDER BY part")
    assert [part for part, _ in parts] == ["decode", "prefill", "prefill_again", "retries"]
    assert sum(nanos for _, nanos in parts) == 3_333_333_333
    assert [int(row[-1]) for row in bases.state.query(PARTS_OFF)] == [0]
    assert [int(row[-1]) for row in bases.state.query(PRICE_OFF)] == [0]
    assert bases.state.query(TOKENS_OFF) == []
    await store.close()


async def test_what_was_booked_late_is_settled_and_what_was_added_up_is_not(bases: Bases) -> None:
    store = opened(bases.state.place)
    found = charges(WORKER, (PriceEntry("*", 3_600_000_000, 0.0),), HOUR, HOUR + 3600)
    await store.commit_tick(commit_of(found, {"w": 0.5}, HOUR + 3600))
    await store.ledger.settle_parts(HOUR)
    late = SpoolBatch("g0", 0, 9, (ASKED, replace(ASKED, outcome=RequestOutcome.CLIENT_GONE)))
    await store.commit_tick(TickCommit(at=HOUR + 9 * 3600, spools=(late,)))
    await store.ledger.settle_parts(HOUR + 8 * 3600, oldest_at=HOUR + 3600)
    assert "retries" not in parts_in(bases), "it may be added up: it is left alone"
    late = replace(late, start_bytes=9, end_bytes=18)
    await store.commit_tick(TickCommit(at=HOUR + 9 * 3600, spools=(late,)))
    await store.ledger.settle_parts(HOUR + 8 * 3600, oldest_at=HOUR)
    assert "retries" in parts_in(bases)
    assert [int(row[-1]) for row in bases.state.query(PARTS_OFF)] == [0]
    await store.close()


def parts_in(bases: Bases) -> set[str]:
    return {str(part) for (part,) in bases.state.query("SELECT part FROM cost_parts_hourly")}


async def test_work_is_kept_by_band_and_for_those_who_gave_up(bases: Bases) -> None:
    store = opened(bases.state.place)
    await store.commit_tick(TickCommit(at=HOUR, spools=(SpoolBatch("g0", 0, 9, (ASKED,) * 2),)))
    found = {it.place.worker: it for it in await store.ledger.works_between(HOUR, HOUR + 3600)}
    assert found["w"].place.band == "4k"
    assert found["w"].work.requests == 2
    assert found["w"].work.again_tokens == 2 * 740
    assert found["v"].work.wasted_ms == 2 * 500
    assert await store.ledger.last_served() == {"v": HOUR + 3600, "w": HOUR + 3600}
    await store.close()


async def test_storage_is_added_up_by_price(bases: Bases) -> None:
    store = opened(bases.state.place)
    row = StorageRow(HOUR + 60, "logs", 54_795, 10**15)
    await store.ledger.add_storage([row, row])
    await store.ledger.add_storage([replace(row, nanos_per_gb_hour=1)])
    assert await store.ledger.storage_between(HOUR, HOUR + 3600) == [
        StorageRow(HOUR, "logs", 1, 10**15),
        StorageRow(HOUR, "logs", 54_795, 2 * 10**15),
    ]
    await store.close()


@st.composite
def ticks(draw: DrawFn) -> list[tuple[float, float | None, WorkerPhase, float]]:
    """Draw (seconds, prefill ratio, phase, running) of ticks."""
    return draw(
        st.lists(
            st.tuples(
                st.integers(1, 3_000_000).map(lambda it: it / 1000),
                st.none() | st.floats(0, 1),
                st.sampled_from([WorkerPhase.READY, WorkerPhase.ASLEEP, WorkerPhase.LOADING]),
                st.sampled_from([0.0, 2.0]),
            ),
            min_size=1,
            max_size=6,
        )
    )


@settings(max_examples=15, deadline=None)
@given(ticks(), st.integers(1, 10**12), st.lists(st.sampled_from(RequestOutcome), max_size=4))
async def test_the_identity_holds_whatever_happens(
    tmp_path_factory: object,
    told: list[tuple[float, float | None, WorkerPhase, float]],
    price: int,
    outcomes: list[RequestOutcome],
) -> None:
    folder = tmp_path_factory.mktemp("it")  # type: ignore[attr-defined] # not exported by pytest
    store = opened(folder / "state.db")
    records = tuple(replace(ASKED, outcome=it) for it in outcomes)
    await store.commit_tick(TickCommit(at=HOUR, spools=(SpoolBatch("g0", 0, 9, records),)))
    at, paid = HOUR, 0
    for seconds, ratio, phase, running in told:
        worker = replace(WORKER, phase=phase, load=WorkerLoad(running=running))
        found = charges(worker, (PriceEntry("*", price, 0.0),), at, at + seconds)
        at += seconds
        paid += sum(it.nanos for it in found)
        await store.commit_tick(commit_of(found, {} if ratio is None else {"w": ratio}, at))
    await store.ledger.settle_parts(HOUR)
    rows = await store.ledger.cost_between(HOUR, at)
    await store.close()
    assert sum(it.nanos for it in rows) == paid
    assert {it.part for it in rows} <= {part.value for part in CostPart}
