"""Reads at a start what rules look back on, some targets ahead of those that are taken in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from ds4watch.history.frames import StoredFrame
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import SeriesKey

Keep = Callable[[SeriesKey], bool]

_TARGETS_AT_ONCE = 16
"""So that one read is done while another is taken in, and neither takes much memory."""
_END_OF_TIME: UnixSeconds = float(2**40)


class ScrapeHistory(Protocol):
    """Where the past comes from at a start."""

    async def targets(self) -> list[str]:
        """Return the names of all targets."""
        ...

    async def frames_of(
        self,
        targets: Sequence[str],
        start_at: UnixSeconds,
        end_at: UnixSeconds,
        *,
        keep: Callable[[SeriesKey], bool] | None = None,
    ) -> dict[str, list[StoredFrame]]:
        """Return scrapes of targets, the series that `keep` wants, by name, oldest first."""
        ...


async def take_in(
    store: ScrapeHistory,
    keep: Keep,
    fill: Callable[[Sequence[StoredFrame]], None],
    *,
    start_at: UnixSeconds,
    silent_start_at: UnixSeconds,
) -> None:
    """Give `fill` what is stored of all targets since `start_at`, some targets each time.

    Of one that has only failed since, that since `silent_start_at`: so what its last good scrape
    had is waited for, and alerts on it are held.
    """
    names = await store.targets()
    ahead: asyncio.Task[list[StoredFrame]] | None = None
    try:
        for first in range(0, len(names), _TARGETS_AT_ONCE):
            part = names[first : first + _TARGETS_AT_ONCE]
            reading = _read(store, keep, part, start_at, silent_start_at)
            before, ahead = ahead, asyncio.create_task(reading)
            if before is not None:
                fill(await before)
        if ahead is not None:
            fill(await ahead)
    finally:
        if ahead is not None:
            ahead.cancel()


async def _read(
    store: ScrapeHistory,
    keep: Keep,
    names: Sequence[str],
    start_at: UnixSeconds,
    silent_start_at: UnixSeconds,
) -> list[StoredFrame]:
    found = await store.frames_of(names, start_at, _END_OF_TIME, keep=keep)
    silent = [name for name in names if not _has_good(found.get(name, ()))]
    if silent and silent_start_at < start_at:
        found |= await store.frames_of(silent, silent_start_at, _END_OF_TIME, keep=keep)
    return [frame for frames in found.values() for frame in frames]


def _has_good(frames: Sequence[StoredFrame]) -> bool:
    return any(len(frame.times) for frame in frames)
