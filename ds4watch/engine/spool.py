"""Reads what gateways have spooled: whole lines from an offset on, bounded."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from ds4watch.history.rows import SpoolBatch
from ds4watch.model.usage import RequestRecord

log = logging.getLogger(__name__)

MAX_READ_BYTES = 4 << 20
"""A file at most so much in one tick; what is left waits in the file for the next."""


class SpoolMarks(Protocol):
    """Where it is stored how far each file was booked."""

    async def forget_spool(self, gateway: str) -> None:
        """Forget a file: it is gone, or begins anew."""
        ...


class Spools:
    """The spool files of all gateways, each read on from where it was booked up to."""

    def __init__(self, folder: Path, marks: SpoolMarks, offsets: Mapping[str, int]) -> None:
        self._folder = folder
        self._marks = marks
        self._offsets = dict(offsets)

    async def read(self) -> tuple[SpoolBatch, ...]:
        """Return what is to be booked, and remove files that are booked and left behind."""
        for name in await asyncio.to_thread(shrunk, self._folder, self._offsets):
            log.warning("the spool %s began anew", name)
            await self._forget(name)
        for name in await asyncio.to_thread(booked_whole, self._folder, self._offsets):
            # In this order: a file that is gone is not booked again, a file that is forgotten is.
            await asyncio.to_thread(remove, self._folder, name)
            await self._forget(name)
        return await asyncio.to_thread(read_spools, self._folder, dict(self._offsets))

    def booked(
        self, batches: Iterable[SpoolBatch], refused: Mapping[str, int]
    ) -> tuple[RequestRecord, ...]:
        """Note what has been booked, and return it. `refused`: where other files stand instead."""
        found: list[RequestRecord] = []
        for batch in batches:
            self._offsets[batch.gateway] = refused.get(batch.gateway, batch.end_bytes)
            if batch.gateway not in refused:
                found += batch.records
        return tuple(found)

    async def _forget(self, name: str) -> None:
        await self._marks.forget_spool(name)
        self._offsets.pop(name, None)


def read_spools(folder: Path, offsets: Mapping[str, int]) -> tuple[SpoolBatch, ...]:
    """Read what was appended to each `<gateway>.jsonl` since `offsets`.

    A line that cannot be read is skipped and logged. What cannot be read at all is told and left.
    """
    batches = []
    for path in sorted(folder.glob("*.jsonl")):
        try:
            batch = _read(path, offsets.get(path.stem, 0))
        except OSError as error:
            log.warning("%s cannot be read: %s", path, error)
            continue
        if batch is not None:
            batches.append(batch)
    return tuple(batches)


def shrunk(folder: Path, offsets: Mapping[str, int]) -> tuple[str, ...]:
    """Return the gateways whose spool is shorter than what was read of it: it began anew."""
    return tuple(
        path.stem
        for path in sorted(folder.glob("*.jsonl"))
        if path.stat().st_size < offsets.get(path.stem, 0)
    )


def booked_whole(folder: Path, offsets: Mapping[str, int]) -> tuple[str, ...]:
    """Return the files (names less `.jsonl`) that a gateway has left behind and that are booked.

    The newest file of a gateway is still written to.
    """
    files: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.jsonl"), key=_age):
        files.setdefault(path.name.partition(".")[0], []).append(path)
    return tuple(
        path.stem
        for older in files.values()
        for path in older[:-1]
        if offsets.get(path.stem) == path.stat().st_size
    )


def remove(folder: Path, name: str) -> None:
    """Remove a spool file."""
    (folder / f"{name}.jsonl").unlink(missing_ok=True)


def _age(path: Path) -> tuple[int, str]:
    """Order `g0.jsonl` before `g0.000001.jsonl`."""
    return len(path.name), path.name


def _read(path: Path, offset: int) -> SpoolBatch | None:
    if path.stat().st_size <= offset:
        return None
    with path.open("rb") as stream:
        stream.seek(offset)
        block = stream.read(MAX_READ_BYTES)
    whole = block[: block.rfind(b"\n") + 1]
    if not whole:
        return None
    return SpoolBatch(path.stem, offset, offset + len(whole), tuple(_records(whole, path)))


def _records(block: bytes, path: Path) -> list[RequestRecord]:
    found = []
    for line in block.splitlines():
        try:
            found.append(RequestRecord.from_json(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            log.warning("%s: a line is not a request record (%s): skipped", path, error)
    return found
