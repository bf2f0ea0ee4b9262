"""Each minute parts are settled and what is kept is measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ds4watch.cost.storage import StoragePrice, storage_nanos
from ds4watch.engine.ledger_jobs import LedgerJobs
from ds4watch.history.ledger_values import StorageRow
from ds4watch.model.errors import EdgeReason, StoreError

PRICES = (StoragePrice("*", 1000, 0.0), StoragePrice("logs", 2000, 0.0))
NOW = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


class Store:
    def __init__(self) -> None:
        self.settled: list[float] = []
        self.rows: list[StorageRow] = []
        self.is_failing = False

    async def settle_parts(self, start_at: float, *, oldest_at: float | None = None) -> int:
        if self.is_failing:
            raise StoreError("locked", reason=EdgeReason.OTHER)
        self.settled.append(start_at)
        self.oldest_at = oldest_at
        return 0

    async def add_storage(self, rows: Sequence[StorageRow]) -> None:
        self.rows += rows


def jobs(folder: Path, clock: Clock, store: Store, *, kept_days: float = 1096) -> LedgerJobs:
    kept = kept_days * 86_400
    return LedgerJobs(store, folder, PRICES, clock, kept_seconds=kept, offload_bytes=lambda: 10**9)


async def test_databases_logs_and_offloaded_caches_are_measured_for_the_time_between(
    tmp_path: Path,
) -> None:
    clock, store = Clock(), Store()
    (tmp_path / "state.db").write_bytes(b"x" * 50_000)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "worker-w.log").write_bytes(b"x" * 10_000)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "weights").write_bytes(b"x" * 10**6)
    it = jobs(tmp_path, clock, store)
    await it.look()
    assert store.rows == []
    clock.at += 60
    await it.look()
    found = {row.what: row for row in store.rows}
    assert found["history"].byte_seconds >= 60 * 50_000
    assert 60 * 10_000 <= found["logs"].byte_seconds < 60 * 10**6
    assert found["kv_offload"] == StorageRow(clock.at, "kv_offload", 1000, 60 * 10**9)
    assert found["logs"].nanos_per_gb_hour == 2000
    assert storage_nanos(3600 * 10**9, 1000) == 1000


async def test_a_time_that_was_not_watched_is_not_charged(tmp_path: Path) -> None:
    clock, store = Clock(), Store()
    it = jobs(tmp_path, clock, store)
    await it.look()
    clock.at += 3600
    await it.look()
    assert store.rows == []


async def test_after_a_start_a_month_is_settled_and_then_what_may_change(tmp_path: Path) -> None:
    clock, store = Clock(), Store()
    it = jobs(tmp_path, clock, store)
    await it.look()
    clock.at += 60
    store.is_failing = True
    await it.look()
    store.is_failing = False
    clock.at += 3600
    await it.look()
    assert store.settled == [NOW - 31 * 86_400, NOW - 3600]


async def test_hours_that_may_be_added_up_by_now_are_not_settled(tmp_path: Path) -> None:
    clock, store = Clock(), Store()
    await jobs(tmp_path, clock, store, kept_days=1).look()
    assert store.settled == [NOW - 86_400 + 3 * 3600]
    assert store.oldest_at == store.settled[0]
