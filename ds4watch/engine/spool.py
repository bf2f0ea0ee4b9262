"""Reads what gateways have spooled: whole lines from an offset on, bounded."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from ds4watch.history.rows import SpoolBatch
from ds4watch.model.usage import RequestRecord

log = logging.getLogger(__name__)

MAX_READ_BYTES = 4 << 20
"""A file at most so much in one tick; what is left waits in the file for the next."""


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
