"""Reads what gateways have spooled: whole lines from an offset on, bounded."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ds4watch.history.ledger_values import SpoolBatch
from ds4watch.model.errors import EdgeError
from ds4watch.model.usage import RequestRecord

log = logging.getLogger(__name__)

_SUFFIX = ".jsonl"
MAX_READ_BYTES = 4 << 20
"""A file at most so much in one tick; what is left waits in the file for the next."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is in the folder: files that began anew, that are done with, and what is new in all."""

    shrunk: tuple[str, ...]
    booked_whole: tuple[str, ...]
    batches: tuple[SpoolBatch, ...]


class SpoolMarks(Protocol):
    """Where it is stored how far each file was booked."""

    async def forget_spool(self, gateway: str) -> None:
        """Forget a file: it is gone, or begins anew."""
        ...


class Spools:
    """The spool files of all gateways, each read on from where it was booked up to."""

    def __init__(
        self, folder: Path, marks: SpoolMarks, offsets: Mapping[str, int], *, owner: str = ""
    ) -> None:
        """Begin where `offsets` say. owner: what the names in them begin with that are ours."""
        self._folder = folder
        self._marks = marks
        self._owner = owner
        self._offsets = {
            name.removeprefix(owner): at for name, at in offsets.items() if name.startswith(owner)
        }

    async def read(self) -> tuple[SpoolBatch, ...]:
        """Return what is to be booked, and remove files that are booked and left behind.

        Without the store that such a file is forgotten in, nothing is returned, and a line says so.
        """
        look = await asyncio.to_thread(look_at, self._folder, dict(self._offsets))
        if not look.shrunk and not look.booked_whole:
            return self._named(look.batches)
        try:
            await self._tidy(look)
        except EdgeError as error:
            log.warning("spools are not read: %s", error)
            return ()
        return self._named(await asyncio.to_thread(read_spools, self._folder, dict(self._offsets)))

    def _named(self, batches: Iterable[SpoolBatch]) -> tuple[SpoolBatch, ...]:
        return tuple(replace(it, gateway=f"{self._owner}{it.gateway}") for it in batches)

    async def _tidy(self, look: Look) -> None:
        for name in look.shrunk:
            log.warning("the spool %s began anew", name)
            await self._forget(name)
        for name in look.booked_whole:
            # In this order: a file that is gone is not booked again, a file that is forgotten is.
            await asyncio.to_thread(remove, self._folder, name)
            await self._forget(name)

    def booked(
        self, batches: Iterable[SpoolBatch], refused: Mapping[str, int]
    ) -> tuple[RequestRecord, ...]:
        """Note what has been booked, and return it. `refused`: where other files stand instead."""
        found: list[RequestRecord] = []
        for batch in batches:
            own = batch.gateway.removeprefix(self._owner)
            self._offsets[own] = refused.get(batch.gateway, batch.end_bytes)
            if batch.gateway not in refused:
                found += batch.records
        return tuple(found)

    async def _forget(self, name: str) -> None:
        await self._marks.forget_spool(f"{self._owner}{name}")
        self._offsets.pop(name, None)


def look_at(folder: Path, offsets: Mapping[str, int]) -> Look:
    """Look through the folder once."""
    sizes = sizes_in(folder)
    return Look(
        shrunk(sizes, offsets), booked_whole(sizes, offsets), _read_spools(folder, sizes, offsets)
    )


def sizes_in(folder: Path) -> dict[str, int]:
    """Return the bytes of each spool file, by its name less `.jsonl`."""
    try:
        with os.scandir(folder) as found:
            files = [it for it in found if it.name.endswith(_SUFFIX)]
            return {it.name.removesuffix(_SUFFIX): it.stat().st_size for it in files}
    except FileNotFoundError:
        return {}


def read_spools(folder: Path, offsets: Mapping[str, int]) -> tuple[SpoolBatch, ...]:
    """Read what was appended to each `<gateway>.jsonl` since `offsets`.

    A line that cannot be read is skipped and logged. What cannot be read at all is told and left.
    """
    return _read_spools(folder, sizes_in(folder), offsets)


def _read_spools(
    folder: Path, sizes: Mapping[str, int], offsets: Mapping[str, int]
) -> tuple[SpoolBatch, ...]:
    batches = []
    for name in sorted(sizes):
        offset = offsets.get(name, 0)
        if sizes[name] <= offset:
            continue
        path = folder / f"{name}{_SUFFIX}"
        try:
            batch = _read(path, offset)
        except OSError as error:
            log.warning("%s cannot be read: %s", path, error)
            continue
        if batch is not None:
            batches.append(batch)
    return tuple(batches)


def shrunk(sizes: Mapping[str, int], offsets: Mapping[str, int]) -> tuple[str, ...]:
    """Return the gateways whose spool is shorter than what was read of it: it began anew."""
    return tuple(name for name in sorted(sizes) if sizes[name] < offsets.get(name, 0))


def booked_whole(sizes: Mapping[str, int], offsets: Mapping[str, int]) -> tuple[str, ...]:
    """Return the files (names less `.jsonl`) that a gateway has left behind and that are booked.

    The newest file of a gateway is still written to.
    """
    files: dict[str, list[str]] = {}
    for name in sorted(sizes, key=_age):
        files.setdefault(name.partition(".")[0], []).append(name)
    return tuple(
        name for older in files.values() for name in older[:-1] if offsets.get(name) == sizes[name]
    )


def remove(folder: Path, name: str) -> None:
    """Remove a spool file."""
    (folder / f"{name}{_SUFFIX}").unlink(missing_ok=True)


def _age(name: str) -> tuple[int, str]:
    """Order `g0` before `g0.000001`."""
    return len(name), name


def _read(path: Path, offset: int) -> SpoolBatch | None:
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
