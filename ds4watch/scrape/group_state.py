"""A target group at work: when it is due, and what its targets share."""

from __future__ import annotations

import math
import ssl

from ds4watch.scrape.credentials import Authorization
from ds4watch.scrape.exposition import Limits
from ds4watch.scrape.options import ScrapeOptions


class Group:
    """The options of a group, with what is made of them once for all its targets."""

    def __init__(self, options: ScrapeOptions) -> None:
        self.options = options
        self.limits = Limits(options.series_limit, options.label_limit, options.label_value_bytes)
        self.authorization = Authorization(options.credentials)
        self._tls = options.tls
        self._due_at = -math.inf

    def is_due(self, now: float, base_seconds: float) -> bool:
        """Say whether a wave at `now` (monotonic) scrapes the group; if so, note when next.

        Waves come about every `base_seconds`: a group with no longer interval is in each, others
        in the wave nearest to their time, counted from the time before, not from the last wave.
        """
        interval = self.options.interval_seconds
        if interval <= base_seconds:
            return True
        if now < self._due_at - base_seconds / 2:
            return False
        was_missed = self._due_at + interval <= now
        self._due_at = (now if was_missed else self._due_at) + interval
        return True

    def tls(self) -> ssl.SSLContext:
        """Return the TLS settings: the group's, else those of the machine, read on first use."""
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls
