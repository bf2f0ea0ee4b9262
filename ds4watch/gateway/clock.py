"""The clocks of this process."""

from __future__ import annotations

import time
from collections.abc import Callable

from ds4watch.model.ports import UnixSeconds


class SystemClock:
    """The machine's clocks."""

    # Asked a dozen times for each request: a function of our own around them would cost more.
    now: Callable[[], UnixSeconds] = staticmethod(time.time)
    monotonic: Callable[[], float] = staticmethod(time.monotonic)
