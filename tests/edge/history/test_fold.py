from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from ds4watch.history.samples import SampleStore
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import ScrapeResult, Target
from ds4watch.model.series import STALE_NAN_BITS, SeriesKey
from tests.edge.history.folding import (
    SLOT,
    counting,
    counts,
    open_store,
    seconds_of,
    stats_of,
    verified,
)
from tests.edge.history.helpers import AB, NOW, W1, W2, Base, Bases, failed, query, scrape


@pytest.fixture
def base(bases: Bases) -> Base:
    return bases.samples


@pytest_asyncio.fixture
async def store(base: Base) -> AsyncIterator[SampleStore]:
    store = open_store(base.place)
    store.intern(AB)
    yield store
    await store.close()


async def test_a_slot_that_is_over_folds_and_nothing_changes_for_readers(
    store: SampleStore, base: Base
) -> None:
    odd = np.array([0x7FF8000000000123, STALE_NAN_BITS], dtype=np.uint64).view(np.float64)
    pages = counting(range(5, 700, 5))
    pages[3] = ScrapeResult(W1, pages[3].at, 1, odd, took_seconds=0.25, page_samples=1)
    pages[10] = failed(pages[10].at)
    await store.append(pages)
    before = await store.read("w1", NOW, NOW + 700)
    report = await store.fold(NOW + 640)
    assert (report.chunks, report.rows, report.failures) == (1, 119, ())
    assert report.bytes_after < report.bytes_before
    assert counts(base) == (20, 1)
    after = await store.read("w1", NOW, NOW + 700)
    assert [
        (one.at, one.took_seconds, one.failure, one.page_samples, one.schema_id) for one in after
    ] == [
        (one.at, one.took_seconds, one.failure, one.page_samples, one.schema_id) for one in before
    ]
    for one, other in zip(after, before, strict=True):
        assert one.values.view(np.uint64).tolist() == other.values.view(np.uint64).tolist()
    assert seconds_of(await store.read("w1", NOW + 590, NOW + 610)) == [590, 595, 600, 605, 610]


async def test_a_slot_folds_once_it_is_over_and_scrapes_in_flight_have_come(
    store: SampleStore, base: Base
) -> None:
    await store.append(counting(range(0, 590, 10)))
    assert (await store.fold(NOW + SLOT + 29)).chunks == 0
    assert (await store.fold(NOW + SLOT + 30)).chunks == 1
    assert (await store.fold(NOW + SLOT + 31)).chunks == 0
    assert counts(base) == (0, 1)


async def test_a_straggler_after_its_slot_was_folded_is_kept(
    store: SampleStore, base: Base
) -> None:
    await store.append(counting(range(0, 590, 10)))
    await store.fold(NOW + 640)
    await store.append(counting([595]))
    await store.append(counting([650]))
    assert seconds_of(await store.read("w1", NOW + 570, NOW + 700)) == [570, 580, 595, 650]
    assert (await store.fold(NOW + 650)).rows == 1
    assert seconds_of(await store.read("w1", NOW + 570, NOW + 700)) == [570, 580, 595, 650]
    assert counts(base) == (1, 2)


async def test_a_clock_that_was_set_back_mixes_nothing_up(store: SampleStore) -> None:
    seconds = [100, 110, 105, 111, 90, 95, 630, 40, 45, 640]
    await store.append(counting(seconds))
    for start, end in ((0, 107), (100, 105), (40, 95), (0, 10**4)):
        back = await store.read("w1", NOW + start, NOW + end)
        assert seconds_of(back) == sorted(at for at in seconds if start <= at <= end)
        assert [one.values[0] for one in back] == seconds_of(back)
    await store.fold(NOW + 10**4)
    back = await store.read("w1", NOW, NOW + 10**4)
    assert [one.values[0] for one in back] == sorted(seconds)


async def test_a_chunk_holds_one_slot_and_one_schema(store: SampleStore, base: Base) -> None:
    other = store.intern((*AB, SeriesKey("c")))
    await store.append([failed(NOW)])
    await store.append(counting(range(1, 100)))
    await store.append([scrape(NOW + 100, [1, 2, 3], schema_id=other.id), failed(NOW + 101)])
    await store.append(counting(range(102, 110)))
    await store.append(counting(range(SLOT, SLOT + 5)))
    await store.append([failed(NOW + at) for at in range(2 * SLOT, 2 * SLOT + 3)])
    report = await store.fold(NOW + 4 * SLOT)
    assert report.chunks == 5
    spans = base.query(
        "SELECT schema_id, start_ms / 1000, end_ms / 1000, rows FROM chunks ORDER BY id"
    )
    assert [(schema, start - NOW, end - NOW, rows) for schema, start, end, rows in spans] == [
        (1, 0, 99, 100),
        (other.id, 100, 101, 2),
        (1, 102, 109, 8),
        (1, 600, 604, 5),
        (0, 1200, 1202, 3),
    ]
    back = await store.read("w1", NOW, NOW + 4 * SLOT)
    assert seconds_of(back) == [*range(110), *range(600, 605), *range(1200, 1203)]
    assert back[-1].failure == failed(NOW).failure


