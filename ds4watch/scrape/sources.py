"""Lists of targets in files, which keep their last good state; see also web_source."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ds4watch.config.files import matching_files
from ds4watch.model.errors import EdgeReason, ScrapeError
from ds4watch.scrape.groups import FilePlan
from ds4watch.scrape.listing import MAX_LIST_BYTES, Listing, read_json, read_yaml


class Fault(NamedTuple):
    """A list that could not be had: where, which kind of failure, what is wrong."""

    place: str
    kind: EdgeReason
    message: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a source lists now. is_whole: each of its lists was good, now or once before."""

    listings: tuple[Listing, ...] = ()
    faults: tuple[Fault, ...] = ()
    is_whole: bool = True


class _Known(NamedTuple):
    """A file's list, and by what to tell this state of the file from another."""

    stamp: tuple[int, ...]
    listings: tuple[Listing, ...]


class FileSource:
    """Files of one file_sd entry; read again when they change.

    A file that is broken, or was named and is gone, keeps its last list. One that a pattern no
    longer finds was removed, as Prometheus has it.
    """

    def __init__(self, plan: FilePlan) -> None:
        self.refresh_seconds = plan.refresh_seconds
        self._plan = plan
        self._known: dict[Path, _Known] = {}

    async def read(self) -> Found:
        """Return what the files list now; they are read in a thread."""
        return await asyncio.to_thread(self.look)

    def look(self) -> Found:
        """Return what the files list now."""
        paths = self._paths()
        faults: list[Fault] = []
        self._known = {path: known for path, known in self._known.items() if path in paths}
        for path in paths:
            try:
                self._known[path] = _read_file(path, self._known.get(path))
            except ScrapeError as error:
                faults.append(Fault(str(path), error.reason, str(error)))
        listings = tuple(
            listing for path in paths if path in self._known for listing in self._known[path][1]
        )
        return Found(listings, tuple(faults), is_whole=self._known.keys() >= paths.keys())

    def _paths(self) -> dict[Path, None]:
        """Return the files in order; a name without * stands for itself, there or not."""
        found: dict[Path, None] = {}
        for pattern in self._plan.patterns:
            matches = matching_files(self._plan.base, pattern)
            if not matches and not any(sign in pattern for sign in "*?["):
                matches = [self._plan.base / pattern]
            found |= dict.fromkeys(matches)
        return found


def _read_file(path: Path, known: _Known | None) -> _Known:
    """Return a file's list, read only if it changed. Raises ScrapeError."""
    try:
        with path.open("rb") as stream:
            stat = os.fstat(stream.fileno())
            stamp = (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            if known is not None and known.stamp == stamp:
                return known
            body = stream.read(MAX_LIST_BYTES + 1)
    except FileNotFoundError as error:
        raise ScrapeError("there is no such file", reason=EdgeReason.GONE) from error
    except OSError as error:
        message = (error.strerror or str(error)).lower()
        raise ScrapeError(message, reason=EdgeReason.OTHER) from error
    if len(body) > MAX_LIST_BYTES:
        raise too_large()
    read = read_json if path.suffix == ".json" else read_yaml
    name = os.fsencode(path).decode(errors="replace")
    return _Known(stamp, read(body, {"__meta_filepath": name}))


def too_large() -> ScrapeError:
    """Return what is said of a list that is longer than any is read."""
    message = f"larger than {MAX_LIST_BYTES >> 20} MiB"
    return ScrapeError(message, reason=EdgeReason.TOO_LARGE)
