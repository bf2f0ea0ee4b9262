"""Workers that answer, but badly: set aside for a growing time, and let back through a trickle.

p95 is over a limit exactly if more than 5 % of the answers are slower than it: two counts say so,
and no quantile is kept.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass, field
from enum import StrEnum

from ds4watch.config.routing import RoutingSettings

_SLICES = 10
_SLOW_RATIO = 0.05
_MAX_DOUBLINGS = 16


class AsideReason(StrEnum):
    """What was wrong with a worker that is set aside."""

    ERRORS = "errors"
    SLOW = "slow"
    PROBE_FAILED = "probe_failed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A worker is set aside for `seconds`, or (0) is back; what for, in words."""

    reason: AsideReason | None
    seconds: float
    told: str


class Window:
    """Sums of what happened in the last `seconds`, in ten slices of time."""

    __slots__ = ("_at", "_slice_seconds", "_slices", "totals")

    def __init__(self, seconds: float, kinds: int) -> None:
        """Keep as many sums as there are `kinds`."""
        self._slice_seconds = seconds / _SLICES
        self._slices = [[0] * kinds for _ in range(_SLICES)]
        self._at = 0
        self.totals = [0] * kinds

    def add(self, now: float, *counts: int) -> None:
        """Add to each sum."""
        if int(now / self._slice_seconds) != self._at:
            self.forget(now)
        current, totals = self._slices[self._at % _SLICES], self.totals
        for kind, count in enumerate(counts):
            if count:
                current[kind] += count
                totals[kind] += count

    def forget(self, now: float) -> None:
        """Leave out what is older than the window."""
        at = int(now / self._slice_seconds)
        for old in range(max(self._at + 1, at - _SLICES + 1), at + 1):
            gone = self._slices[old % _SLICES]
            for kind, count in enumerate(gone):
                self.totals[kind] -= count
                gone[kind] = 0
        self._at = max(self._at, at)


@dataclass(slots=True)
class _Known:
    """What is known of one worker."""

    window: Window
    until: float = 0.0
    times: int = 0
    reason: AsideReason | None = None
    """Set while it is aside."""
    good_probes: int = 0
    back_at: float = 0.0


@dataclass(slots=True)
class Outliers:
    """The last answers of every worker, and who is set aside. Instants are monotonic."""

    settings: RoutingSettings
    _known: dict[str, _Known] = field(default_factory=dict)
    _aside: dict[str, AsideReason] = field(default_factory=dict)

    def aside(self) -> dict[str, AsideReason]:
        """Return who is set aside, and why; those included who are due back."""
        return self._aside

    def due(self, now: float) -> tuple[str, ...]:
        """Return those that have been aside long enough to be tried."""
        return tuple(name for name in self._aside if self._known[name].until <= now)

    def next_due(self, now: float) -> float:
        """Return the next instant at which somebody becomes due; infinite if nobody does."""
        later = (self._known[name].until for name in self._aside)
        return min((until for until in later if until > now), default=math.inf)

    def note(self, worker: str, now: float, *, failed: bool, slow: bool | None) -> Verdict | None:
        """Take in one answer; slow None: its time says nothing. Returns what follows for it."""
        known = self._known.get(worker)
        if known is None:
            window = Window(self.settings.window_seconds, kinds=4)
            known = self._known[worker] = _Known(window)
        if known.reason is not None:
            return self._probed(worker, known, now, is_good=not failed and not slow)
        known.window.add(now, 1, failed, slow is not None, slow is True)
        if not failed and not slow:
            return None
        return self._judged(worker, known, now)

    def keep_only(self, present: Set[str]) -> None:
        """Forget workers that are gone."""
        for name in self._known.keys() - present:
            del self._known[name]
            self._aside.pop(name, None)

    def _judged(self, worker: str, known: _Known, now: float) -> Verdict | None:
        limits = self.settings
        count, failed, timed, slow = known.window.totals
        is_sure = failed >= limits.min_bad and 2 * failed >= count  # most fail: no need to wait
        if is_sure or _is_too_many(failed, count, limits.error_ratio, limits):
            told = f"{failed} of {count} requests failed"
            return self._set_aside(worker, known, now, AsideReason.ERRORS, told)
        if _is_too_many(slow, timed, _SLOW_RATIO, limits):
            told = f"p95 over {limits.slow_seconds:g} s: {slow} of {timed} answers"
            return self._set_aside(worker, known, now, AsideReason.SLOW, told)
        return None

    def _probed(self, worker: str, known: _Known, now: float, *, is_good: bool) -> Verdict | None:
        if now < known.until:
            return None  # it was under way when the worker was set aside
        if not is_good:
            told = "its probe failed or was slow"
            return self._set_aside(worker, known, now, AsideReason.PROBE_FAILED, told)
        known.good_probes += 1
        if known.good_probes < self.settings.probes:
            return None
        known.reason, known.back_at = None, now
        known.window = Window(self.settings.window_seconds, kinds=4)
        del self._aside[worker]
        return Verdict(None, 0.0, f"{known.good_probes} probes went well")

    def _set_aside(
        self, worker: str, known: _Known, now: float, reason: AsideReason, told: str
    ) -> Verdict:
        limits = self.settings
        if known.reason is None and now - known.back_at > limits.aside_max_seconds:
            known.times = 0  # it was well for long
        doubled = limits.aside_seconds * 2 ** min(known.times, _MAX_DOUBLINGS)
        seconds = min(limits.aside_max_seconds, doubled)
        known.until, known.times, known.good_probes = now + seconds, known.times + 1, 0
        known.reason = self._aside[worker] = reason
        return Verdict(reason, seconds, told)


def _is_too_many(bad: int, count: int, ratio: float, limits: RoutingSettings) -> bool:
    enough = count >= limits.min_requests and bad >= limits.min_bad
    return enough and bad > ratio * count


def is_slow(
    settings: RoutingSettings,
    *,
    is_stream: bool,
    first_byte_seconds: float,
    completion_tokens: int | None,
) -> bool:
    """Return whether an answer was slow: it is no fault of a worker that much was asked of it.

    A stream is judged by its first byte. A whole answer has an allowance for each of its tokens.
    """
    allowed = settings.slow_seconds
    if not is_stream:
        allowed += settings.token_seconds * (completion_tokens or 0)
    return first_byte_seconds > allowed
