"""Reading beside a daemon that goes on writing."""

from __future__ import annotations

import asyncio

import pytest

from ds4watch.history.reader import StoreReader, reading
from ds4watch.model.errors import ConfigError, StoreError
from ds4watch.model.series import SeriesKey
from tests.edge.history.folding import SLOT, counting, open_store
from tests.edge.history.helpers import AB, NOW, Bases, scrape


async def seconds(reader: StoreReader) -> list[list[int]]:
    frames = await reader.frames("w1", NOW, NOW + 9999, lambda _key: True)
    return [[round(at - NOW) for at in frame.times] for frame in frames]


async def test_what_a_daemon_adds_folds_and_renames_meanwhile_is_read(bases: Bases) -> None:
    store = open_store(bases.samples.place)
    store.intern(AB)
    await store.append(counting([0, 10, 590]))
    with reading(bases.samples.place) as reader:
        assert await seconds(reader) == [[0, 10, 590]]
        new = store.intern((*AB, SeriesKey("c")))
        await store.append([scrape(NOW + SLOT, [1, 2, 3], schema_id=new.id)])
        assert await seconds(reader) == [[0, 10, 590], [SLOT]]
        await store.fold(NOW + SLOT + 60)
        assert await seconds(reader) == [[0, 10, 590], [SLOT]]
        [stats] = await reader.stats()
        assert (stats.chunks, stats.rows, stats.samples) == (1, 1, 9)
        assert reader.damaged == []
        with bases.samples.writing():
            assert await seconds(reader) == [[0, 10, 590], [SLOT]]
    await store.close()


async def test_a_target_of_which_only_roll_ups_are_left_is_told(bases: Bases) -> None:
    store = open_store(bases.samples.place)
    store.intern(AB)
    await store.append(counting(range(0, SLOT, 10)))
    await store.fold(NOW + SLOT + 60)
    await store.prune(NOW + SLOT + 1)
    await store.close()
    with reading(bases.samples.place) as reader:
        [stats] = await reader.stats()
        assert (stats.target, stats.first_at, stats.scrapes) == ("w1", None, 0)
        assert (stats.rollups_first_at, stats.rollups_end_at) == (NOW, NOW + SLOT)
        [frame] = await reader.rollups("w1", 60, NOW, NOW + SLOT, lambda _key: True)
        assert len(frame.starts_at) == 10


async def test_other_programs_are_counted_on_a_server_only(bases: Bases) -> None:
    store = open_store(bases.samples.place)
    with reading(bases.samples.place) as reader:
        is_server = not bases.samples.argument.endswith(".db")
        assert bool(await reader.other_clients()) == is_server
        await store.close()
        async with asyncio.timeout(30):
            while await reader.other_clients():  # a server's process takes a moment to end
                await asyncio.sleep(0.02)


async def test_no_database_is_made_by_looking(bases: Bases) -> None:
    with pytest.raises(ConfigError, match="nothing is stored yet"), reading(bases.samples.place):
        pass


async def test_a_table_that_is_gone_is_told_with_the_database(bases: Bases) -> None:
    store = open_store(bases.samples.place)
    store.intern(AB)
    await store.append(counting([0]))
    await store.close()
    bases.samples.execute("DROP TABLE chunks")
    with reading(bases.samples.place) as reader, pytest.raises(StoreError, match="chunks") as told:
        await reader.stats()
    assert str(told.value).startswith(("/", "postgresql://"))
    assert "not-in-any-log" not in str(told.value)
