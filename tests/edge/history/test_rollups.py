from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio

from ds4watch.history.frames import RollupFrame
from ds4watch.history.samples import SampleStore
from ds4watch.model.series import STALE_NAN, SeriesKey
from tests.edge.history.folding import SLOT, open_store, rollups_of, verified
from tests.edge.history.helpers import AB, NOW, Base, Bases, failed, scrape

HOUR = 3600
DAY = 86_400


@pytest.fixture
def base(bases: Bases) -> Base:
    return bases.samples


@pytest_asyncio.fixture
async def store(base: Base) -> AsyncIterator[SampleStore]:
    store = open_store(base.place)
    store.intern(AB)
    yield store
    await store.close()


def increase(frames: list[RollupFrame], name: str = "a") -> float:
    total = 0.0
    for frame in frames:
        for place, column in enumerate(frame.columns):
            if frame.schema.series[column].name == name:
                total += float(frame.increase[:, place].sum())
    return total


async def test_minutes_are_there_as_soon_as_a_slot_is_folded(
    store: SampleStore, base: Base
) -> None:
    await store.append([scrape(NOW + at, [at, STALE_NAN]) for at in range(0, SLOT, 5)])
    await store.fold(NOW + SLOT + 40)
    [frame] = await rollups_of(base, 60, NOW + 60, NOW + 179)
    assert (frame.starts_at - NOW).tolist() == [60, 120]
    assert frame.minimum[:, 0].tolist() == [60, 120]
    assert frame.maximum[:, 0].tolist() == [115, 175]
    assert frame.last[:, 0].tolist() == [115, 175]
    assert frame.total[:, 0].tolist() == [87.5 * 12, 147.5 * 12]
    assert frame.increase[:, 0].tolist() == [60, 60]
    assert frame.count.tolist() == [[12, 0], [12, 0]]
    [one] = await rollups_of(base, 60, NOW, NOW + 59, keep=lambda key: key.name == "b")
    assert (one.columns.tolist(), one.count.shape) == ([1], (1, 1))


async def test_case_30_a_counter_keeps_its_total_over_restarts_of_worker_and_daemon(
    store: SampleStore, base: Base
) -> None:
    """Counter at 250, a restart, counter at 3; the window spans both (litellm#27519)."""
    with_b = store.intern((SeriesKey("b"),))
    await store.append([scrape(NOW + at, [at, 0]) for at in range(0, 251, 10)])
    await store.append([failed(NOW + at) for at in range(260, 300, 10)])
    # The worker starts again; its counter is on the page from its first use on.
    await store.append([scrape(NOW + 300, [1], schema_id=with_b.id)])
    await store.fold(NOW + SLOT + 40)
    await store.close()
    again = open_store(base.place)
    await again.append([scrape(NOW + at, [at - 597, 0]) for at in range(600, 900, 10)])
    await again.fold(NOW + 2 * SLOT + 40)
    minutes = await rollups_of(base, 60, NOW, NOW + HOUR)
    assert increase(minutes) == 250 + 293
    for at in range(2 * SLOT, HOUR + SLOT, SLOT):
        await again.append([scrape(NOW + at, [293, 0])])
        await again.fold(NOW + at + SLOT + 40)
    hours = await rollups_of(base, HOUR, NOW, NOW + HOUR)
    assert increase(hours) == increase(await rollups_of(base, 60, NOW, NOW + HOUR)) == 543
    await again.close()


async def test_hours_and_days_settle_into_one_row_each_and_sums_stay(
    store: SampleStore, base: Base
) -> None:
    # NOW is eight in the morning.
    for at in range(0, DAY + 2 * HOUR, SLOT):
        await store.append([scrape(NOW + at, [at, 1]), scrape(NOW + at + 30, [at + 30, 1])])
    await store.fold(NOW + DAY + 3 * HOUR)
    stored = base.query(
        "SELECT resolution_seconds, settled, count(*), sum(buckets) FROM rollups"
        " GROUP BY 1, 2 ORDER BY 1, 2"
    )
    assert stored == [(60, 1, 26, 156), (3600, 0, 10, 10), (3600, 1, 1, 16)]
    for resolution in (60, HOUR):
        frames = await rollups_of(base, resolution, NOW, NOW + 2 * DAY)
        assert increase(frames) == DAY + 2 * HOUR - SLOT + 30
        assert sum(frame.count[:, 0].sum() for frame in frames) == 2 * 26 * 6
    assert len(await rollups_of(base, HOUR, NOW, NOW + 2 * DAY)) == 1


async def test_an_hour_waits_for_its_last_scrapes(store: SampleStore, base: Base) -> None:
    await store.append([scrape(NOW + at, [at, 1]) for at in range(0, HOUR, 60)])
    report = await store.fold(NOW + HOUR + 29)
    assert (report.chunks, report.settled) == (5, 0)
    report = await store.fold(NOW + HOUR + 31)
    assert (report.chunks, report.settled) == (1, 6)
    # A straggler makes a share of its own, which counts once.
    await store.append([scrape(NOW + HOUR - 1, [HOUR, 1])])
    report = await store.fold(NOW + HOUR + 60)
    assert (report.chunks, report.settled) == (1, 1)
    [frame] = await rollups_of(base, HOUR, NOW, NOW)
    assert frame.count.tolist() == [[61, 61]]
    assert frame.increase[0].tolist() == [HOUR, 0]


async def test_a_damaged_roll_up_is_left_behind_and_the_rest_settles(
    store: SampleStore, base: Base
) -> None:
    await store.append([scrape(NOW + at, [at, 1]) for at in range(0, HOUR, 60)])
    await store.fold(NOW + HOUR)
    base.execute("UPDATE rollups SET checksum = checksum + 1 WHERE id = 2")
    await store.fold(NOW + HOUR + 60)
    [hour] = await rollups_of(base, HOUR, NOW, NOW)
    assert hour.count[0, 0] == 50
    assert np.isfinite(hour.minimum).all()
    assert store.damaged_parts == 1
    findings = await verified(base)
    assert [one.message for one in findings] == ["roll-up 2 is left out: its checksum is wrong"]


async def test_roll_ups_are_kept_for_their_own_time(store: SampleStore, base: Base) -> None:
    await store.append([scrape(NOW + at, [at, 1]) for at in range(0, 2 * HOUR, 60)])
    await store.fold(NOW + 3 * HOUR)
    await store.prune(NOW + 3 * HOUR)
    assert await store.read("w1", NOW, NOW + DAY) == []
    assert await store.prune_rollups(60, NOW + HOUR + 1) == 60
    [minutes] = await rollups_of(base, 60, NOW, NOW + DAY)
    assert len(minutes.starts_at) == 60
    [hours] = await rollups_of(base, HOUR, NOW, NOW + DAY)
    assert len(hours.starts_at) == 2
