"""Moves what was committed from SQLite's write-ahead log into the file, beside the writer.

SQLite itself does so within the commit that makes the log too long: that one waits for the disk,
and so does every scrape after it.
"""

from __future__ import annotations

import logging
import sqlite3
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

_log = logging.getLogger(__name__)

LONGEST_LOG_PAGES = 16_384
"""64 MiB: a log that is longer all the same is moved by the writer after all."""
_COMMITS_AT_ONCE = 8


class WriteBack:
    """A thread for one file. Called by the writer; `lagging` by anyone."""

    def __init__(self, path: Path) -> None:
        self._uri = f"{path.absolute().as_uri()}?mode=rw"
        self._label = str(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="write-back")
        self._commits = 0
        self._left_over = False
        self._running: Future[None] | None = None
        self._failing = False

    def committed(self) -> None:
        """Note a commit, and begin if there were enough of them."""
        self._commits += 1
        due = self._commits >= _COMMITS_AT_ONCE or self._left_over
        if due and self.lagging() is None:
            self._commits = 0
            self._running = self._thread.submit(self._move)

    def lagging(self) -> Future[None] | None:
        """Return what is under way, if anything is."""
        running = self._running
        return None if running is None or running.done() else running

    def close(self) -> None:
        """Wait for what is under way."""
        self._thread.shutdown()

    def _move(self) -> None:
        try:
            with closing(sqlite3.connect(self._uri, uri=True, isolation_level=None)) as connection:
                _, pages, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                # A reader that began before the last commit still needs the log: again, soon.
                self._left_over = moved < pages
        except sqlite3.Error as error:
            if not self._failing:
                _log.warning("%s: the log cannot be moved into the file: %s", self._label, error)
            self._failing = True
        else:
            if self._failing:
                _log.warning("%s: the log is moved into the file again", self._label)
            self._failing = False
