"""Reads what gateways have spooled: whole lines from an offset on, bounded."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ds4watch.model.usage import RequestRecord

log = logging.getLogger(__name__)

MAX_READ_BYTES = 4 << 20
"""A file at most so much in one tick; what is left waits in the file for the next."""


@dataclass(frozen=True, slots=True)
class SpoolRead:
    """Records read, and for each gateway the offset up to which they were."""

    records: tuple[RequestRecord, ...]
    offsets: Mapping[str, int]


def read_spools(folder: Path, offsets: Mapping[str, int]) -> SpoolRead:
    """Read what was appended to each `<gateway>.jsonl` since `offsets`.

    A line that cannot be read is skipped and logged; a file shorter than its offset was begun
    anew, and is read from its start.
    """
    records: list[RequestRecord] = []
    news: dict[str, int] = {}
    for path in sorted(folder.glob("*.jsonl")):
        offset = offsets.get(path.stem, 0)
        size = path.stat().st_size
        if size < offset:
            log.warning("%s is shorter than what was read of it: read from its start", path)
            offset = 0
        if size == offset:
            continue
        with path.open("rb") as stream:
            stream.seek(offset)
            block = stream.read(MAX_READ_BYTES)
        whole = block[: block.rfind(b"\n") + 1]
        if whole:
            news[path.stem] = offset + len(whole)
            records.extend(_records(whole, path))
    return SpoolRead(tuple(records), news)


def _records(block: bytes, path: Path) -> list[RequestRecord]:
    found = []
    for line in block.splitlines():
        try:
            found.append(RequestRecord.from_json(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            log.warning("%s: a line is not a request record (%s): skipped", path, error)
    return found