async def test_over_a_mebibyte_is_folded_before_its_time(store: SampleStore, base: Base) -> None:
    wide = store.intern(tuple(SeriesKey(f"s{number}") for number in range(1000)))
    rng = np.random.default_rng(1)
    for at in range(140):
        await store.append([scrape(NOW + at, rng.random(1000).tolist(), schema_id=wide.id)])
    assert (await store.fold(NOW + 140)).rows == 120
    assert counts(base) == (20, 1)
    assert seconds_of(await store.read("w1", NOW, NOW + 200)) == list(range(140))
    assert (await store.fold(NOW + 141)).rows == 0


async def test_appends_go_on_while_a_fold_runs(store: SampleStore) -> None:
    targets = [Target(f"t{number}", "http://t") for number in range(12)]
    for target in targets:
        await store.append(counting(range(0, 600, 20), target=target))
    folding = asyncio.create_task(store.fold(NOW + 700))
    await asyncio.gather(
        *(store.append(counting([600], target=target)) for target in targets),
    )
    report = await folding
    assert (report.chunks, report.failures) == (12, ())
    for target in targets:
        back = await store.read(target.name, NOW, NOW + 700)
        assert seconds_of(back) == [*range(0, 600, 20), 600]


async def test_columns_come_alone_and_in_frames_of_one_schema(store: SampleStore) -> None:
    other = store.intern((SeriesKey("z"), *AB))
    await store.append(counting(range(600, 700)))
    await store.append([failed(NOW + 700)])
    await store.append(
        [scrape(NOW + at, [9, at, 0], schema_id=other.id) for at in range(1190, 1260)]
    )
    await store.fold(NOW + 1300)
    frames = await store.frames(
        "w1", NOW + 650, NOW + 1240, keep=lambda key: key.name in ("a", "nothing")
    )
    assert [frame.schema.id for frame in frames] == [1, other.id, other.id]
    assert [frame.columns.tolist() for frame in frames] == [[0], [1], [1]]
    seconds = [(frame.times - NOW).tolist() for frame in frames]
    assert seconds == [list(range(650, 700)), list(range(1190, 1200)), list(range(1200, 1241))]
    assert [frame.values[:, 0].tolist() for frame in frames] == seconds
    assert frames[0].took_seconds.tolist() == [0.25] * 50
    assert [(one.at, one.took_seconds) for one in frames[0].failures] == [(NOW + 700, 5.0)]
    assert frames[0].failures[0].failure.reason is EdgeReason.TIMEOUT
    assert frames[0].target == W1


async def test_the_newest_scrape_is_found_in_a_chunk_too(store: SampleStore) -> None:
    await store.append(counting(range(100)))
    await store.append([failed(NOW + 100)])
    await store.fold(NOW + 700)
    last = await store.last("w1")
    assert last is not None
    assert (last.at, last.failure) == (NOW + 100, failed(NOW).failure)


async def test_targets_keep_their_group_over_a_restart(store: SampleStore, base: Base) -> None:
    odd = Target("w3", "http://w3", (), "routers")
    await store.append([scrape(NOW, [1, 2], target=odd)])
    await store.close()
    again = open_store(base.place)
    await again.append([scrape(NOW + 1, [1, 2], target=odd)])
    assert {one.target for one in await again.read("w3", NOW, NOW + 9)} == {odd}
    assert base.query("SELECT count(*) FROM targets") == [(1,)]
    await again.close()


async def test_a_damaged_chunk_costs_only_itself(
    store: SampleStore, base: Base, caplog: pytest.LogCaptureFixture
) -> None:
    await store.append(counting(range(0, 3 * SLOT, 10)))
    await store.append(counting(range(0, SLOT, 10), target=W2))
    await store.fold(NOW + 4 * SLOT)
    base.execute("UPDATE chunks SET checksum = checksum + 1 WHERE id = 2")
    base.execute("UPDATE rollups SET checksum = checksum + 1 WHERE id = 3")
    back = await store.read("w1", NOW, NOW + 4 * SLOT)
    assert seconds_of(back) == [*range(0, SLOT, 10), *range(2 * SLOT, 3 * SLOT, 10)]
    assert len(await store.read("w2", NOW, NOW + SLOT)) == 60
    assert store.damaged_parts == 1
    assert "chunk 2 is left out: its checksum is wrong" in caplog.text
    steps: list[tuple[int, int]] = []
    findings = await verified(base, lambda done, total: steps.append((done, total)))
    assert [(one.target, one.message) for one in findings] == [
        ("w1", "chunk 2 is left out: its checksum is wrong"),
        ("w1", "roll-up 3 is left out: its checksum is wrong"),
    ]
    assert steps[-1] == (10, 10)


