"""What our own requests use is what the worker counts, and is booked apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import aiohttp

from benchmarks.support.sim_workers import sim_workers
from ds4watch.engine.own_books import OwnBooks
from ds4watch.fleet.client import WorkerClient
from ds4watch.fleet.own_use import OwnUse, OwnWork
from ds4watch.fleet.warm_up import Kind, Request
from ds4watch.history.ledger_values import OwnRow
from ds4watch.history.state import StateStore
from ds4watch.model.errors import EdgeReason, StoreError
from ds4watch.model.worker import WorkerView
from tests.edge.clock import SystemClock
from tests.edge.gateway.test_books import GENERATED, PROMPT, counters
from tests.edge.history.helpers import FixedClock, query


class Workers:
    def __init__(self, *views: WorkerView) -> None:
        self._views = views

    def views(self) -> tuple[WorkerView, ...]:
        return self._views


class FullStore:
    """Refuses the first time."""

    def __init__(self) -> None:
        self.rows: list[OwnRow] = []
        self.asked = 0

    async def add_own_use(self, rows: Sequence[OwnRow]) -> None:
        self.asked += 1
        if self.asked == 1:
            message = "no more room"
            raise StoreError(message, reason=EdgeReason.FULL)
        self.rows += rows


async def test_canaries_warm_ups_and_quality_runs_are_booked_as_the_worker_counts_them(
    tmp_path: Path,
) -> None:
    use = OwnUse()
    async with sim_workers(1) as (worker,), aiohttp.ClientSession() as http:
        client = WorkerClient(http, worker.url + "/", own=use)
        await client.canary("sim")
        await client.canary("sim")
        await client.warm_up("sim", Request("a longer text"))
        await client.warm_up("sim", Request("Hello", Kind.CHAT))
        await client.prompt_logprobs("sim", "how likely is this")
        counts = await counters(worker.url, http)
    store = StateStore.open(tmp_path / "state.db", SystemClock(), answer_timeout_seconds=30.0)
    books = OwnBooks(use, Workers(replace(worker, id="w7")), store.ledger, FixedClock())
    await books.book()
    await books.book()
    await store.close()
    rows = query(
        tmp_path / "state.db",
        "SELECT worker, work, requests, prompt_tokens, completion_tokens FROM own_requests_hourly",
    )
    assert sorted(row[:3] for row in rows) == [
        ("w7", "canary", 2),
        ("w7", "quality", 1),
        ("w7", "warm_up", 2),
    ]
    assert sum(row[3] for row in rows) == counts[PROMPT]
    assert sum(row[4] for row in rows) == counts[GENERATED]


async def test_what_cannot_be_stored_waits_and_is_booked_once() -> None:
    use, store = OwnUse(), FullStore()
    books = OwnBooks(use, Workers(), store, FixedClock())
    answer = {"usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    use.note("http://gone", OwnWork.CANARY, answer)
    await books.book()
    use.note("http://gone", OwnWork.CANARY, answer)
    use.note("http://gone", OwnWork.CANARY, ["odd"])
    await books.book()
    await books.book()
    (row,) = store.rows
    assert (row.worker, row.requests, row.prompt_tokens, row.completion_tokens) == ("", 3, 14, 6)
    assert store.asked == 2
