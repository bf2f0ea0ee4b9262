"""The dead man's switch: an address that is called for as long as we live and evaluate.

Whoever is behind it raises the alarm when the calls stop. No watch within ourselves can do that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import aiohttp

from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.notify.group_channel import ChannelError
from ds4watch.notify.secret import Secret
from ds4watch.telemetry.metrics import ProcessMetrics

log = logging.getLogger(__name__)

_TIMEOUT = aiohttp.ClientTimeout(total=10.0)
_STALE_INTERVALS = 5.0
"""An evaluation that is older is none: then we keep silent, which is the alarm."""


class Heartbeat:
    """Calls the address at each interval while `last_tick_at` goes on."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: Secret,
        *,
        interval_seconds: float,
        last_tick_at: Callable[[], UnixSeconds],
        metrics: ProcessMetrics,
        clock: Clock,
    ) -> None:
        self._session = session
        self._url = url
        self._interval_seconds = interval_seconds
        self._last_tick_at = last_tick_at
        self._metrics = metrics
        self._clock = clock
        self._failing = False

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            await self.beat()
            await asyncio.sleep(self._interval_seconds)

    async def beat(self) -> None:
        """Call once, unless the evaluation stands still."""
        age = self._clock.now() - self._last_tick_at()
        if age > _STALE_INTERVALS * self._interval_seconds:
            self._tell(f"the last evaluation was {age:.0f} s ago")
            return
        try:
            async with self._session.get(
                self._url.read(), timeout=_TIMEOUT, allow_redirects=False
            ) as answer:
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError, ChannelError) as error:
            # The address is a secret, and may be in the message.
            self._tell(type(error).__name__)
            return
        if status >= 300:
            self._tell(f"the address answered {status}")
            return
        self._metrics.heartbeat.set(self._clock.now())
        if self._failing:
            log.warning("the heartbeat is heard again")
        self._failing = False

    def _tell(self, why: str) -> None:
        if not self._failing:
            log.warning("the heartbeat is not heard: %s", why)
        self._failing = True
