"""Queries over the store in a process of their own, so that none ever slows the wave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ds4watch.engine.query_wire import (
    LENGTH,
    RangeQuery,
    error_from,
    frame,
    length_of,
    matrix_from,
    request_bytes,
)
from ds4watch.history.place import Place
from ds4watch.model.errors import EdgeReason, QueryTimeoutError, StoreError
from ds4watch.model.question import Question
from ds4watch.promql.result import Matrix

log = logging.getLogger(__name__)

_COMMAND = (sys.executable, "-m", "ds4watch.engine.query_child")
_LEAVE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """How long a query may take, how much its process, and how many may wait for their turn."""

    timeout_seconds: float = 30.0
    memory_bytes: int = 4 << 30
    waiting: int = 32


class QueryProcess:
    """Queries over the store at `place`, one at a time.

    Use as an async context manager. The process starts beforehand with `begin`, else with the first
    query, anew after it died; it is killed when a query takes too long or is given up.
    """

    def __init__(self, place: Place, limits: QueryLimits = QueryLimits()) -> None:
        self._place = place
        self._limits = limits
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._beginning: asyncio.Task[None] | None = None
        self._was_asked = False

    async def __aenter__(self) -> Self:
        """Return itself; nothing is started yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process."""
        if self._beginning is not None:
            await asyncio.wait((self._beginning,))
        await (self._end() if self._was_asked else self._kill())

    def begin(self) -> None:
        """Start the process in the background, so that the first query need not wait for it."""
        self._beginning = asyncio.create_task(self._begin())

    async def _begin(self) -> None:
        async with self._turn:
            try:
                await self._running()
            except OSError as error:
                log.warning("the query process does not start, the first query tries: %s", error)

    @property
    def pid(self) -> int | None:
        """The process that answers, if one runs."""
        return None if self._process is None else self._process.pid

    async def ask_range(self, query: RangeQuery) -> Matrix:
        """Return what an expression gives over a range.

        Raises QueryError for what cannot be evaluated, takes too long or more than it may, and
        StoreError if the store cannot be read or the process dies.
        """
        return matrix_from(*await self._answered(query, self._limits.timeout_seconds))

    async def ask_body(self, question: Question) -> bytes:
        """Return the body of the HTTP answer to a question. Raises as `ask_range` does."""
        most = self._limits.timeout_seconds
        seconds = min(most, question.timeout_seconds or most)
        _, body = await self._answered(question, seconds)
        return body

    async def _answered(
        self, request: RangeQuery | Question, timeout_seconds: float
    ) -> tuple[bytes, bytes]:
        async with self._my_turn():
            process = await self._running()
            self._was_asked = True
            try:
                async with asyncio.timeout(timeout_seconds):
                    return await _asked(process, request)
            except TimeoutError:
                await self._kill()
                message = (
                    f"the query took over {timeout_seconds:g} s: "
                    "select fewer series or a shorter time"
                )
                raise QueryTimeoutError(message) from None
            except (asyncio.IncompleteReadError, OSError, ValueError) as error:
                await self._kill()
                log.warning(
                    "the query process died, with %s; the next query starts another", request
                )
                message = "the query process died"
                raise StoreError(message, reason=EdgeReason.GONE, retryable=True) from error
            except asyncio.CancelledError:
                # Its answer would be taken for that of the next query.
                await self._kill()
                raise

    @contextlib.asynccontextmanager
    async def _my_turn(self) -> AsyncIterator[None]:
        if self._waiting >= self._limits.waiting:
            raise QueryTimeoutError(f"{self._waiting} queries wait already: ask again later")
        self._waiting += 1
        try:
            async with self._turn:
                yield
        finally:
            self._waiting -= 1

    async def _running(self) -> Process:
        process = self._process
        if process is None or process.returncode is not None:
            # One thread: the other cores are the wave's.
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            process = await asyncio.create_subprocess_exec(
                *_COMMAND, stdin=PIPE, stdout=PIPE, env=environment
            )
            self._process = process
            assert process.stdin is not None
            process.stdin.write(frame(self._settings()))
        return process

    def _settings(self) -> bytes:
        place = self._place
        where = {"path": str(place)} if isinstance(place, Path) else {"url": place.url}
        limits = {
            "memory_bytes": self._limits.memory_bytes,
            "timeout_seconds": self._limits.timeout_seconds,
        }
        return json.dumps({**where, **limits}).encode()

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await _reaped(process)

    async def _end(self) -> None:
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await _reaped(process)
            self._process = None
        except TimeoutError:
            await self._kill()


async def _asked(process: Process, request: RangeQuery | Question) -> tuple[bytes, bytes]:
    assert process.stdin is not None
    process.stdin.write(frame(request_bytes(request)))
    await process.stdin.drain()
    head = await _received(process)
    error = error_from(head)
    if error is not None:
        raise error
    return head, await _received(process)


async def _received(process: Process) -> bytes:
    assert process.stdout is not None
    length = length_of(await process.stdout.readexactly(LENGTH.size))
    return await process.stdout.readexactly(length)


async def _reaped(process: Process) -> None:
    """Wait for its end; what it still said is read, or its pipe would stay open."""
    assert process.stdout is not None
    await process.stdout.read()
    await process.wait()
