"""Range queries in a process of their own, over a store that a daemon writes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ds4watch.engine.query_child import answer
from ds4watch.engine.query_process import QueryLimits, QueryProcess
from ds4watch.engine.query_wire import RangeQuery, error_from, request_bytes
from ds4watch.model.errors import QueryError, StoreError
from ds4watch.model.series import Labels
from ds4watch.promql.storage import Matcher, SeriesMatrix
from tests.edge.history.folding import counting, open_store
from tests.edge.history.helpers import AB, NOW


def over(query: str, *, steps: int = 3) -> RangeQuery:
    return RangeQuery(query, NOW + 600, NOW + 600 + 60 * (steps - 1), 60.0)


@pytest.fixture
async def path(state_dir: Path) -> Path:
    path = state_dir / "samples.db"
    store = open_store(path)
    store.intern(AB)
    await store.append(counting(range(0, 1500, 15)))
    await store.fold(NOW + 900)
    await store.close()
    return path


@pytest.fixture
async def queries(path: Path) -> AsyncIterator[QueryProcess]:
    async with QueryProcess(path) as queries:
        yield queries


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_answers_what_is_stored(queries: QueryProcess) -> None:
    found = await queries.ask_range(over('a or absent(b{x="none"})'))
    assert [dict(labels).get("worker") for labels in found.labels] == ["w1", None]
    assert found.steps.tolist() == [NOW + 600, NOW + 660, NOW + 720]
    assert found.values.tolist() == [[600, 660, 720], [1, 1, 1]]
    assert found.there.all()
    nothing = await queries.ask_range(over("none"))
    assert nothing.values.shape == (0, 3)


async def test_what_cannot_be_evaluated_is_told_and_the_process_goes_on(
    queries: QueryProcess,
) -> None:
    with pytest.raises(QueryError, match="not supported") as told:
        await queries.ask_range(over("info(a)"))
    assert told.value.position == 0
    with pytest.raises(QueryError, match="11000 are allowed"):
        await queries.ask_range(over("a", steps=11_002))
    pid = queries.pid
    assert (await queries.ask_range(over("a"))).there.all()
    assert queries.pid == pid


async def test_a_process_that_died_is_started_anew(queries: QueryProcess) -> None:
    await queries.ask_range(over("a"))
    first = queries.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    asked = asyncio.create_task(queries.ask_range(over("a")))
    await asyncio.sleep(0)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(StoreError, match="died"):
        await asked
    assert (await queries.ask_range(over("a"))).there.all()
    assert queries.pid != first


async def test_a_query_that_takes_too_long_is_killed(path: Path) -> None:
    async with QueryProcess(path, QueryLimits(timeout_seconds=30.0)) as queries:
        await queries.ask_range(over("a"))
    async with QueryProcess(path, QueryLimits(timeout_seconds=0.01)) as queries:
        with pytest.raises(QueryError, match=r"over 0\.01 s"):
            await queries.ask_range(over("a"))
        assert queries.pid is None


async def test_a_query_that_is_given_up_leaves_no_answer_behind(queries: QueryProcess) -> None:
    await queries.ask_range(over("a"))
    first = queries.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    asked = asyncio.create_task(queries.ask_range(over("b")))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert gone(first)
    found = await queries.ask_range(over("a"))
    assert found.values.tolist() == [[600, 660, 720]]


async def test_queries_wait_for_their_turn_but_not_too_many(path: Path) -> None:
    async with QueryProcess(path, QueryLimits(waiting=2)) as queries:
        asked = [asyncio.create_task(queries.ask_range(over("a"))) for _ in range(3)]
        results = await asyncio.gather(*asked, return_exceptions=True)
        refused = [one for one in results if isinstance(one, QueryError)]
        assert len(refused) == 1
        assert "2 queries wait already" in str(refused[0])


async def test_it_ends_with_the_daemon(path: Path) -> None:
    async with QueryProcess(path) as queries:
        await queries.ask_range(over("a"))
        pid = queries.pid
    assert pid is not None
    assert gone(pid)


async def test_it_can_be_there_before_it_is_asked(path: Path) -> None:
    async with QueryProcess(path) as queries:
        queries.begin()
        async with asyncio.timeout(10):
            while (pid := queries.pid) is None:
                await asyncio.sleep(0.01)
        assert (await queries.ask_range(over("a"))).there.all()
        assert queries.pid == pid


async def test_one_that_was_never_asked_ends_with_the_daemon_too(path: Path) -> None:
    async with QueryProcess(path) as queries:
        queries.begin()
        async with asyncio.timeout(10):
            while (pid := queries.pid) is None:
                await asyncio.sleep(0.01)
    assert gone(pid)
    async with QueryProcess(path) as queries:
        queries.begin()


async def test_a_store_that_is_not_there_is_told(state_dir: Path) -> None:
    async with QueryProcess(state_dir / "samples.db") as queries:
        with pytest.raises(StoreError, match="cannot be read: No such file"):
            await queries.ask_range(over("a"))
    assert not (state_dir / "samples.db").exists()


class Greedy:
    def columns(self, matchers: Sequence[Matcher], start: float, end: float) -> SeriesMatrix:
        raise MemoryError(matchers, start, end)

    def series(self, matchers: Sequence[Matcher], start: float, end: float) -> set[Labels]:
        raise MemoryError(matchers, start, end)


def test_a_query_that_needs_too_much_memory_is_told() -> None:
    (body,) = answer(request_bytes(over("a")), Greedy())
    error = error_from(body)
    assert isinstance(error, QueryError)
    assert "more memory than it may take" in str(error)
