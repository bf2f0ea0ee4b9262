"""The rules of the output filter in a gateway: read at its start, and anew when a file changes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from pathlib import Path

from ds4watch.config.files import read_filter
from ds4watch.gateway.call import Call
from ds4watch.model.errors import ConfigError
from ds4watch.shaping.answer_filter import AnswerFilter
from ds4watch.shaping.filter_rules import RuleBook, compile_filter
from ds4watch.shaping.output_filter import Found

log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0

Stamp = tuple[tuple[str, int, int, int], ...]


class OutputRules:
    """The rules in force. Without a file there are none, and answers pass as they are."""

    def __init__(self, path: Path | None) -> None:
        """Read the file `path`. Raises ConfigError: unfiltered is not what was asked for."""
        self._path = path
        self._files: tuple[Path, ...] = () if path is None else (path,)
        self._stamp: Stamp = ()
        self._book = RuleBook()
        self.found: Found = Counter()
        """How often each (rule, action) was found since the start."""
        if path is not None:
            self._take(*self._read(path))

    def filter_of(self, call: Call) -> AnswerFilter | None:
        """Return what filters the answer to a call, None if it passes as it is."""
        if not self._book.rules:
            return None
        sets = self._book.sets(key=call.key, models=(call.model_asked, call.model_served))
        return AnswerFilter(sets) if sets else None

    def count(self, done: AnswerFilter) -> None:
        """Count what was found in an answer."""
        self.found.update(done.found)

    async def run(self) -> None:
        """Look for changes for ever; what cannot be read is told, and the old rules stay."""
        if self._path is None:
            return
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Read the files anew if one of them was changed."""
        stamp = _stamp(self._files)
        if self._path is None or stamp == self._stamp:
            return
        try:
            self._take(*await asyncio.to_thread(self._read, self._path))
        except ConfigError as error:
            self._stamp = stamp  # told once
            log.warning("the output filter stays as it was: %s", error)
        else:
            log.info("the output filter was read anew: %s rules", len(self._book.rules))

    def _take(self, book: RuleBook, files: tuple[Path, ...], stamp: Stamp) -> None:
        self._book, self._files, self._stamp = book, files, stamp

    def _read(self, path: Path) -> tuple[RuleBook, tuple[Path, ...], Stamp]:
        stamp = _stamp(self._files)  # before: what is written meanwhile is read the next time
        found, files = read_filter(path)
        if set(files) != set(self._files):
            stamp = _stamp(files)
        return compile_filter(found, str(path)), files, stamp


def _stamp(files: tuple[Path, ...]) -> Stamp:
    found = []
    for path in files:
        try:
            it = path.stat()
        except OSError:
            found.append((str(path), 0, 0, 0))
        else:
            found.append((str(path), it.st_mtime_ns, it.st_size, it.st_ino))
    return tuple(found)
