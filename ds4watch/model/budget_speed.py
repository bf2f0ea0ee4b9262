"""How fast budgets go, and for how long what is left of them lasts.

A budget that is gone within minutes is over before anything can be made of its hour so far. So the
speed of the last minute counts. The largest step of that minute is left out of it: what is booked
at once (the first request of an hour takes over its share of all that the hour cost) is no speed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from ds4watch.model.key_budget import span_of
from ds4watch.model.key_easing import KeyStanding
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds

WINDOW_SECONDS: Final = 60.0
LEAST_SECONDS: Final = 3.0
"""Before so much was seen of a period nothing is said of its speed."""
LEAST_RATIO: Final = 0.05
"""Nor before so much of the budget is spent."""
FAST_SECONDS: Final = 1800.0
"""Nor if the whole budget would last longer: then there is time to go by what is spent."""


@dataclass(slots=True)
class Speed:
    """What was spent of one budget, at the instants of the last minute, within one period."""

    begin_at: UnixSeconds
    seen: deque[tuple[UnixSeconds, Nanos]] = field(default_factory=deque)

    def note(self, spent: Nanos, at: UnixSeconds) -> None:
        """Take note of what is spent by now."""
        if self.seen and at <= self.seen[-1][0]:
            if at == self.seen[-1][0]:
                return
            self.seen.clear()  # the clock was set back
        self.seen.append((at, spent))
        while len(self.seen) > 1 and self.seen[1][0] <= at - WINDOW_SECONDS:
            self.seen.popleft()

    def per_second(self) -> float:
        """Return money a second, without the largest step; 0: none, or it cannot be told yet."""
        if not self.seen:
            return 0.0
        (first_at, first), (last_at, last) = self.seen[0], self.seen[-1]
        if last_at - first_at < LEAST_SECONDS:
            return 0.0
        spent = [it for _, it in self.seen]
        largest = max(after - before for before, after in pairwise(spent))
        return max(0.0, (last - first - max(0, largest)) / (last_at - first_at))


class Speeds:
    """Those of many budgets, by whose they are and for what time."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], Speed] = {}

    def note(self, whose: str, standings: Iterable[KeyStanding], now: UnixSeconds) -> None:
        """Take note of how somebody's budgets stand."""
        for it in standings:
            begin_at, _ = span_of(it.span, now)
            speed = self._of.get((whose, it.span))
            if speed is None or speed.begin_at != begin_at:
                speed = self._of[whose, it.span] = Speed(begin_at)
            speed.note(it.spent, now)

    def told(
        self, whose: str, standings: Iterable[KeyStanding], now: UnixSeconds
    ) -> tuple[KeyStanding, ...]:
        """Return the standings with how long the rest of each lasts."""
        return tuple(replace(it, lasts_seconds=self._lasts(whose, it, now)) for it in standings)

    def _lasts(self, whose: str, it: KeyStanding, now: UnixSeconds) -> float | None:
        begin_at, end_at = span_of(it.span, now)
        speed = self._of.get((whose, it.span))
        if speed is None or speed.begin_at != begin_at or it.used_ratio < LEAST_RATIO:
            return None
        per_second = speed.per_second()
        if it.spent >= it.limit or it.limit > per_second * FAST_SECONDS:
            return None
        lasts = (it.limit - it.spent) / per_second
        return lasts if now + lasts < end_at else None
