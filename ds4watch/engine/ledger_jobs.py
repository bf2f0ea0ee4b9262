"""What is done for the ledger each minute: parts of hours that may change, storage measured."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

from ds4watch.cost.hours import HOUR_SECONDS, hour_of
from ds4watch.cost.storage import Kept, StoragePrice, storage_price_at
from ds4watch.history.ledger_values import StorageRow
from ds4watch.model.errors import StoreError
from ds4watch.model.ports import Clock, UnixSeconds

log = logging.getLogger(__name__)

LOOK_SECONDS = 60.0
_MOST_SECONDS = 5 * LOOK_SECONDS
"""A longer time was not watched."""
_SETTLED_SECONDS = 31 * 24 * HOUR_SECONDS
_SPARE_SECONDS = 3 * HOUR_SECONDS
"""Hours about to be added up are left alone: what their parts are made of may be gone by now."""
_MOST_FILES = 10_000
_BLOCK_BYTES = 512
_LOGS = ("logs", "spool")
_DATABASES = (".db", ".db-wal", ".db-shm")


class LedgerStore(Protocol):
    """Where it is written."""

    async def settle_parts(
        self, start_at: UnixSeconds, *, oldest_at: UnixSeconds | None = None
    ) -> int:
        """Make the parts of the hours from then on anew.

        oldest_at: hours changed since the last time are made anew, too, but none before this.
        """
        ...

    async def add_storage(self, rows: Sequence[StorageRow]) -> None:
        """Add what was kept to the hours."""
        ...


class LedgerJobs:
    """Looks once a minute; what fails is done by the next look."""

    def __init__(
        self,
        store: LedgerStore,
        state_dir: Path,
        prices: Sequence[StoragePrice],
        clock: Clock,
        *,
        kept_seconds: float,
        offload_bytes: Callable[[], int],
    ) -> None:
        """kept_seconds: how long hours are kept one by one.

        offload_bytes: what workers that run hold of KV caches outside of their GPUs.
        """
        self._store = store
        self._state_dir = state_dir
        self._prices = tuple(prices)
        self._clock = clock
        self._settled_seconds = min(_SETTLED_SECONDS, kept_seconds - _SPARE_SECONDS)
        self._offload_bytes = offload_bytes
        self._measured_at: UnixSeconds | None = None
        self._settled_at: UnixSeconds | None = None
        self._is_failing = False

    async def look(self) -> None:
        """Settle and measure."""
        now = self._clock.now()
        try:
            await self._settle(now)
            await self._measure(now)
        except StoreError as error:
            if not self._is_failing:
                log.warning("parts of cost and storage cannot be booked, they wait: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False

    async def _settle(self, now: UnixSeconds) -> None:
        # Gateways' records come seconds late; the store knows of those that came later.
        first = 0.0 if self._settled_at is None else hour_of(self._settled_at) - HOUR_SECONDS
        oldest = hour_of(now - self._settled_seconds)
        await self._store.settle_parts(max(first, oldest), oldest_at=oldest)
        self._settled_at = now

    async def _measure(self, now: UnixSeconds) -> None:
        since, self._measured_at = self._measured_at, now
        if since is None or not 0 < now - since <= _MOST_SECONDS:
            return
        sizes = await asyncio.to_thread(sizes_in, self._state_dir)
        sizes[Kept.KV_OFFLOAD] = self._offload_bytes()
        rows = [
            StorageRow(
                now,
                what.value,
                storage_price_at(self._prices, what, now),
                round(size * (now - since)),
            )
            for what, size in sizes.items()
            if size
        ]
        await self._store.add_storage(rows)


def sizes_in(folder: Path) -> dict[Kept, int]:
    """Return the bytes that databases, logs and spools take of a state folder's disk."""
    logs = sum(size for name in _LOGS for _, size in _files(folder / name))
    history = sum(size for name, size in _files(folder) if name.endswith(_DATABASES))
    return {Kept.HISTORY: history, Kept.LOGS: logs}


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    try:
        with os.scandir(folder) as entries:
            for it in islice(entries, _MOST_FILES):
                if it.is_file(follow_symlinks=False):
                    yield it.name, it.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
    except OSError:  # gone meanwhile, or not there yet
        return
