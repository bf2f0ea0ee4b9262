"""A state database that is corrupt, at the start or later; SQLite alone has such files."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection

from ds4watch.history.database import Database
from ds4watch.history.ledger_values import CostRow, SpoolBatch
from ds4watch.history.line import Tuning
from ds4watch.history.migrate import Which
from ds4watch.history.rows import AuditKind, TickCommit
from ds4watch.history.state import StateStore
from ds4watch.model.action import Hold
from ds4watch.model.errors import EdgeReason, StoreError
from ds4watch.model.silence import LabelTest, Silence
from tests.edge.history.helpers import NOW, FixedClock, query
from tests.edge.history.state_facts import FIRING, PLAN, RECORD, TO_FIRING

ENDED = "3c1f0a52-0000-4c8e-9a55-2f6c1d7e8b90"
SILENCE = Silence(
    id="0b8e6b6e-4b0e-4c8e-9a55-2f6c1d7e8b90",
    matchers=(LabelTest("alertname", "=", "Queue"),),
    starts_at=NOW,
    ends_at=NOW + 60,
    who="ann",
    why="a demo",
    placed_at=NOW,
)
HOLD = Hold("pool", NOW + 60, "ann", "a demo", NOW)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def kept(path: Path) -> list[str]:
    """Return the files that were set aside, without their -wal and -shm."""
    return [it.name for it in path.parent.glob("*.corrupt-*") if it.name.endswith("Z")]


def spoil(path: Path) -> None:
    query(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(b"\xff" * size)


async def test_at_the_start_it_is_set_aside_told_and_everything_is_held_for_an_hour(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(b"rubbish, and a lot of it\n" * 400)
    store = StateStore.open(path, FixedClock())
    assert kept(path) == ["state.db.corrupt-20270115T080000Z"]
    assert "is corrupt" in caplog.text
    (hold,) = (await store.load(NOW)).holds
    assert (hold.target, hold.until_at, hold.who) == ("*", NOW + 3600, "ds4watch")
    assert hold.why == "state database was corrupt: holds may have been lost"
    (entry,) = await store.audit(10, kind=AuditKind.DAEMON)
    assert "kept as state.db.corrupt-20270115T080000Z" in entry.summary
    assert entry.summary.endswith("Holds may have been lost: everything is held for 1 h.")
    assert store.set_aside is not None
    await store.commit_tick(TickCommit(at=NOW, plans=(PLAN,)))
    assert await store.claim_action(NOW + 1) is None
    assert await store.lift_hold("*", who="ann", at=NOW + 2) == 1
    await store.close()


async def test_a_hold_after_corruption_is_there_even_if_the_daemon_dies_at_once(
    path: Path,
) -> None:
    path.write_bytes(b"rubbish, and a lot of it\n" * 400)
    await StateStore.open(path, FixedClock()).close()
    again = StateStore.open(path, FixedClock())
    assert len((await again.load(NOW)).holds) == 1
    assert len(kept(path)) == 1
    await again.close()


async def test_while_it_runs_the_daemon_goes_on_with_what_it_remembers(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = StateStore.open(path, FixedClock())
    await store.load(NOW)
    await store.place_hold(HOLD)
    await store.place_hold(replace(HOLD, target="other"))
    await store.lift_hold("other", who="ann", at=NOW)
    for silence in (SILENCE, replace(SILENCE, id=ENDED)):
        await store.desk.place_silence(silence)
    await store.desk.expire_silence(ENDED, who="ann", at=NOW)
    spool = SpoolBatch("g0", 0, 100, (RECORD,))
    await store.commit_tick(TickCommit(at=NOW, alerts=(FIRING,), spools=(spool,)))
    spoil(path)
    for at in range(1, 4):
        commit = TickCommit(at=NOW + at, alerts=(FIRING,), transitions=(TO_FIRING,))
        await store.commit_tick(commit)
    assert len(kept(path)) == 1
    restored = await store.load(NOW + 4)
    assert [state.name for state in restored.alerts] == ["Queue"]
    assert restored.holds == (HOLD,)
    assert await store.desk.silences(NOW + 4) == (SILENCE,)
    assert restored.spool_offsets == {"g0": 100}
    assert restored.last_tick_at == NOW + 3
    (entry,) = await store.audit(10, kind=AuditKind.DAEMON)
    assert entry.summary.endswith("Holds, silences, alerts and the level are as they were.")
    assert [it.levelno for it in caplog.records if "is corrupt" in it.message] == [logging.WARNING]
    await store.close()


async def test_a_reader_that_finds_it_corrupt_has_it_replaced_once(path: Path) -> None:
    store = StateStore.open(path, FixedClock())
    await store.load(NOW)
    spoil(path)
    assert await store.actions() == []
    assert await store.ledger.spent_total() == 0
    assert len(kept(path)) == 1
    assert len(await store.audit(10)) == 1
    await store.close()


class LostAnswer(Database):
    """A database whose next commit succeeds, but its answer is lost."""

    lose = False

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with super().writing() as connection:
            yield connection
        if self.lose:
            self.lose = False
            raise StoreError("the answer was lost", reason=EdgeReason.GONE, retryable=True)


@pytest.mark.parametrize("lose", [True, False])
async def test_money_counts_once_although_the_answer_to_a_commit_was_lost(
    path: Path, *, lose: bool
) -> None:
    tuning = Tuning(durable=True, busy_timeout_seconds=1)
    database = LostAnswer(path, Which.STATE, tuning, FixedClock())
    store = StateStore(database, {})
    first, both = (CostRow(NOW, "w1", "p", "busy", nanos) for nanos in (10, 25))
    database.lose = lose
    if lose:
        with pytest.raises(StoreError, match="lost"):
            await store.commit_tick(TickCommit(at=NOW, alerts=(FIRING,), costs=(first,)))
        # The next tick charges from where the last one that counted ended.
        await store.commit_tick(TickCommit(at=NOW + 1, alerts=(), costs=(both,)))
    else:
        await store.commit_tick(TickCommit(at=NOW, alerts=(FIRING,), costs=(first,)))
        await store.commit_tick(
            TickCommit(at=NOW + 1, alerts=(), costs=(replace(first, nanos=15),))
        )
    assert await store.ledger.spent_total() == 25
    assert await store.alerts() == []
    await store.close()
