"""Disks of logs that are full: said once, and once that there is room again."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)

_LEAST_BYTES = 256 << 10


class LogRoom:
    """Looks at the disk of the logs. What a full one cannot take is lost; the workers serve on."""

    def __init__(self) -> None:
        self._is_full = False

    async def look(self, folder: Path) -> None:
        """Look how much room a folder has. Never raises."""
        was_full, self._is_full = self._is_full, await asyncio.to_thread(is_full, folder)
        if self._is_full and not was_full:
            told = "workers serve on, what they log is lost; of who is started now until it ends"
            log.warning("the disk of %s is full: %s", folder, told)
        if was_full and not self._is_full:
            log.info("the disk of %s has room again", folder)


def is_full(folder: Path) -> bool:
    """Return whether a folder has no room for logs; False if that cannot be told."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _LEAST_BYTES
