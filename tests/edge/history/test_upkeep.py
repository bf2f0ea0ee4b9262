"""Upkeep goes in steps so small that scrapes come in, and others read, between them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from sqlalchemy import Connection

from ds4watch.history import prune_rows
from ds4watch.history.samples import SampleStore
from ds4watch.history.verify import read_stats, verify
from ds4watch.history.wal import WriteBack
from ds4watch.model.scrape import Target
from ds4watch.model.series import SeriesKey
from tests.edge.history.folding import SLOT, counting, counts, open_store, seconds_of
from tests.edge.history.helpers import AB, NOW, W1, W2, Base, Bases, FixedClock, failed, scrape

SPREAD = 480


@pytest.fixture
def base(bases: Bases) -> Base:
    return bases.samples


@pytest_asyncio.fixture
async def store(base: Base) -> AsyncIterator[SampleStore]:
    store = open_store(base.place)
    store.intern(AB)
    yield store
    await store.close()


class Ticking:
    """A clock on which each look takes a second."""

    def __init__(self) -> None:
        self._at = 0.0

    def now(self) -> float:
        return NOW

    def monotonic(self) -> float:
        self._at += 1
        return self._at


def sizes(store: SampleStore, table: str) -> list[int]:
    with store._database.reading() as connection:
        found = connection.exec_driver_sql(f"SELECT payload_bytes FROM {table} ORDER BY id")
        return [row[0] for row in found]


async def test_a_slice_that_is_deleted_has_no_more_bytes_than_its_bound(
    store: SampleStore,
) -> None:
    wide = store.intern(tuple(SeriesKey(f"s{number}") for number in range(2000)))
    rng = np.random.default_rng(1)
    for slot in range(5):
        for at in range(0, SLOT, 20):
            values = rng.random(2000).tolist()
            await store.append([scrape(NOW + slot * SLOT + at, values, schema_id=wide.id)])
        await store.append(counting(range(slot * SLOT, slot * SLOT + SLOT, 20), target=W2))
    await store.fold(NOW + 6 * SLOT)
    before = sizes(store, "chunks")
    assert sum(before) > 2 * prune_rows.SLICE_BYTES
    late_ms = round((NOW + 10 * SLOT) * 1000)
    steps = 0
    while await store._database.write(prune_rows.delete_old, prune_rows.CHUNKS, 1, late_ms):
        after = sizes(store, "chunks")
        assert 0 < sum(before) - sum(after) <= prune_rows.SLICE_BYTES
        before, steps = after, steps + 1
    assert steps > 2
    assert len(before) == 5, "those of the other target stay"


async def test_one_chunk_over_the_bound_goes_all_the_same(store: SampleStore, base: Base) -> None:
    await store.append(counting(range(0, SLOT, 20)))
    await store.fold(NOW + 2 * SLOT)
    base.execute(f"UPDATE chunks SET payload_bytes = {2 * prune_rows.SLICE_BYTES}")
    assert await store.prune(NOW + 2 * SLOT) == 30


async def test_upkeep_rests_as_long_as_it_worked(base: Base) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await resting.append(counting([SLOT + len(pauses)]))

    store = resting = SampleStore.open(base.place, Ticking(), pause=pause)
    store.intern(AB)
    for target in (W1, W2):
        await store.append(counting(range(0, SLOT, 20), target=target))
    report = await store.fold(NOW + SLOT + 40)
    assert (report.chunks, report.failures) == (2, ())
    assert len(pauses) > 4, "two for each target at least"
    assert set(pauses) == {1.0}
    folded = len(pauses)
    await store.prune(NOW + SLOT)
    assert len(pauses) > folded + 2
    stored = seconds_of(await store.read("w1", NOW + SLOT, NOW + 10**4))
    assert stored == [SLOT + number for number in range(1, len(pauses) + 1)]
    await store.close()


async def test_targets_fall_due_one_after_the_other_and_go_together(
    store: SampleStore, base: Base
) -> None:
    targets = [Target(f"t{number}", "http://t") for number in range(40)]
    for target in targets:
        await store.append(counting(range(0, SLOT, 60), target=target))
    folded = []
    for seconds in range(30, 30 + SPREAD, 30):
        report = await store.fold(NOW + SLOT + seconds, spread_seconds=SPREAD)
        assert report.failures == ()
        folded.append(report.chunks)
    folded.append((await store.fold(NOW + SLOT + 30 + SPREAD - 1, spread_seconds=SPREAD)).chunks)
    assert sum(folded) == len(targets)
    assert max(folded) <= 4, "a sixteenth of all in each thirty seconds, or nearly so"
    assert counts(base) == (400, 40), "folded rows lie until all had their turn"
    assert seconds_of(await store.read("t7", NOW, NOW + SLOT)) == list(range(0, SLOT, 60))
    await store.fold(NOW + SLOT + 30 + SPREAD, spread_seconds=SPREAD)
    assert counts(base) == (0, 40)


async def test_what_was_not_folded_in_time_is_due_at_once(store: SampleStore, base: Base) -> None:
    for target in (W1, W2):
        await store.append(counting(range(0, 2 * SLOT, 60), target=target))
    report = await store.fold(NOW + 2 * SLOT + 30, spread_seconds=SPREAD)
    assert report.chunks == 2
    report = await store.fold(NOW + 2 * SLOT + 30 + SPREAD, spread_seconds=SPREAD)
    assert report.chunks == 2
    assert counts(base) == (0, 4)


async def test_hours_settle_one_target_after_the_other(store: SampleStore) -> None:
    targets = [Target(f"t{number}", "http://t") for number in range(16)]
    hour = 6 * SLOT
    for target in targets:
        await store.append(counting(range(0, hour, 120), target=target))
    await store.fold(NOW + hour)
    settled = [
        (await store.fold(NOW + hour + seconds, spread_seconds=SPREAD)).settled
        for seconds in range(30, 31 + SPREAD, 60)
    ]
    assert sum(settled) == 6 * len(targets)
    assert max(settled) <= 6 * 4


async def test_statistics_and_checks_are_read_in_slices(store: SampleStore) -> None:
    targets = [Target(f"t{number:02}", "http://t") for number in range(25)]
    for target in targets:
        await store.append([*counting(range(0, SLOT + 60, 30), target=target)])
        await store.append([failed(NOW + SLOT + 60, target=target)])
    await store.fold(NOW + SLOT + 40)
    views: list[Connection] = []
    with _counted(store, views):
        stats = await read_stats(store._database, store.schema)
    assert [one.target for one in stats] == [target.name for target in targets]
    assert {(one.rows, one.chunks, one.scrapes, one.samples) for one in stats} == {(3, 1, 23, 44)}
    assert {(one.first_at, one.last_at) for one in stats} == {(NOW, NOW + SLOT + 60)}
    assert len(views) >= 4, "no more than ten targets in one view"
    [size] = {one.bytes for one in stats}
    assert size == sizes(store, "chunks")[0] + sum(sizes(store, "scrapes")) // 25
    assert await verify(store._database, store.schema, lambda _done, _total: None) == []


@contextmanager
def _counted(store: SampleStore, views: list[Connection]) -> Iterator[None]:
    reading = store._database.reading

    @contextmanager
    def counted() -> Iterator[Connection]:
        with reading() as connection:
            views.append(connection)
            yield connection

    store._database.reading = counted  # type: ignore[method-assign]
    yield
    del store._database.reading


async def test_a_fold_while_somebody_reads_shows_nothing_twice(
    store: SampleStore, base: Base
) -> None:
    """Chunks and raw scrapes of one read are of one moment."""
    await store.append(counting(range(0, SLOT + 100, 10)))
    other = open_store(base.place)
    with other._database.reading() as connection:
        count = "SELECT (SELECT count(*) FROM chunks), (SELECT folded_id FROM targets)"
        before = connection.exec_driver_sql(count).all()
        assert (await store.fold(NOW + SLOT + 40)).chunks == 1
        assert connection.exec_driver_sql(count).all() == before
        assert connection.exec_driver_sql("SELECT count(*) FROM scrapes").scalar() == 70
    await other.close()
    assert counts(base) == (10, 1)
    readers = [store.read("w1", NOW, NOW + 10**4) for _ in range(20)]
    await store.append(counting(range(SLOT + 100, 2 * SLOT + 100, 10)))
    folding = asyncio.create_task(store.fold(NOW + 2 * SLOT + 40))
    found = await asyncio.gather(*readers)
    assert (await folding).chunks == 1
    assert {len(one) for one in found} == {130}


async def test_rows_that_came_in_since_a_look_are_not_taken_for_old(store: SampleStore) -> None:
    await store.append(counting(range(0, 90, 10)))
    late_ms = round((NOW + 95) * 1000)
    found = await store._database.read(prune_rows.expiry, 1, late_ms)
    assert (found.rows, found.newest_id) == (9, 9)
    await store.append(counting([100]))
    assert not await store._database.write(prune_rows.expire, found)
    assert await store.prune(NOW + 95) == 0, "the new one stands on them"
    await store.append(counting([SLOT]))
    assert await store.prune(NOW + SLOT) == 10
    assert seconds_of(await store.read("w1", NOW, NOW + 10**4)) == [SLOT]


async def test_a_commit_does_not_wait_for_the_log_to_be_moved(tmp_path: Path) -> None:
    path = tmp_path / "samples.db"
    store = SampleStore.open(path, FixedClock())
    wide = store.intern(tuple(SeriesKey(f"s{number}") for number in range(3000)))
    rng = np.random.default_rng(1)
    for at in range(200):
        await store.append([scrape(NOW + at, rng.random(3000).tolist(), schema_id=wide.id)])
        await store._database.caught_up()
    log = path.with_name("samples.db-wal").stat().st_size
    assert log < 1 << 20, "moved every few commits, and begun anew"
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA secure_delete").fetchone() is not None
    await store.close()


def test_a_log_that_cannot_be_moved_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "samples.db"
    path.write_bytes(b"no database at all" * 100)
    beside = WriteBack(path)
    for _ in range(50):
        beside.committed()
        if (lagging := beside.lagging()) is not None:
            lagging.result()
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    for _ in range(20):
        beside.committed()
        if (lagging := beside.lagging()) is not None:
            lagging.result()
    beside.close()
    said = [record.message for record in caplog.records]
    assert len(said) == 2
    assert "cannot be moved into the file" in said[0]
    assert "is moved into the file again" in said[1]
