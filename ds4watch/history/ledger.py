"""What the ledger has of requests, tokens and money, beside what ticks add to it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ds4watch.history import ledger_parts, ledger_rows, request_sums
from ds4watch.history.ledger_rows import hour_of
from ds4watch.history.ledger_values import (
    CostRow,
    OwnRow,
    PlacedWork,
    RequestTotals,
    StorageRow,
    WorkRow,
)
from ds4watch.history.loss import Mended
from ds4watch.history.request_sums import RequestSum, SumBy
from ds4watch.history.rows import TickCommit
from ds4watch.model.errors import StoreError
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds


class Ledger:
    """The hours of the ledger, and their sums. Raises StoreError."""

    def __init__(self, database: Mended) -> None:
        self._database = database
        self._booked_at = math.inf
        """The oldest hour that was booked into since parts were settled."""

    def note_booked(self, commit: TickCommit) -> None:
        """Note which hours a tick booked into."""
        records = (it.ended_at for batch in commit.spools for it in batch.records)
        costs = (it.hour_at for it in commit.costs)
        self._booked_at = min((self._booked_at, *map(hour_of, (*records, *costs))))

    async def requests_totals(self) -> RequestTotals:
        """Return the sums that the gateway's counters go on from."""
        return await self._database.read(ledger_rows.request_totals)

    async def cost_between(self, start_at: UnixSeconds, end_at: UnixSeconds) -> list[CostRow]:
        """Return the cost of the hours that begin in [start_at, end_at)."""
        return await self._database.read(ledger_rows.cost_between, start_at, end_at)

    async def work_between(self, start_at: UnixSeconds, end_at: UnixSeconds) -> list[WorkRow]:
        """Return tokens by hour, key and model of the hours that begin in [start_at, end_at)."""
        return await self._database.read(ledger_rows.work_between, start_at, end_at)

    async def works_between(self, start_at: UnixSeconds, end_at: UnixSeconds) -> list[PlacedWork]:
        """Return what requests took of workers in the hours that begin in [start_at, end_at)."""
        return await self._database.read(ledger_parts.works_between, start_at, end_at)

    async def last_served(self) -> dict[str, UnixSeconds]:
        """Return the end of the last hour in which each worker had requests."""
        return await self._database.read(ledger_parts.last_served)

    async def storage_between(self, start_at: UnixSeconds, end_at: UnixSeconds) -> list[StorageRow]:
        """Return what was kept in the hours that begin in [start_at, end_at)."""
        return await self._database.read(ledger_parts.storage_between, start_at, end_at)

    async def add_storage(self, rows: Sequence[StorageRow]) -> None:
        """Add what was kept to the hours."""
        await self._database.write(ledger_parts.add_storage, rows)

    async def settle_parts(
        self, start_at: UnixSeconds, *, oldest_at: UnixSeconds | None = None
    ) -> int:
        """Make the parts of the hours from then on anew; return how many rows.

        oldest_at: hours that were booked since the last time are made anew, too, but none before.
        """
        if oldest_at is not None:
            start_at = max(oldest_at, min(start_at, self._booked_at))
        booked_at, self._booked_at = self._booked_at, math.inf
        try:
            return await self._database.write(ledger_parts.settle, start_at)
        except StoreError:
            self._booked_at = min(booked_at, self._booked_at)
            raise

    async def spent_total(self) -> Nanos:
        """Return all money ever booked."""
        return await self._database.read(ledger_rows.spent_total)

    async def request_sums(self, by: SumBy, start_at: UnixSeconds) -> list[RequestSum]:
        """Return what was asked and what it cost in the hours from then on."""
        return await self._database.read(request_sums.request_sums, by, start_at)

    async def add_own_use(self, rows: Sequence[OwnRow]) -> None:
        """Add what requests of our own used to the hours."""
        await self._database.write(request_sums.add_own, rows)
