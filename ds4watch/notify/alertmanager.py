"""Hands alerts on to Alertmanagers by their v2 API; each of them is told all, as by Prometheus."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp

from ds4watch.alerting.handed_on import HandedOn, due, hand_on, handed
from ds4watch.model.alert import AlertState
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.series import Labels
from ds4watch.notify.group_channel import ChannelError
from ds4watch.notify.secret import Secret
from ds4watch.telemetry.metrics import ProcessMetrics

log = logging.getLogger(__name__)

_TIMEOUT = aiohttp.ClientTimeout(total=10.0)
_AT_ONCE = 64
"""As Prometheus: alerts in one request."""
NAME = "alertmanager"


@dataclass(frozen=True, slots=True)
class AlertmanagerPlace:
    """Where Alertmanagers are, and what is sent along. page: where our alerts are to be seen."""

    urls: Sequence[str]
    token: Secret
    labels: Labels = ()
    resend_seconds: float = 60.0
    interval_seconds: float = 1.0
    page: str = ""


class Alertmanagers:
    """The loop that keeps them up to date with the alerts as they stand."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        place: AlertmanagerPlace,
        alerts: Callable[[], Iterable[AlertState]],
        *,
        metrics: ProcessMetrics,
        clock: Clock,
    ) -> None:
        self._session = session
        self._place = place
        self._alerts = alerts
        self._metrics = metrics
        self._clock = clock
        self._known: dict[str, dict[Labels, HandedOn]] = {url: {} for url in place.urls}
        self._failing: set[str] = set()

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._place.interval_seconds)

    async def look(self) -> None:
        """Tell each of them what it does not know yet, and again what it would forget."""
        alerts = list(self._alerts())
        await asyncio.gather(*(self._tell(url, alerts) for url in self._place.urls))

    async def _tell(self, url: str, alerts: Sequence[AlertState]) -> None:
        now = self._clock.now()
        known = self._known[url] = hand_on(self._known[url], alerts, now)
        wanted = due(known, now, resend_seconds=self._place.resend_seconds)
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            if not await self._post(url, [self._document(it, now) for it in some]):
                return
            known = self._known[url] = handed(known, some, now)

    async def _post(self, url: str, alerts: list[dict[str, Any]]) -> bool:
        try:
            token = self._place.token.read() if self._place.token else ""
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with self._session.post(
                f"{url.rstrip('/')}/api/v2/alerts",
                json=alerts,
                headers=headers,
                timeout=_TIMEOUT,
                allow_redirects=False,
            ) as answer:
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError, ChannelError) as error:
            return self._ended(url, len(alerts), type(error).__name__)
        return self._ended(url, len(alerts), "" if status == 200 else f"it answered {status}")

    def _ended(self, url: str, count: int, fault: str) -> bool:
        outcome = "failed" if fault else "sent"
        self._metrics.notifications.labels(NAME, outcome).inc(count)
        if fault and url not in self._failing:
            self._failing.add(url)
            log.warning("an Alertmanager is not told: %s", fault)
        elif not fault and url in self._failing:
            self._failing.discard(url)
            log.warning("all Alertmanagers that failed are told again: %s", not self._failing)
        self._metrics.notify_up.labels(NAME).set(0 if self._failing else 1)
        return not fault

    def _document(self, alert: HandedOn, now: UnixSeconds) -> dict[str, Any]:
        ends_at = alert.ends_at(
            now,
            resend_seconds=self._place.resend_seconds,
            interval_seconds=self._place.interval_seconds,
        )
        found = {
            "labels": {**dict(self._place.labels), **dict(alert.labels)},
            "annotations": dict(alert.annotations),
            "startsAt": _iso(alert.started_at),
            "endsAt": _iso(ends_at),
        }
        return found | ({"generatorURL": self._place.page} if self._place.page else {})


def _iso(at: UnixSeconds) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
