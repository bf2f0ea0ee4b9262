"""The spool: append-only files of what was answered, read by the daemon.

Each line has the number after the last one's, over restarts too. A file that has grown large is
followed by the next (`g0.jsonl`, `g0.000001.jsonl`, …); the daemon removes those it has booked.
Nothing on the way of a request waits for the disk; what a full disk cannot take waits in a bounded
queue.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from io import FileIO
from pathlib import Path

from ds4watch.model.errors import EdgeReason, StoreError

log = logging.getLogger(__name__)

_FLUSH_SECONDS = 0.1
_TAIL_BYTES = 1 << 20
MAX_FILE_BYTES = 16 << 20


class Spool:
    """One gateway's spool; at most one process has it open."""

    def __init__(
        self, path: Path, *, max_queued: int = 100_000, max_file_bytes: int = MAX_FILE_BYTES
    ) -> None:
        """Open the newest file and go on after the last line. Raises StoreError.

        path: the first file, whose name less `.jsonl` is the gateway's.
        """
        self._first = path
        files = _files(path)
        self._path = files[-1] if files else path
        self._max_queued = max_queued
        self._max_file_bytes = max_file_bytes
        self._queue: deque[bytes] = deque()
        self._failing = False
        self._closing = asyncio.Event()
        self.dropped = 0
        """Records lost because the queue was full."""
        self._file = _open(self._path)
        self._size, self._seq = _resume(self._path)
        self._file.truncate(self._size)
        if not self._seq and len(files) > 1:  # it had just begun a new file
            self._seq = _resume(files[-2])[1]

    def append(self, line_of: Callable[[int], bytes]) -> None:
        """Queue the line that `line_of` makes of its number; never waits, never raises."""
        if len(self._queue) >= self._max_queued:
            self.dropped += 1
            if self.dropped == 1:
                log.error("spool %s: the queue is full, records are lost", self._path)
            return
        self._seq += 1
        self._queue.append(line_of(self._seq))

    async def run(self) -> None:
        """Write what is queued every 100 ms until closed, then what is left."""
        while not self._closing.is_set():
            try:
                async with asyncio.timeout(_FLUSH_SECONDS):
                    await self._closing.wait()
            except TimeoutError:
                await self._flush()
        await self._flush()
        if self._queue:
            log.error("spool %s: %s records could not be written", self._path, len(self._queue))
        self._file.close()

    def close(self) -> None:
        """Ask `run` to write the rest and end."""
        self._closing.set()

    async def _flush(self) -> None:
        count = len(self._queue)
        if not count:
            return
        lines = [self._queue[at] for at in range(count)]
        written = await asyncio.to_thread(self._write, lines)
        for _ in range(written):
            self._queue.popleft()

    def _write(self, lines: list[bytes]) -> int:
        """Write lines, return how many are in the file whole; a part of one is cut off again."""
        block = memoryview(b"".join(lines))
        done = 0
        try:
            while done < len(block):
                done += self._file.write(block[done:]) or 0
        except OSError as error:
            self._note_failure(error)
        else:
            self._note_success()
        whole, size = 0, 0
        while whole < len(lines) and size + len(lines[whole]) <= done:
            size += len(lines[whole])
            whole += 1
        self._size += size
        if size < done:
            self._cut()
        elif self._size >= self._max_file_bytes:
            self._begin_next()
        return whole

    def _begin_next(self) -> None:
        """Go on in a new file; in the old one if that cannot be made."""
        path = _after(self._first, self._path)
        try:
            file = _open(path)
        except StoreError as error:
            log.error("spool %s goes on beyond its size: %s", self._path, error)  # noqa: TRY400 - the reason says it all
            return
        self._file.close()
        self._file, self._path, self._size = file, path, 0

    def _cut(self) -> None:
        try:
            self._file.truncate(self._size)
        except OSError as error:
            self._note_failure(error)

    def _note_failure(self, error: OSError) -> None:
        if not self._failing:
            log.error("spool %s cannot be written, records wait: %s", self._path, error.strerror)
        self._failing = True

    def _note_success(self) -> None:
        if self._failing:
            log.info("spool %s can be written again", self._path)
        self._failing = False


def _files(first: Path) -> list[Path]:
    """Return a gateway's files, oldest first."""
    numbered = sorted(first.parent.glob(f"{first.stem}.[0-9]*.jsonl"))
    return [first, *numbered] if first.exists() else numbered


def _after(first: Path, current: Path) -> Path:
    number = 0 if current == first else int(current.stem.rpartition(".")[2])
    return first.with_name(f"{first.stem}.{number + 1:06d}.jsonl")


def _open(path: Path) -> FileIO:
    with ExitStack() as undo:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = undo.enter_context(path.open("a+b", buffering=0))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = f"{path} is in use by another gateway of this name"
            raise StoreError(message, reason=EdgeReason.LOCKED) from error
        except OSError as error:
            message = f"{path} cannot be written: {error.strerror}"
            raise StoreError(message, reason=EdgeReason.OTHER) from error
        undo.pop_all()
    return file


def _resume(path: Path) -> tuple[int, int]:
    """Return the size of the file's whole lines, and the number of the last one."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        stream.seek(max(0, size - _TAIL_BYTES))
        tail = stream.read()
    end = tail.rfind(b"\n") + 1
    for line in reversed(tail[:end].splitlines()):
        try:
            return size - len(tail) + end, int(json.loads(line)["seq"])
        except (ValueError, KeyError, TypeError):
            continue
    return size - len(tail) + end, 0
