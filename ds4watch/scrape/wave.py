"""Waves of scrapes: all targets at each interval, none waiting for another."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import aiohttp
import numpy as np

from ds4watch.config.settings import ScrapeSettings
from ds4watch.model.errors import EdgeReason, ScrapeError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.scrape import ScrapeFailure, ScrapeResult, Target
from ds4watch.scrape.exposition import Page, PageReader
from ds4watch.scrape.fetch import fetch

WAVE_SHARE = 0.6
"""Share of the interval after which a wave closes; what is still out counts in the next."""

_NO_VALUES = np.empty(0, dtype=np.float64)
_NO_SCHEMA = 0

log = logging.getLogger(__name__)


class Scraper:
    """Scrapes targets in waves. Use as an async context manager: it owns the HTTP session.

    Invariant: at most one scrape in flight for each target, however many waves pass meanwhile.
    """

    def __init__(
        self,
        session_factory: Callable[[], aiohttp.ClientSession],
        settings: ScrapeSettings,
        *,
        reader: PageReader,
        clock: Clock,
    ) -> None:
        self._session_factory = session_factory
        self._settings = settings
        self._reader = reader
        self._clock = clock
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._session: aiohttp.ClientSession | None = None
        self._in_flight: dict[Target, asyncio.Task[ScrapeResult]] = {}
        self._failing: dict[str, EdgeReason] = {}
        self._odd: set[str] = set()

    async def __aenter__(self) -> Self:
        self._session = self._session_factory()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._cancel(tuple(self._in_flight))
        if self._session is not None:
            await self._session.close()

    async def wave(self, targets: Sequence[Target], at: UnixSeconds) -> list[ScrapeResult]:
        """Scrape all targets; return what has come in by 60 % of the interval.

        A straggler's result is returned by the wave in which it comes in, with its own start. Each
        result's `at` is the wave's instant plus the time that passed until the scrape began, so a
        step of the wall clock within a wave does not show. Never raises for a target's sake.
        """
        begun = self._clock.monotonic()
        await self._drop_all_but(set(targets))
        for target in sorted(set(targets) - self._in_flight.keys(), key=_spread):
            task = asyncio.create_task(self._scrape(target, at - begun), name=target.name)
            self._in_flight[target] = task
        if self._in_flight:
            limit = self._settings.interval_seconds * WAVE_SHARE
            await asyncio.wait(self._in_flight.values(), timeout=limit)
        return [self._collect(target) for target, task in self._done()]

    async def _scrape(self, target: Target, epoch: float) -> ScrapeResult:
        async with self._slots:
            begun = self._clock.monotonic()
            at = epoch + begun
            try:
                page = await self._page_of(target)
            except ScrapeError as error:
                failure = ScrapeFailure(error.reason, str(error))
                took = self._clock.monotonic() - begun
                return ScrapeResult(target, at, _NO_SCHEMA, _NO_VALUES, failure, took)
            took = self._clock.monotonic() - begun
            return ScrapeResult(target, at, page.schema.id, page.values, took_seconds=took)

    async def _page_of(self, target: Target) -> Page:
        if self._session is None:
            message = "the scraper is not open"
            raise ScrapeError(message, reason=EdgeReason.OTHER)
        fetched = await fetch(self._session, target.url, self._settings)
        page = self._reader.read(fetched.body, fetched.content_type, target.name)
        self._note_odd(target, page)
        return page

    def _done(self) -> list[tuple[Target, asyncio.Task[ScrapeResult]]]:
        return [(target, task) for target, task in self._in_flight.items() if task.done()]

    def _collect(self, target: Target) -> ScrapeResult:
        task = self._in_flight.pop(target)
        error = task.exception()
        if error is None:
            result = task.result()
        else:
            log.error("scrape of %s broke off, a fault of ds4watch", target.name, exc_info=error)
            failure = ScrapeFailure(EdgeReason.OTHER, repr(error))
            result = ScrapeResult(target, self._clock.now(), _NO_SCHEMA, _NO_VALUES, failure)
        self._note_outcome(target, result.failure)
        return result

    def _note_outcome(self, target: Target, failure: ScrapeFailure | None) -> None:
        before = self._failing.get(target.name)
        if failure is None:
            if self._failing.pop(target.name, None) is not None:
                log.info("scrapes of %s succeed again", target.name)
        elif before is not failure.reason:
            self._failing[target.name] = failure.reason
            log.warning(
                "scrape of %s (%s) failed: %s: %s",
                target.name,
                target.url,
                failure.reason,
                failure.message,
            )

    def _note_odd(self, target: Target, page: Page) -> None:
        odd = bool(page.odd_lines or page.duplicates or page.mislabelled)
        if odd and target.name not in self._odd:
            self._odd.add(target.name)
            log.warning(
                "page of %s: %d unreadable lines left out, %d duplicates, wrong Content-Type: %s",
                target.name,
                page.odd_lines,
                page.duplicates,
                page.mislabelled,
            )
        elif not odd and target.name in self._odd:
            self._odd.discard(target.name)
            log.info("page of %s is well-formed again", target.name)

    async def _drop_all_but(self, wanted: set[Target]) -> None:
        await self._cancel(tuple(target for target in self._in_flight if target not in wanted))
        names = {target.name for target in wanted}
        for name in self._reader.targets() - names:
            self._reader.forget(name)
        self._odd &= names
        self._failing = {name: why for name, why in self._failing.items() if name in names}

    async def _cancel(self, targets: Sequence[Target]) -> None:
        tasks = [self._in_flight.pop(target) for target in targets]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _spread(target: Target) -> bytes:
    """Order targets the same way each time, and with no regard to how they are named."""
    return hashlib.blake2b(target.name.encode(), digest_size=8).digest()
