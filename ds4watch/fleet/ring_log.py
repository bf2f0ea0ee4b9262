"""Logs of bounded size, written by processes that outlive the daemon.

A worker has its log open for appending, so nothing stands between it and the disk that could die
with the daemon. Once the file is over its limit, its end is copied beside it (`.1`) and it is cut
to nothing: the worker's next line is its first. What is written between the last copied byte and
the cut, some microseconds, is lost. Without a daemon it grows, until the next one cuts it.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger(__name__)

LIMIT_BYTES = 16 << 20
_CHUNK_BYTES = 1 << 20


def older(path: Path) -> Path:
    """Return where the part before the cut is kept."""
    return path.with_name(path.name + ".1")


def trim(path: Path, limit_bytes: int = LIMIT_BYTES) -> bool:
    """Cut a log that is over its limit; return whether it was. Never raises.

    If there is no room for the copy, the part before the cut is lost, and that is told.
    """
    try:
        if path.stat().st_size <= limit_bytes:
            return False
    except OSError:
        return False  # no log, nothing to cut
    try:
        _keep_end(path, limit_bytes)
    except OSError as error:
        log.warning("the older part of %s is lost: %s", path, error)
        with contextlib.suppress(OSError):
            older(path).unlink(missing_ok=True)
    try:
        os.truncate(path, 0)
    except OSError as error:
        log.warning("%s cannot be cut: %s", path, error)
        return False
    return True


def _keep_end(path: Path, limit_bytes: int) -> None:
    target = older(path)
    target.unlink(missing_ok=True)  # its room is needed for what takes its place
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with path.open("rb") as source, os.fdopen(descriptor, "wb", buffering=0) as kept:
        size = source.seek(0, os.SEEK_END)
        source.seek(max(0, size - limit_bytes))
        while chunk := source.read(_CHUNK_BYTES):
            kept.write(chunk)


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a log, from before the cut too. Raises OSError if there is none."""
    parts = [part for part in (older(path), path) if part.exists()] or [path]
    lines: deque[bytes] = deque(maxlen=count)
    for data in _ends(parts):
        lines.extend(data.splitlines())
    return [line.decode("utf-8", "replace") for line in lines]


def _ends(parts: list[Path]) -> Iterator[bytes]:
    for part in parts:
        with part.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - LIMIT_BYTES))
            yield stream.read(LIMIT_BYTES)


class Follower:
    """Reads on where it left off, over a cut as well."""

    def __init__(self, path: Path) -> None:
        """Begin at the end of what is there now."""
        self._path = path
        self._at = path.stat().st_size if path.exists() else 0

    def more(self) -> str:
        """Return what was written since the last time."""
        try:
            size = self._path.stat().st_size
            if size < self._at:  # it was cut; what came before stands in the older part
                self._at = 0
            with self._path.open("rb") as stream:
                stream.seek(self._at)
                data = stream.read(_CHUNK_BYTES)
        except FileNotFoundError:
            return ""
        self._at += len(data)
        return data.decode("utf-8", "replace")
