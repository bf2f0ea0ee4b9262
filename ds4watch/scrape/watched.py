"""What is remembered of a target from one scrape to the next."""

from __future__ import annotations

import asyncio
import logging
import math

from ds4watch.model.errors import EdgeReason, ScrapeError
from ds4watch.model.scrape import ScrapeFailure, Target
from ds4watch.scrape.exposition import Page
from ds4watch.scrape.fetch import Fetcher
from ds4watch.scrape.group_state import Group

PATIENCE = 3
"""Time-outs in a row after which a target is scraped less often."""
_RAREST = 8
"""At most this many intervals between two scrapes …"""
_LONGEST_PAUSE_SECONDS = 60.0
"""… and, but for longer intervals, this time: `up` must not grow stale, nor a recovery wait."""

log = logging.getLogger(__name__)


class Watched:
    """A target, its connection, and how its last scrapes went."""

    __slots__ = (
        "_failing",
        "_fetcher",
        "_left_out",
        "_odd",
        "_slow",
        "_timeouts",
        "group",
        "in_flight",
        "target",
        "task",
    )

    def __init__(self, target: Target) -> None:
        self.target = target
        self.group: Group | None = None
        self.in_flight = False
        self.task: asyncio.Task[None] | None = None
        self._fetcher: Fetcher | None = None
        self._failing: EdgeReason | None = None
        self._odd = False
        self._slow = False
        self._timeouts = 0
        self._left_out = 0

    def join(self, group: Group | None) -> None:
        """Be scraped by a group's options from now on; not while a scrape is in flight."""
        if group is not self.group:
            self.close()
            self.group = group

    def fetcher(self) -> Fetcher:
        """Return the target's fetcher. Raises ScrapeError(OTHER) if there can be none."""
        if self._fetcher is None:
            if self.group is None:
                message = f"there is no target group {self.target.group!r}: configure it"
                raise ScrapeError(message, reason=EdgeReason.OTHER)
            self._fetcher = Fetcher(self.target.url, self.group, self.target.api_key_file)
        return self._fetcher

    def close(self) -> None:
        """Let the connection go."""
        if self._fetcher is not None:
            self._fetcher.close()
            self._fetcher = None

    def is_left_out(self) -> bool:
        """Say whether a scrape that is due is left out, to spare a target."""
        if self._left_out == 0:
            return False
        self._left_out -= 1
        return True

    def note_success(self, took_seconds: float, base_seconds: float) -> None:
        """Go back to every interval, or as many as the page allows; tell of the recovery."""
        self._timeouts = 0
        if self._failing is not None:
            log.info("scrapes of %s succeed again", self.target.name)
            self._failing = None
        if self.group is not None:
            self._spare(took_seconds, max(base_seconds, self.group.options.interval_seconds))

    def _spare(self, took_seconds: float, interval_seconds: float) -> None:
        """Rest as long as the page took, if that was over an interval.

        Otherwise a worker that makes its page slowly, under load, would make nothing else.
        """
        name = self.target.name
        if took_seconds > interval_seconds:
            self._left_out = math.ceil(took_seconds / interval_seconds)
            if not self._slow:
                log.warning(
                    "the page of %s took %.1f s, and the interval is %g s: it is scraped less"
                    " often, half of the time at most; a longer interval_seconds mends it",
                    *(name, took_seconds, interval_seconds),
                )
            self._slow = True
        elif self._slow and took_seconds <= interval_seconds / 2:
            log.info("the page of %s is quick again", name)
            self._slow = False

    def note_failure(self, failure: ScrapeFailure) -> None:
        """Tell of a new kind of failure, and scrape less often what times out again and again."""
        if failure.reason is not self._failing:
            where = f" ({self._fetcher})" if self._fetcher else ""
            name, reason = self.target.name, failure.reason
            log.warning("scrape of %s%s failed: %s: %s", name, where, reason, failure.message)
        self._failing = failure.reason
        self._timeouts = self._timeouts + 1 if failure.reason is EdgeReason.TIMEOUT else 0
        if self._timeouts >= PATIENCE and self.group is not None:
            pause = self._pause(self.group.options.interval_seconds)
            self._left_out = pause - 1
            if self._timeouts == PATIENCE and pause > 1:
                log.warning(
                    "%s timed out %d times in a row: scraped less often until it answers",
                    self.target.name,
                    PATIENCE,
                )

    def note_odd(self, page: Page) -> None:
        """Tell of a page that begins, or ceases, to have faults."""
        odd = bool(page.odd_lines or page.duplicates or page.mislabelled)
        if odd and not self._odd:
            log.warning(
                "page of %s: %d unreadable lines left out, %d duplicates, wrong Content-Type: %s",
                self.target.name,
                page.odd_lines,
                page.duplicates,
                page.mislabelled,
            )
        elif self._odd and not odd:
            log.info("page of %s is well-formed again", self.target.name)
        self._odd = odd

    def _pause(self, interval_seconds: float) -> int:
        """Return the number of intervals to the next scrape: 2, 4, 8."""
        most = max(1, int(_LONGEST_PAUSE_SECONDS / interval_seconds))
        return int(min(2 ** min(self._timeouts - PATIENCE + 1, 10), _RAREST, most))
