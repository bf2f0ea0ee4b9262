"""Signatures that were seen: one table in the state folder, shared by all gateway processes.

So a request that one process took is refused by the next, and by those of after a restart.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from ds4watch.model.ports import UnixSeconds

log = logging.getLogger(__name__)

_SLOT = struct.Struct("<12sI")
_WAYS = 16
"""Slots that one signature may be in."""
_LOCK_TRIES = 100


class Seen(StrEnum):
    """What the memory says of a signature."""

    NEW = "new"
    REPLAYED = "replayed"
    UNKNOWN = "unknown"
    """There is no room to note it, or the memory cannot be had: it must not be served."""


class ReplayMemory:
    """Which signatures were seen and are still good; 16 bytes each, a fixed number of them."""

    def __init__(self, path: Path, *, sets: int = 8192) -> None:
        """Use the file `path`, made when it is first needed, for 16 times `sets` signatures."""
        self._path = path
        self._sets = sets
        self._table: tuple[int, mmap.mmap] | None = None

    def note(self, signature: str, now: UnixSeconds, *, good_seconds: float) -> Seen:
        """Note a signature that is good for so long at most, and return whether it is new."""
        tag = hashlib.sha256(signature.encode("utf-8", "surrogatepass")).digest()
        try:
            table = self._opened()
            with self._locked(table[0]) as is_ours:
                if not is_ours:
                    return Seen.UNKNOWN
                return self._note(table[1], tag, int(now), int(now + good_seconds) + 1)
        except OSError as error:
            log.warning("signed requests are refused: %s cannot be used: %s", self._path, error)
            return Seen.UNKNOWN

    def close(self) -> None:
        """Let the file go."""
        if self._table is not None:
            self._table[1].close()
            os.close(self._table[0])
            self._table = None

    def _note(self, table: mmap.mmap, tag: bytes, now: int, until: int) -> Seen:
        begin = int.from_bytes(tag[12:20], "little") % self._sets * _WAYS * _SLOT.size
        free: int | None = None
        for at in range(begin, begin + _WAYS * _SLOT.size, _SLOT.size):
            known, good_until = _SLOT.unpack_from(table, at)
            if good_until <= now:
                free = at if free is None else free
            elif known == tag[:12]:
                return Seen.REPLAYED
        if free is None:
            return Seen.UNKNOWN
        _SLOT.pack_into(table, free, tag[:12], until)
        return Seen.NEW

    def _opened(self) -> tuple[int, mmap.mmap]:
        if self._table is None:
            size = self._sets * _WAYS * _SLOT.size
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                if os.fstat(descriptor).st_size < size:
                    os.posix_fallocate(descriptor, 0, size)  # never a hole: it could not be filled
                self._table = descriptor, mmap.mmap(descriptor, size)
            except (OSError, ValueError):
                os.close(descriptor)
                raise
        return self._table

    @contextmanager
    def _locked(self, descriptor: int) -> Iterator[bool]:
        """Hold the table for the microseconds of a look; never wait for one that stands still."""
        for _ in range(_LOCK_TRIES):
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            try:
                yield True
            finally:
                fcntl.lockf(descriptor, fcntl.LOCK_UN)
            return
        yield False
