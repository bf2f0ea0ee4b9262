"""What workers that ask for an API key are shown: it is read where the board says."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from ds4watch.config.api_key import NoKeyError, read_key
from ds4watch.model.ports import Clock
from ds4watch.model.worker import WorkerView

_LOOK_SECONDS = 1.0

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Held:
    """What was read of one file, and when it was last looked at."""

    looked_at: float
    stamp: tuple[int, int, int] | None = None
    line: bytes = field(default=b"", repr=False)
    is_failing: bool = False


class WorkerKeys:
    """Header lines by file. A file is looked at once a second at most, read if it has changed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[str, _Held] = {}

    def line(self, worker: WorkerView) -> bytes:
        """Return the header line that a worker asks for; empty if it asks for none."""
        file = worker.api_key_file
        if file is None:
            return b""
        now = self._clock.monotonic()
        held = self._held.get(file)
        if held is None:
            held = self._held[file] = _Held(looked_at=now)
        elif now - held.looked_at < _LOOK_SECONDS:
            return held.line
        held.looked_at = now
        _look(held, Path(file))
        return held.line


def _look(held: _Held, file: Path) -> None:
    stamp = _stamp_of(file)
    if stamp is not None and stamp == held.stamp:
        return
    held.stamp = stamp
    try:
        held.line = b"Authorization: Bearer %b\r\n" % read_key(file).encode("ascii")
    except NoKeyError as error:
        held.line = b""
        if not held.is_failing:
            log.warning("workers are asked without their API key: %s", error)
        held.is_failing = True
    else:
        held.is_failing = False


def _stamp_of(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
