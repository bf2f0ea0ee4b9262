"""A person's wishes and the learned start-up times outlive the daemon."""

from __future__ import annotations

from dataclasses import replace

from ds4watch.history.asked_values import WorkerWish
from ds4watch.history.rows import AuditKind, StartTime
from ds4watch.history.state import StateStore
from tests.edge.clock import SystemClock
from tests.edge.history.helpers import Bases

WISH = WorkerWish("sim-0", "stopped", None, 1_800_000_000.5, "ann", "its GPU is lent out", 1.8e9)


def opened(bases: Bases) -> StateStore:
    return StateStore.open(bases.state.place, SystemClock(), answer_timeout_seconds=30.0)


async def test_a_wish_takes_the_place_of_the_last_and_each_is_in_the_audit(bases: Bases) -> None:
    store = opened(bases)
    await store.save_worker_wish(WISH, "stop")
    fresh = replace(WISH, wish=None, who="bob", at=WISH.at + 60.0)
    await store.save_worker_wish(fresh, "start")
    await store.close()
    later = opened(bases)
    assert await later.worker_wishes() == [fresh]
    told = [(it.who, it.subject, it.summary) for it in await later.audit(10)]
    assert told == [("bob", "sim-0", "start"), ("ann", "sim-0", "stop")]
    assert {it.kind for it in await later.audit(10)} == {AuditKind.WORKER}
    assert (await later.audit(1))[0].detail == {"why": "its GPU is lent out"}
    await later.close()


async def test_the_last_ten_starts_of_each_profile_are_kept(bases: Bases) -> None:
    store = opened(bases)
    await store.add_start_time(StartTime(1.8e9, "rare", "rare-0", 99.0))
    for number in range(13):
        await store.add_start_time(StartTime(1.8e9 + number, "sim", "sim-0", float(number)))
    kept = await store.start_times()
    assert [it.took_seconds for it in kept if it.profile == "sim"] == [*map(float, range(3, 13))]
    assert [it.took_seconds for it in kept if it.profile == "rare"] == [99.0]
    await store.close()
