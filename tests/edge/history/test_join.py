"""Chunks of ten minutes become one of an hour, those one of six."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import closing

import pytest
import pytest_asyncio

from ds4watch.history.range_reader import StoredRanges
from ds4watch.history.samples import SampleStore
from ds4watch.model.series import NAME_LABEL, SeriesKey
from ds4watch.promql.storage import Matcher, MatchOp
from tests.edge.history.folding import counting, open_store, seconds_of, verified
from tests.edge.history.helpers import AB, NOW, W1, W2, Base, Bases, failed, scrape

HOUR = 3600
A = Matcher(NAME_LABEL, MatchOp.EQUAL, "a")


@pytest.fixture
def base(bases: Bases) -> Base:
    return bases.samples


@pytest_asyncio.fixture
async def store(base: Base) -> AsyncIterator[SampleStore]:
    store = open_store(base.place)
    store.intern(AB)
    yield store
    await store.close()


def sizes(base: Base) -> list[int]:
    """Scrapes in each chunk."""
    return [rows for (rows,) in base.query("SELECT rows FROM chunks ORDER BY target_id, end_ms")]


async def test_an_hour_is_joined_when_no_rule_looks_back_on_it_and_six_hours_in_their_time(
    store: SampleStore, base: Base
) -> None:
    pages = counting(range(0, 6 * HOUR, 60))
    pages[70] = failed(pages[70].at)
    await store.append(pages)
    before = await store.read("w1", NOW, NOW + 6 * HOUR)
    assert (await store.fold(NOW + HOUR + 1799)).joined == 0
    chunks = len(sizes(base))
    report = await store.fold(NOW + 6 * HOUR + 1799)
    assert report.joined >= chunks > 1
    assert len(sizes(base)) > 1
    # NOW is not at the start of six hours by the clock.
    assert (await store.fold(NOW + 13 * HOUR)).joined > 1
    assert len(sizes(base)) <= 2
    assert (await store.fold(NOW + 14 * HOUR)).joined == 0
    assert sum(sizes(base)) == len(pages)
    after = await store.read("w1", NOW, NOW + 6 * HOUR)
    assert [(one.at, one.failure) for one in after] == [(one.at, one.failure) for one in before]
    assert [one.values.tobytes() for one in after] == [one.values.tobytes() for one in before]
    assert await verified(base) == []


async def test_other_pages_and_a_clock_set_back_stay_apart(store: SampleStore, base: Base) -> None:
    other = store.intern((*AB, SeriesKey("c"))).id
    await store.append(counting(range(0, 600, 60)))
    await store.fold(NOW + 700)
    await store.append(counting(range(300, 900, 60)))
    await store.fold(NOW + 1300)
    await store.append([scrape(NOW + 1300, [1, 2, 3], schema_id=other)])
    await store.fold(NOW + 1900)
    assert sizes(base) == [10, 5, 5, 1]
    # What came after the clock was set back goes on with itself only.
    assert (await store.fold(NOW + 10**5)).joined == 2
    assert sizes(base) == [10, 10, 1]
    back = seconds_of(await store.read("w1", NOW, NOW + 10**4))
    assert back == sorted([*range(0, 600, 60), *range(300, 900, 60), 1300])


async def test_a_damaged_chunk_is_told_and_left_its_neighbours_are_joined(
    store: SampleStore, base: Base, caplog: pytest.LogCaptureFixture
) -> None:
    for start in range(0, HOUR, 600):
        await store.append(counting(range(start, start + 600, 60)))
        await store.fold(NOW + start + 700)
    assert len(sizes(base)) == 6
    base.execute("UPDATE chunks SET checksum = 1 WHERE id = 3")
    with caplog.at_level(logging.WARNING):
        assert (await store.fold(NOW + 2 * HOUR)).joined == 5
    assert "chunk 3" in caplog.text
    assert len(sizes(base)) == 2
    assert (await store.fold(NOW + 20 * HOUR)).joined == 0
    back = seconds_of(await store.read("w1", NOW, NOW + HOUR))
    assert back == [at for at in range(0, HOUR, 60) if not 1200 <= at < 1800]


async def test_a_query_that_is_open_sees_the_same_before_and_after(
    store: SampleStore, base: Base
) -> None:
    for target in (W1, W2):
        await store.append(counting(range(0, 3 * HOUR, 60), target=target))
    await store.fold(NOW + HOUR)
    with closing(StoredRanges(base.place)) as reader:
        before = reader.columns([A], NOW, NOW + 3 * HOUR)
        assert (await store.fold(NOW + 20 * HOUR)).joined > 0
        after = reader.columns([A], NOW, NOW + 3 * HOUR)
    assert after.labels is before.labels
    for one, other in zip(after.blocks, before.blocks, strict=True):
        assert one.times.tolist() == other.times.tolist()
        assert one.values.tolist() == other.values.tolist()
    assert sum(len(block.times) for block in after.blocks) == 2 * 180
