"""Keeps calls from a server that is away, so that none waits for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ds4watch.model.errors import Ds4watchError, StoreError

_log = logging.getLogger(__name__)


class Gate:
    """Open, or shut: then every call fails at once, and a thread looks until the server is back."""

    def __init__(self, look: Callable[[], None], *, pause_seconds: float) -> None:
        """Take `look`, which raises a Ds4watchError as long as the server is away."""
        self._look = look
        self._pause_seconds = pause_seconds
        self._why: StoreError | None = None
        self._ended = threading.Event()
        self._watcher: threading.Thread | None = None

    def admit(self) -> None:
        """Raise StoreError if the gate is shut."""
        why = self._why
        if why is not None:
            raise StoreError(str(why), reason=why.reason, retryable=True)

    def shut(self, why: StoreError) -> None:
        """Refuse calls from now on, until the server answers."""
        if self._why is None and not self._ended.is_set():
            self._why = why
            self._watcher = threading.Thread(target=self._watch, name="store-gate", daemon=True)
            self._watcher.start()

    def close(self) -> None:
        """Look no longer; waits for a look under way."""
        self._ended.set()
        if self._watcher is not None:
            self._watcher.join()

    def _watch(self) -> None:
        while not self._ended.is_set():
            try:
                self._look()
            except Ds4watchError as error:
                _log.debug("still away: %s", error)
            else:
                break
            self._ended.wait(self._pause_seconds)
        self._why = None
