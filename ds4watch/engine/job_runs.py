"""Runs a job, and keeps when it ran last and what came of it: in the database, in /metrics."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from ds4watch.history.rows import JobRun
from ds4watch.model.errors import Ds4watchError, StoreError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.telemetry.metrics import ProcessMetrics

log = logging.getLogger(__name__)

Work = Callable[[], Awaitable[str]]
"""A job: it returns in a few words what it did, and raises what kept it from that."""


class JobBook(Protocol):
    """Where runs are kept."""

    async def job_started(self, name: str, at: UnixSeconds) -> None:
        """Store that a job began. Raises StoreError."""

    async def job_finished(
        self, name: str, *, at: UnixSeconds, took_seconds: float, result: str, ok: bool
    ) -> None:
        """Store how a job ended. Raises StoreError."""


class JobRuns:
    """The last run of each job; `last` is what the status shows."""

    def __init__(
        self, last: dict[str, JobRun], book: JobBook, *, metrics: ProcessMetrics, clock: Clock
    ) -> None:
        """Go on from `last`, which is kept up to date."""
        self._last = last
        self._book = book
        self._metrics = metrics
        self._clock = clock
        for run in last.values():
            if run.last_succeeded_at is not None:
                metrics.job_last_success.labels(run.name).set(run.last_succeeded_at)

    async def run(self, name: str, work: Work) -> None:
        """Do the work, and keep how it went. What is not ours to foresee is raised again."""
        began = self._clock.monotonic()
        await self._start(name)
        try:
            result = await work()
        except Ds4watchError as error:
            await self._finish(name, began, str(error), ok=False)
        except Exception as error:
            await self._finish(name, began, f"{type(error).__name__}: {error}", ok=False)
            raise
        else:
            await self._finish(name, began, result, ok=True)

    async def _start(self, name: str) -> None:
        now = self._clock.now()
        self._metrics.job_failures.labels(name)
        before = self._last.get(name, JobRun(name, now))
        self._last[name] = replace(before, last_started_at=now)
        await self._keep(name, self._book.job_started(name, now))

    async def _finish(self, name: str, began: float, result: str, *, ok: bool) -> None:
        before, now = self._last[name], self._clock.now()
        took_seconds = self._clock.monotonic() - began
        self._last[name] = replace(
            before,
            last_finished_at=now,
            took_seconds=took_seconds,
            result=result,
            ok=ok,
            last_succeeded_at=now if ok else before.last_succeeded_at,
        )
        if ok:
            self._metrics.job_last_success.labels(name).set(now)
        else:
            self._metrics.job_failures.labels(name).inc()
        _tell(before, result, ok=ok)
        kept = self._book.job_finished(
            name, at=now, took_seconds=took_seconds, result=result, ok=ok
        )
        await self._keep(name, kept)

    async def _keep(self, name: str, writing: Awaitable[None]) -> None:
        try:
            await writing
        except StoreError as error:
            log.warning("job %s: its run could not be stored: %s", name, error)


def _tell(before: JobRun, result: str, *, ok: bool) -> None:
    """Log the first failure, and the recovery."""
    if not ok and before.ok is not False:
        log.warning("job %s failed: %s", before.name, result)
    elif ok and before.ok is False:
        log.warning("job %s succeeds again: %s", before.name, result)
