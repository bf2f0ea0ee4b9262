"""The clocks of this process."""

from __future__ import annotations

import time

from ds4watch.model.ports import UnixSeconds


class SystemClock:
    """The machine's clocks."""

    def now(self) -> UnixSeconds:
        """Return the wall-clock instant."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds on a clock that never steps."""
        return time.monotonic()
