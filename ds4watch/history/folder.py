"""Folds what is due, target by target, so that appends go between."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy import Connection

from ds4watch.history import fold, join, sample_rows, settle
from ds4watch.history.appender import Appender
from ds4watch.history.database import Database
from ds4watch.history.errors import CorruptError
from ds4watch.history.fold import Batch, Carry, Due, FoldReport
from ds4watch.history.frames import SchemaOf
from ds4watch.history.pace import Pace
from ds4watch.history.sample_rows import milliseconds
from ds4watch.history.sweep import sweep
from ds4watch.model.errors import EdgeReason, StoreError
from ds4watch.model.ports import UnixSeconds

_log = logging.getLogger(__name__)

_ONLY_THIS_ONE = (EdgeReason.PARSE, EdgeReason.OTHER)
"""Errors of one target; after any other the rest would fail as well."""


@dataclass(slots=True)
class _Tally:
    chunks: int = 0
    rows: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    settled: int = 0
    joined: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, batch: Batch) -> None:
        """Count what was folded."""
        self.chunks += len(batch.chunk_rows)
        self.rows += batch.rows
        self.bytes_before += batch.bytes_before
        self.bytes_after += sum(len(row["payload"]) for row in batch.chunk_rows)

    def leave(self, error: StoreError) -> None:
        """Go on with the next target, or, where that would fail as well, raise."""
        if error.reason not in _ONLY_THIS_ONE or isinstance(error, CorruptError):
            raise error
        self.failures.append(str(error))


class Folder:
    """Carries the last value of each series from one fold of a target to the next."""

    def __init__(
        self,
        database: Database,
        pace: Pace,
        appender: Appender,
        schema_of: SchemaOf,
        *,
        damaged: Callable[[str], None],
    ) -> None:
        """`damaged` is called for each part that had to be left out."""
        self._damaged = damaged
        self._database = database
        self._pace = pace
        self._appender = appender
        self._schema_of = schema_of
        self._carries: dict[int, Carry] = {}
        self._joined_ms: dict[tuple[int, int], int] = {}
        self._counted = False
        self._failing = False

    def start_anew(self) -> None:
        """Forget everything about the file."""
        self._carries.clear()
        self._joined_ms.clear()

    def forget_target(self, target_id: int) -> None:
        """Forget what a target that is no longer stored had last."""
        self._carries.pop(target_id, None)
        for span_ms in join.SPANS_MS:
            self._joined_ms.pop((target_id, span_ms), None)

    async def fold(self, now: UnixSeconds, *, spread_seconds: float) -> FoldReport:
        """Fold all that is due. What fails stays as it was, and is tried again next time.

        What was folded is deleted when all targets had their turn: then whole pages go.
        """
        tally = _Tally()
        due = Due(milliseconds(now), milliseconds(spread_seconds))
        try:
            await self._fold_due(due, tally)
            if due.all_had_their_turn:
                await sweep(self._pace)
            for resolution_seconds in settle.SPAN_MS:
                await self._settle_due(resolution_seconds, due, tally)
            for span_ms in join.SPANS_MS:
                await self._join_due(span_ms, due, tally)
        except StoreError as error:
            tally.failures.append(str(error))
        self._tell(tally.failures)
        return FoldReport(
            chunks=tally.chunks,
            rows=tally.rows,
            bytes_before=tally.bytes_before,
            bytes_after=tally.bytes_after,
            settled=tally.settled,
            joined=tally.joined,
            failures=tuple(tally.failures),
        )

    async def _fold_due(self, due: Due, tally: _Tally) -> None:
        if not self._counted:
            await self._count_raw()
            self._counted = True
        oldest_ms = await self._database.read(sample_rows.oldest_ms, due.until_ms)
        for target_id, at_ms in oldest_ms.items():
            if at_ms < due.until_of(target_id):
                await self._fold_target(target_id, due.until_of(target_id), tally, early=False)
        for target_id in self._appender.over(fold.FOLD_BYTES):
            await self._fold_target(target_id, due.until_ms, tally, early=True)

    async def _count_raw(self) -> None:
        """Count what was there before. What comes in meanwhile may be missed: that is little."""
        for span in await self._database.read(sample_rows.spans):
            sizes = await self._pace.read(fold.raw_bytes, span)
            await self._database.in_writer(self._appender.count_raw, sizes)

    async def _fold_target(
        self, target_id: int, until_ms: int, tally: _Tally, *, early: bool
    ) -> None:
        try:
            while batch := await self._pace.read(self._read, target_id, until_ms, early):
                await self._pace.in_writer(self._store, batch)
                tally.add(batch)
        except StoreError as error:
            tally.leave(error)

    def _read(
        self,
        connection: Connection,
        target_id: int,
        until_ms: int,
        early: bool,  # noqa: FBT001 - through a thread
    ) -> Batch | None:
        carry = self._carries.get(target_id)
        return fold.read_batch(
            connection, target_id, until_ms, carry=carry, schema_of=self._schema_of, early=early
        )

    def _store(self, batch: Batch) -> None:
        with self._database.writing() as connection:
            rows_remain = fold.store_batch(connection, batch)
        self._carries[batch.target_id] = batch.carry
        self._appender.raw_bytes[batch.target_id] -= batch.bytes_before
        if not rows_remain:
            # The next scrape must not be told apart from one that is in a chunk now.
            self._appender.forget_columns(batch.target_id)

    async def _settle_due(self, resolution_seconds: int, due: Due, tally: _Tally) -> None:
        ends = await self._database.read(settle.oldest_ends, resolution_seconds)
        for target_id, end_ms in ends.items():
            until_ms = due.until_of(target_id)
            if end_ms > until_ms:
                continue
            try:
                while settling := await self._pace.read(
                    settle.read_settling, target_id, resolution_seconds, until_ms
                ):
                    await self._pace.write(settle.store_settling, settling)
                    tally.settled += len(settling.ids)
                    for number in settling.damaged:
                        self._damaged(f"roll-up {number} is left out of what it was to become")
            except StoreError as error:
                tally.leave(error)

    async def _join_due(self, span_ms: int, due: Due, tally: _Tally) -> None:
        for target_id in await self._database.read(join.target_ids):
            until_ms = due.span_end(target_id, span_ms, join.WAIT_MS)
            if self._joined_ms.get((target_id, span_ms), 0) >= until_ms:
                continue
            try:
                await self._join_target(target_id, span_ms, until_ms, tally)
            except StoreError as error:
                tally.leave(error)

    async def _join_target(
        self, target_id: int, span_ms: int, until_ms: int, tally: _Tally
    ) -> None:
        """Join all that is due of a target. What was looked at once is not looked at again."""
        from_ms = self._joined_ms.get((target_id, span_ms), 0)
        while joining := await self._pace.read(
            join.read_joining, target_id, span_ms, from_ms, until_ms, self._schema_of
        ):
            if joining.row is not None:
                await self._pace.write(join.store_joining, joining)
                tally.joined += len(joining.ids)
            for number in joining.damaged:
                self._damaged(f"chunk {number} is not joined with its neighbours")
            from_ms = joining.end_ms + 1
        self._joined_ms[target_id, span_ms] = until_ms

    def _tell(self, failures: list[str]) -> None:
        if failures and not self._failing:
            _log.warning("%s: cannot fold: %s", self._database.label, failures[0])
        elif self._failing and not failures:
            _log.warning("%s: folds again", self._database.label)
        self._failing = bool(failures)