async def test_rows_that_cannot_be_read_stay_and_hold_up_no_other_target(
    store: SampleStore, base: Base, caplog: pytest.LogCaptureFixture
) -> None:
    for target in (W1, W2):
        await store.append(counting(range(0, SLOT, 10), target=target))
    base.execute("UPDATE scrapes SET payload = substr(payload, 1, 1) WHERE id = 5")
    report = await store.fold(NOW + 2 * SLOT)
    assert report.chunks == 1
    assert "scrapes 1 to 60 of target 1" in report.failures[0]
    await store.fold(NOW + 2 * SLOT)
    said = [one.message for one in caplog.records if one.levelno == logging.WARNING]
    assert len([one for one in said if "cannot fold" in one]) == 1
    assert len(await store.read("w2", NOW, NOW + SLOT)) == 60
    findings = await verified(base)
    assert [one.target for one in findings] == ["w1"]


async def test_a_fold_into_a_locked_file_changes_nothing_and_is_made_up_for(
    store: SampleStore, base: Base, caplog: pytest.LogCaptureFixture
) -> None:
    await store.append(counting(range(0, SLOT, 10)))
    with base.writing():
        report = await store.fold(NOW + 2 * SLOT)
    assert report.chunks == 0
    assert "lock" in report.failures[0]
    assert counts(base) == (60, 0)
    assert (await store.fold(NOW + 2 * SLOT)).chunks == 1
    assert counts(base) == (0, 1)
    assert seconds_of(await store.read("w1", NOW, NOW + SLOT)) == list(range(0, SLOT, 10))
    assert "folds again" in caplog.text


async def test_a_full_disk_leaves_all_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "samples.db"
    store = open_store(path)
    store.intern(AB)
    await store.append(counting(range(0, SLOT, 10)))
    await store.append(counting(range(SLOT, SLOT + 600, 10)))

    def cap(pages: int) -> None:
        with store._database.writing() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    # Neither can the file grow, nor is a page in it free.
    assert query(path, "PRAGMA freelist_count") == [(0,)]
    [(pages,)] = query(path, "PRAGMA page_count")
    await store._database.in_writer(cap, pages)
    wide = store.intern(tuple(SeriesKey(f"s{number}") for number in range(3000)))
    await store.append([scrape(NOW + 1200, np.arange(3000.0).tolist(), schema_id=wide.id)])
    assert store.waiting_rows == 1
    await store.fold(NOW + 1300)
    assert seconds_of(await store.read("w1", NOW, NOW + 1199)) == list(range(0, 1200, 10))
    await store._database.in_writer(cap, 1 << 20)
    await store.append(counting([1210]))
    await store.fold(NOW + 1300)
    assert store.waiting_rows == 0
    back = await store.read("w1", NOW, NOW + 1300)
    assert seconds_of(back) == [*range(0, 1200, 10), 1200, 1210]
    await store.close()


async def test_readers_that_hold_the_file_make_nobody_wait(store: SampleStore, base: Base) -> None:
    """A status page or a backup reads for minutes while scrapes come in and fold (mem0#7196)."""
    await store.append(counting(range(0, SLOT, 10)))
    with base.reading("SELECT count(*) FROM scrapes"):
        await store.append(counting([SLOT]))
        assert (await store.fold(NOW + SLOT + 40)).failures == ()
        await store.append(counting([SLOT + 10]))
        assert (store.waiting_rows, store.lost_rows) == (0, 0)
    assert seconds_of(await store.read("w1", NOW, NOW + 700)) == list(range(0, SLOT + 20, 10))


async def test_pruning_takes_chunks_and_schemas_that_nothing_shows_any_more(
    store: SampleStore, base: Base
) -> None:
    other = store.intern((SeriesKey("c"),))
    await store.append([scrape(NOW + at, [at], schema_id=other.id) for at in range(0, SLOT, 10)])
    await store.append(counting(range(SLOT, 2 * SLOT, 10)))
    await store.append(counting(range(0, SLOT, 10), target=W2))
    await store.fold(NOW + 3 * SLOT)
    assert await store.prune(NOW + SLOT) == 120
    assert base.query("SELECT count(*) FROM schemas") == [(2,)]
    assert await store.prune_rollups(60, NOW + SLOT + 1) == 20
    assert await store.targets() == ["w1"]
    await store.prune(NOW + SLOT)
    assert base.query("SELECT id FROM schemas") == [(1,)]
    # The scraper still has the schema in its hands.
    await store.append([scrape(NOW + 3 * SLOT, [7], schema_id=other.id)])
    await store.close()
    again = open_store(base.place)
    assert again.schema(other.id).series == (SeriesKey("c"),)
    assert len(await again.read("w1", NOW, NOW + 4 * SLOT)) == 61
    await again.close()


async def test_statistics_tell_what_there_is(store: SampleStore, base: Base) -> None:
    await store.append(counting(range(0, SLOT + 100, 10)))
    await store.append([failed(NOW + SLOT + 100)])
    await store.fold(NOW + SLOT + 60)
    [one] = await stats_of(base)
    assert (one.target, one.first_at, one.last_at) == ("w1", NOW, NOW + SLOT + 100)
    assert (one.rows, one.chunks, one.scrapes, one.samples) == (11, 1, 71, 140)
    assert 0 < one.bytes_a_sample < 8
    assert one.rollup_bytes > 0
