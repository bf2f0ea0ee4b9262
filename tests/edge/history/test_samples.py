from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from ds4watch.history.place import Place
from ds4watch.history.samples import SampleStore
from ds4watch.model.errors import ConfigError
from ds4watch.model.series import STALE_NAN_BITS, SeriesKey
from tests.edge.history.helpers import (
    AB,
    NOW,
    W1,
    W2,
    Base,
    Bases,
    FixedClock,
    failed,
    query,
    scrape,
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "samples.db"


@pytest.fixture
def base(bases: Bases) -> Base:
    return bases.samples


@pytest_asyncio.fixture
async def store(base: Base) -> AsyncIterator[SampleStore]:
    async for store in opened(base.place):
        yield store


@pytest_asyncio.fixture
async def file_store(path: Path) -> AsyncIterator[SampleStore]:
    """Yield a store on SQLite, for what is about files."""
    async for store in opened(path):
        yield store


async def opened(place: Place) -> AsyncIterator[SampleStore]:
    store = SampleStore.open(place, FixedClock(), busy_timeout_seconds=0.05, waiting_results=5)
    store.intern(AB)
    yield store
    await store.close()


async def reopened(store: SampleStore, place: Place) -> SampleStore:
    await store.close()
    return SampleStore.open(place, FixedClock())


async def test_scrapes_come_back_bit_for_bit(store: SampleStore) -> None:
    odd = [0x7FF8000000000123, STALE_NAN_BITS]
    values = np.array(odd, dtype=np.uint64).view(np.float64)
    await store.append([scrape(NOW, [1, 2]), scrape(NOW + 1, values.tolist())])
    await store.append([scrape(NOW + 2, [1, 2]), failed(NOW + 3), scrape(NOW + 4, [1, 3])])
    back = await store.read("w1", NOW + 1, NOW + 4)
    assert [one.at for one in back] == [NOW + 1, NOW + 2, NOW + 3, NOW + 4]
    assert back[0].values.view(np.uint64).tolist() == odd
    assert back[1].values.tolist() == [1, 2]
    assert back[2].failure == failed(NOW + 3).failure
    assert back[2].values.size == 0
    assert back[2].took_seconds == 5.0
    assert back[3].values.tolist() == [1, 3]
    assert {one.target for one in back} == {W1}


async def test_a_window_that_starts_between_keyframes_is_decoded(store: SampleStore) -> None:
    await store.append(
        [scrape(NOW + at, [at, 7], target=target) for at in range(130) for target in (W1, W2)]
    )
    back = await store.read("w2", NOW + 75, NOW + 80)
    assert [one.values[0] for one in back] == [75, 76, 77, 78, 79, 80]
    last = await store.last("w1")
    assert last is not None
    assert (last.at, last.values.tolist()) == (NOW + 129, [129, 7])
    assert await store.last("nobody") is None
    assert await store.targets() == ["w1", "w2"]


async def test_schema_numbers_are_the_same_after_a_restart(store: SampleStore, base: Base) -> None:
    other = store.intern((SeriesKey("c"),))
    await store.append([scrape(NOW, [1, 2]), scrape(NOW + 1, [3], schema_id=other.id)])
    again = await reopened(store, base.place)
    assert again.schema(other.id).series == (SeriesKey("c"),)
    assert again.intern((SeriesKey("c"),)).id == other.id
    assert again.intern(AB).id == 1
    assert again.intern((SeriesKey("d"),)).id == other.id + 1
    await again.append([scrape(NOW + 2, [1, 5])])
    back = await again.read("w1", NOW, NOW + 2)
    assert [one.values.tolist() for one in back] == [[1, 2], [3], [1, 5]]
    await again.close()


async def test_case_65_a_reader_that_holds_a_transaction_stops_no_write(
    store: SampleStore, base: Base
) -> None:
    await store.append([scrape(NOW, [1, 2])])
    with base.reading("SELECT count(*) FROM scrapes"):
        await store.append([scrape(NOW + 1, [1, 2])])
    assert store.waiting_rows == 0
    assert base.query("SELECT count(*) FROM scrapes") == [(2,)]


async def test_case_65_samples_wait_while_the_file_is_locked_and_the_oldest_go_first(
    store: SampleStore, base: Base, caplog: pytest.LogCaptureFixture
) -> None:
    await store.append([scrape(NOW, [0, 0])])
    with base.writing():
        for at in range(1, 8):
            await store.append([scrape(NOW + at, [at, 0])])
        assert (store.waiting_rows, store.lost_rows) == (5, 2)
    await store.append([scrape(NOW + 8, [8, 0])])
    back = await store.read("w1", NOW, NOW + 9)
    assert [one.values[0] for one in back] == [0, 3, 4, 5, 6, 7, 8]
    assert store.waiting_rows == 0
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert "lock" in warnings[0]
    assert "2 scrapes lost" in warnings[1]


async def test_pruning_leaves_what_is_younger_and_drops_targets_that_are_gone(
    store: SampleStore, base: Base
) -> None:
    await store.append([scrape(NOW + at, [at, 0]) for at in range(200)])
    await store.append([scrape(NOW + at, [at, 0], target=W2) for at in range(10)])
    assert await store.prune(NOW + 130) == 120 + 10
    assert await store.targets() == ["w1"]
    back = await store.read("w1", NOW + 130, NOW + 300)
    assert [one.values[0] for one in back] == list(range(130, 200))
    await store.append([scrape(NOW + 200, [1, 1], target=W2)])
    back = await store.read("w2", NOW, NOW + 300)
    assert [one.values.tolist() for one in back] == [[1, 1]]
    assert base.query("SELECT name FROM targets ORDER BY name") == [("w1",), ("w2",)]


async def test_a_file_of_rubbish_is_set_aside_with_a_warning(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a database at all\n" * 500)
    store = SampleStore.open(path, FixedClock())
    await store.append([scrape(NOW, [1, 2], schema_id=store.intern(AB).id)])
    assert len(await store.read("w1", NOW, NOW)) == 1
    await store.close()
    kept = [name.name for name in path.parent.glob("*.corrupt-*")]
    assert kept == ["samples.db.corrupt-20270115T080000Z"]
    assert "is corrupt" in caplog.text


async def test_a_file_that_goes_bad_under_our_hands_is_replaced(
    file_store: SampleStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = file_store
    await store.append([scrape(NOW + at, [at, 0]) for at in range(100)])
    query(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(0)
        file.write(b"\xff" * size)
    for at in range(100, 110):
        await store.append([scrape(NOW + at, [at, 0])])
    back = await store.read("w1", NOW + 105, NOW + 109)
    assert [one.values[0] for one in back] == [105, 106, 107, 108, 109]
    assert len(list(path.parent.glob("samples.db.corrupt-*Z"))) == 1
    assert "is corrupt" in caplog.text
    again = await reopened(store, path)
    assert again.schema(1).series == AB
    await again.close()


async def test_only_the_owner_may_read_the_files(file_store: SampleStore, path: Path) -> None:
    await file_store.append([scrape(NOW, [1, 2])])
    modes = {name.name: stat.S_IMODE(name.stat().st_mode) for name in path.parent.iterdir()}
    assert modes == {"samples.db": 0o600, "samples.db-wal": 0o600, "samples.db-shm": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert query(path, "PRAGMA journal_mode") == [("wal",)]


def test_a_folder_that_cannot_be_written_is_one_line_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as caught:
        SampleStore.open(tmp_path / "file" / "samples.db", FixedClock())
    assert str(caught.value).startswith(f"{tmp_path}/file/samples.db: cannot be written: ")
    assert "state_dir" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_said_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="cannot be written"):
        SampleStore.open(tmp_path / "samples.db", FixedClock())


WRITER = """
import asyncio, sys
from ds4watch.history.samples import SampleStore
from tests.edge.history.helpers import AB, NOW, FixedClock, place_from, scrape

async def main():
    store = SampleStore.open(place_from(sys.argv[1]), FixedClock())
    store.intern(AB)
    for at in range(1_000_000):
        await store.append([scrape(NOW + at, [at, at])])
        print(at, flush=True)

asyncio.run(main())
"""


async def test_kill_9_loses_nothing_that_was_appended(base: Base) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, base.argument], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    with writer:
        said = [int(writer.stdout.readline()) for _ in range(100)]
        writer.kill()
        said += [int(line) for line in writer.stdout.read().split()]
    store = SampleStore.open(base.place, FixedClock())
    back = await store.read("w1", NOW, NOW + 1_000_000)
    assert [one.values[0] for one in back][: len(said)] == said
    assert [one.values[1] for one in back] == list(range(len(back)))
    assert len(back) - len(said) <= 1
    await store.close()
