from __future__ import annotations

import pytest
from alembic import command
from sqlalchemy import inspect

from ds4watch.history.migrate import Which
from ds4watch.history.migrations import configuration
from ds4watch.model.errors import ConfigError
from tests.edge.history.folding import SLOT, counting, open_store, seconds_of
from tests.edge.history.helpers import AB, NOW, W2, Base, Bases, failed


@pytest.fixture
def base(bases: Bases) -> Base:
    return bases.samples


def downgrade(base: Base) -> None:
    engine = base.engine()
    try:
        with engine.begin() as connection:
            command.downgrade(configuration(Which.SAMPLES.steps, connection), "0001")
    finally:
        engine.dispose()


async def test_chunks_become_rows_again_and_chunks_anew(base: Base) -> None:
    store = open_store(base.place)
    store.intern(AB)
    for target in (None, W2):
        pages = counting(range(0, 2 * SLOT + 100, 10))
        pages = pages if target is None else counting(range(0, SLOT, 10), target=target)
        await store.append(pages)
    await store.append([failed(NOW + 2 * SLOT + 100)])
    await store.fold(NOW + 2 * SLOT + 60)
    before = [await store.read(name, NOW, NOW + 10**4) for name in ("w1", "w2")]
    await store.close()

    downgrade(base)
    assert base.query("SELECT count(*), min(id) FROM scrapes") == [(191, 1)]
    engine = base.engine()
    tables = set(inspect(engine).get_table_names())
    engine.dispose()
    assert tables == {"alembic_version", "scrapes", "schemas", "targets"}
    in_order = "SELECT at_ms FROM scrapes WHERE target_id = 1 ORDER BY id"
    times = base.query(in_order)
    assert times == sorted(times)

    again = open_store(base.place)
    after = [await again.read(name, NOW, NOW + 10**4) for name in ("w1", "w2")]
    assert [[one.values.tobytes() for one in some] for some in after] == [
        [one.values.tobytes() for one in some] for some in before
    ]
    report = await again.fold(NOW + 2 * SLOT + 60)
    assert (report.chunks, report.rows) == (3, 180)
    back = await again.read("w1", NOW, NOW + 10**4)
    assert seconds_of(back) == [*range(0, 2 * SLOT + 101, 10)]
    await again.close()


async def test_rows_of_the_first_version_fold_though_none_begins_a_slot(base: Base) -> None:
    store = open_store(base.place)
    store.intern(AB)
    await store.append(counting(range(0, 300, 5)))
    await store.close()
    # As if they had gone over the end of a slot without a keyframe.
    base.execute(f"UPDATE scrapes SET at_ms = at_ms + {(SLOT - 150) * 1000}")
    again = open_store(base.place)
    again.intern(AB)
    await again.append(counting(range(SLOT + 150, SLOT + 200, 5)))
    expected = [*range(SLOT - 150, SLOT + 200, 5)]
    assert seconds_of(await again.read("w1", NOW, NOW + 10**4)) == expected
    assert (await again.fold(NOW + SLOT + 300)).rows == 60
    assert seconds_of(await again.read("w1", NOW, NOW + 10**4)) == expected
    await again.close()


async def test_too_many_to_write_out_is_refused_with_a_way_out(base: Base) -> None:
    await open_store(base.place).close()
    base.execute("INSERT INTO targets VALUES (1, 'w1', 'http://w1', '{}', 'fleet', 0)")
    base.execute("INSERT INTO chunks VALUES (1, 1, 1, 0, 1, 90000000, 1, 0, 1, 'x')")
    with pytest.raises(ConfigError, match=r"90000000 scrapes are folded.*prune the history"):
        downgrade(base)
    assert base.query("SELECT version_num FROM alembic_version") == [("0002",)]
    assert base.query("SELECT count(*) FROM chunks") == [(1,)]
