"""Waves of scrapes: the targets of all groups that are due, none waiting for another."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

import numpy as np

from ds4watch.model.errors import EdgeReason, ScrapeError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.scrape import ScrapeFailure, ScrapeResult, Target
from ds4watch.scrape.descriptors import Room
from ds4watch.scrape.exposition import NO_LIMITS, Page, PageReader
from ds4watch.scrape.group_state import Group
from ds4watch.scrape.options import ScrapeOptions
from ds4watch.scrape.watched import Watched

WAVE_SHARE = 0.6
"""Share of the base interval after which a wave closes; what is still out counts in the next."""

_NO_VALUES = np.empty(0, dtype=np.float64)
_NO_SCHEMA = 0

log = logging.getLogger(__name__)


class Scraper:
    """Scrapes targets in waves. Use as an async context manager: it owns the connections.

    Invariant: at most one scrape in flight for each target, however many waves pass meanwhile.
    """

    def __init__(
        self,
        groups: Mapping[str, ScrapeOptions],
        *,
        interval_seconds: float,
        concurrency: int,
        reader: PageReader,
        clock: Clock,
    ) -> None:
        """`interval_seconds`: the base interval, at which waves are asked for."""
        self._interval_seconds = interval_seconds
        self._concurrency = concurrency
        self._reader = reader
        self._clock = clock
        self._groups: dict[str, Group] = {}
        self._targets: tuple[Target, ...] = ()
        self._watched: dict[str, Watched] = {}
        self._places: dict[str, int] = {}
        self._waiting: deque[tuple[Watched, float]] = deque()
        self._running = 0
        self._finished: list[ScrapeResult] = []
        self._all_in: asyncio.Future[None] | None = None
        self._room = Room()
        self.left_out = 0
        """Scrapes left out, to spare targets."""
        self.set_groups(groups)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._drop(tuple(self._watched))

    def set_groups(self, groups: Mapping[str, ScrapeOptions]) -> None:
        """Replace the groups; what is in flight ends by the old options."""
        kept = self._groups
        self._groups = {
            name: kept[name] if name in kept and kept[name].options == options else Group(options)
            for name, options in groups.items()
        }

    async def wave(self, targets: Sequence[Target], at: UnixSeconds) -> list[ScrapeResult]:
        """Scrape the targets that are due; return what has come in by 60 % of the base interval.

        A straggler's result is returned by the wave in which it comes in, with its own start. Each
        result's `at` is the wave's instant plus the time that passed until the scrape began, so a
        step of the wall clock within a wave does not show. Never raises for a target's sake.
        """
        begun = self._clock.monotonic()
        if targets is not self._targets and tuple(targets) != self._targets:
            await self._watch(targets)
        self._queue_due(begun, epoch=at - begun)
        self._fill()
        if self._running:
            self._all_in = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._all_in,), timeout=self._interval_seconds * WAVE_SHARE)
            self._all_in = None
        finished, self._finished = self._finished, []
        # In the same order each time: what is worked out for a list of targets then serves again.
        return sorted(finished, key=lambda result: self._places[result.target.name])

    def _queue_due(self, now: float, epoch: float) -> None:
        """Queue the targets that are due and not in flight; of an unknown group, all."""
        due = {
            name: group.is_due(now, self._interval_seconds) for name, group in self._groups.items()
        }
        for watched in self._watched.values():
            name = watched.target.group
            if watched.in_flight or not due.get(name, True):
                continue
            if watched.is_left_out():
                self.left_out += 1
                continue
            watched.join(self._groups.get(name))
            watched.in_flight = True
            self._waiting.append((watched, epoch))

    def _fill(self) -> None:
        """Begin scrapes as far as concurrency allows."""
        while self._waiting and self._running < self._concurrency:
            watched, epoch = self._waiting.popleft()
            if self._watched.get(watched.target.name) is watched:
                self._running += 1
                watched.task = asyncio.create_task(
                    self._run(watched, epoch), name=watched.target.name
                )

    async def _run(self, watched: Watched, epoch: float) -> None:
        """Scrape, keep the result for the wave, and begin what waits for a place."""
        try:
            result = await self._scrape(watched, epoch)
            self._finished.append(result)
        finally:
            watched.in_flight = False
            self._running -= 1
            self._fill()
            if self._all_in is not None and not self._running and not self._all_in.done():
                self._all_in.set_result(None)

    async def _scrape(self, watched: Watched, epoch: float) -> ScrapeResult:
        begun = self._clock.monotonic()
        try:
            page = await self._page_of(watched)
        except ScrapeError as error:
            failure = ScrapeFailure(error.reason, str(error))
        except Exception as error:
            log.exception("scrape of %s broke off, a fault of ds4watch", watched.target.name)
            failure = ScrapeFailure(EdgeReason.OTHER, f"a fault of ds4watch: {error!r}")
        else:
            took = self._clock.monotonic() - begun
            watched.note_success(took, self._interval_seconds)
            schema_id = page.schema.id
            return ScrapeResult(watched.target, epoch + begun, schema_id, page.values, None, took)
        watched.note_failure(failure)
        took = self._clock.monotonic() - begun
        return ScrapeResult(watched.target, epoch + begun, _NO_SCHEMA, _NO_VALUES, failure, took)

    async def _page_of(self, watched: Watched) -> Page:
        answer = await watched.fetcher().fetch()
        limits = watched.group.limits if watched.group else NO_LIMITS
        page = self._reader.read(answer.body, answer.content_type, watched.target.name, limits)
        watched.note_odd(page)
        return page

    async def _watch(self, targets: Sequence[Target]) -> None:
        """Take over a new list of targets. Two of one name cannot be told apart: the first counts.

        They begin in an order that is the same each time, with no regard to how they are named.
        """
        wanted: dict[str, Target] = {}
        for target in targets:
            if wanted.setdefault(target.name, target) != target:
                log.warning("two targets are called %s: only the first is scraped", target.name)
        await self._drop(
            [name for name, kept in self._watched.items() if kept.target != wanted.get(name)]
        )
        self._watched = {
            name: self._watched.get(name) or Watched(wanted[name])
            for name in sorted(wanted, key=_spread)
        }
        self._places = {name: place for place, name in enumerate(self._watched)}
        self._targets = tuple(targets)
        self._room.note(len(wanted))

    async def _drop(self, names: Iterable[str]) -> None:
        """Forget targets, also what of them is in flight or has come in too late."""
        dropped = {name: self._watched.pop(name) for name in names}
        tasks = [watched.task for watched in dropped.values() if watched.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for name, watched in dropped.items():
            watched.close()
            self._reader.forget(name)
        self._finished = [it for it in self._finished if it.target.name not in dropped]


def _spread(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8).digest()
