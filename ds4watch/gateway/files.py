"""The limit on open files: how many connections this process can have."""

from __future__ import annotations

import logging
import resource

from ds4watch.config.settings import GatewaySettings

log = logging.getLogger(__name__)

_OTHER_FILES = 128
"""Spool, control socket, log, timers, and what libraries open."""


def raise_file_limit() -> None:
    """Take as many open files as the system lets this process have without asking anybody."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_within_files(settings: GatewaySettings) -> int:
    """Return how many clients may be connected: each request under way needs a worker's too."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.max_connections
    if soft == resource.RLIM_INFINITY:
        return wanted
    room = soft - _OTHER_FILES - min(settings.max_inflight, soft // 3)
    if room < wanted:
        log.warning("%s open files allow %s connections, not %s", soft, max(room, 1), wanted)
    return max(1, min(wanted, room))
