"""The real clocks."""

from __future__ import annotations

import time


class SystemClock:
    """Wall clock and monotonic clock of this machine."""

    def now(self) -> float:
        """Return the wall-clock instant."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds on a clock that never steps."""
        return time.monotonic()
