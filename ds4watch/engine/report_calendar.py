"""When reports are due: once a day and once a week, also if the daemon was down meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from ds4watch.config.notify import WEEKDAYS, ReportSettings
from ds4watch.model.ports import Clock, UnixSeconds

LOOK_SECONDS = 300.0
_DAY_SECONDS = 86_400.0
_KEPT = "reports_told"


class Kept(Protocol):
    """Where it is kept what was told."""

    async def kept_values(self) -> Mapping[str, Any]:
        """Return what is kept by name."""
        ...

    async def keep_value(self, name: str, value: Any) -> None:
        """Keep a JSON value by name."""
        ...


def due_reports(
    settings: ReportSettings, told: Mapping[str, float], now: UnixSeconds
) -> list[tuple[str, UnixSeconds]]:
    """Return which reports are to be told now, with the midnight (UTC) that ends them.

    The one of a day is told until the next is due; what is older is not caught up with.
    """
    midnight = now - now % _DAY_SECONDS
    if now < midnight + settings.hour * 3600:
        return []
    found = [("daily", midnight)] if settings.daily else []
    is_day = settings.weekly is not None and (
        WEEKDAYS[datetime.fromtimestamp(midnight, UTC).weekday()] == settings.weekly
    )
    if is_day:
        found.append(("weekly", midnight))
    return [(period, end_at) for period, end_at in found if told.get(period, 0.0) < end_at]


class ReportCalendar:
    """The job: tells what is due, once."""

    def __init__(
        self,
        settings: ReportSettings,
        kept: Kept,
        tell: Callable[[str, UnixSeconds], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._kept = kept
        self._tell = tell
        self._clock = clock

    async def look(self) -> None:
        """Tell of what is due. Raises StoreError."""
        told = dict((await self._kept.kept_values()).get(_KEPT) or {})
        for period, end_at in due_reports(self._settings, told, self._clock.now()):
            await self._tell(period, end_at)
            told[period] = end_at
            await self._kept.keep_value(_KEPT, told)
