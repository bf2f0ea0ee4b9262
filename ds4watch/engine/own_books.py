"""Books what our own requests to workers used, apart from those of clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from ds4watch.fleet.own_use import OwnUse
from ds4watch.history.ledger_values import OwnRow
from ds4watch.model.errors import StoreError
from ds4watch.model.ports import Clock
from ds4watch.model.worker import WorkerView

log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0


class OwnStore(Protocol):
    """Where it is booked."""

    async def add_own_use(self, rows: Sequence[OwnRow]) -> None:
        """Add to the hours."""
        ...


class Workers(Protocol):
    """Who knows which worker has which address."""

    def views(self) -> Iterable[WorkerView]:
        """Return the workers."""
        ...


class OwnBooks:
    """Books once a second; what was answered in the last one is lost if the daemon ends."""

    def __init__(self, use: OwnUse, workers: Workers, store: OwnStore, clock: Clock) -> None:
        self._use = use
        self._workers = workers
        self._store = store
        self._clock = clock
        self._is_failing = False

    async def run(self) -> None:
        """Book for ever."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.book()

    async def book(self) -> None:
        """Book what there is; what cannot be stored waits."""
        taken = self._use.take()
        if not taken:
            return
        names = {view.url.rstrip("/"): view.id for view in self._workers.views()}
        now = self._clock.now()
        rows = [
            OwnRow(
                now,
                names.get(url, ""),
                work.value,
                it.requests,
                it.prompt_tokens,
                it.cached_tokens,
                it.completion_tokens,
            )
            for (url, work), it in taken.items()
        ]
        try:
            await self._store.add_own_use(rows)
        except StoreError as error:
            self._use.put_back(taken)
            if not self._is_failing:
                log.warning("what our own requests used cannot be booked, it waits: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False
