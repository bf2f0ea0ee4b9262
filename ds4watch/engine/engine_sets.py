"""Engines that vanish from a worker's page: missed, and told, instead of counted as nothing."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from ds4watch.model.ports import UnixSeconds

FORGOTTEN_AFTER_SECONDS = 600.0
"""So long a missing engine is waited for; then a fleet was made smaller, and the rest is all."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Expected:
    """The engines of a worker, and since when some of them are missing."""

    engines: tuple[str, ...]
    missing_since: UnixSeconds | None = None


@dataclass(slots=True)
class EngineSets:
    """What each worker's page has shown of engines."""

    _expected: dict[str, _Expected] = field(default_factory=dict)

    def missing(self, worker: str, engines: tuple[str, ...], at: UnixSeconds) -> int:
        """Take in the engines that a page shows; return how many known ones it lacks."""
        known = self._expected.get(worker)
        if known is not None and known.engines == engines and known.missing_since is None:
            return 0
        gone = sorted(set(known.engines) - set(engines)) if known is not None else []
        if known is None or not gone:
            self._complete(worker, engines, known)
            return 0
        since = at if known.missing_since is None else known.missing_since
        if at - since >= FORGOTTEN_AFTER_SECONDS:
            log.warning("%s: engines %s stay away, the rest is all there is", worker, gone)
            self._expected[worker] = _Expected(engines)
            return 0
        if known.missing_since is None:
            log.warning("%s: engines %s are not on its page; its totals are unknown", worker, gone)
            self._expected[worker] = _Expected(known.engines, since)
        return len(gone)

    def forget(self, worker: str) -> None:
        """Expect nothing of a worker: it ended, and may come back with other engines."""
        self._expected.pop(worker, None)

    def _complete(self, worker: str, engines: tuple[str, ...], known: _Expected | None) -> None:
        if known is not None and known.missing_since is not None:
            log.info("%s: all engines are on its page again", worker)
        self._expected[worker] = _Expected(engines)
