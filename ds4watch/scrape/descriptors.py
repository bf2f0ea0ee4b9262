"""File descriptors: each target keeps a connection, and a default limit is soon used up."""

from __future__ import annotations

import logging
import resource

_MOST = 1 << 20
"""Beyond it there is no use, and programs we start that go through all of them would crawl."""
_OTHERS = 200
"""For databases, logs, gateways, clients of the admin API."""

log = logging.getLogger(__name__)


def raise_limit() -> int:
    """Raise the soft limit of this process, and of what it starts, to the hard one; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


class Room:
    """Tells once that there are more targets than descriptors for them, until there are not."""

    def __init__(self) -> None:
        self._told = False

    def note(self, targets: int) -> None:
        """Take in how many targets there are."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        is_short = limit != resource.RLIM_INFINITY and targets + _OTHERS > limit
        if is_short and not self._told:
            log.warning(
                "%d targets need a connection each, and at most %d files may be open: scrapes will"
                " fail; raise the limit to %d or more (ulimit -Hn; LimitNOFILE= in the systemd"
                " unit), and start again",
                targets,
                limit,
                targets + _OTHERS,
            )
        self._told = is_short
