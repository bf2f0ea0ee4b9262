"""How a key whose budget is about to run out is degraded before it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from ds4watch.model.key_budget import KeyBudget, Span, span_of
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds

GENTLE_RATIO: Final = 0.8
FIRM_RATIO: Final = 0.95
"""Of a budget, spent: whatever is projected, a key is eased."""
LEAD_RATIO: Final = 0.25
FIRM_LEAD_RATIO: Final = 0.5
"""Of a budget, spent: from there on a key is eased if more than all of it is projected."""
EASED_RATIO: Final = 0.7
"""Of a budget, projected: down to that a key stays eased, for it costs less while it is."""
GENTLE_LASTS_SECONDS: Final = 300.0
FIRM_LASTS_SECONDS: Final = 120.0
"""Whatever is spent, a key is eased if the rest lasts no longer, as fast as the last minute."""
_STAYS: Final = 2.0
"""Times as long: until then it stays eased, for it costs less while it is."""
_HOUR_SECONDS: Final = 3600.0
_LEAST_SECONDS: Final = 600.0


class Ease(IntEnum):
    """How far a key is eased."""

    NONE = 0
    GENTLE = 1
    FIRM = 2


@dataclass(frozen=True, slots=True)
class KeyStanding:
    """How a budget of a key stands. projected: what the span comes to; None: it is too early.

    lasts_seconds: of one that goes fast, how long the rest lasts at the speed of the last minute.
    """

    span: Span
    limit: Nanos
    spent: Nanos
    projected: Nanos | None
    lasts_seconds: float | None = None

    @property
    def used_ratio(self) -> float:
        """Return the share that is spent."""
        return self.spent / self.limit if self.limit > 0 else 1.0

    @property
    def projected_ratio(self) -> float:
        """Return the share that will be spent."""
        if self.projected is None:
            return self.used_ratio
        return self.projected / self.limit if self.limit > 0 else 1.0


def standings_of(
    budget: KeyBudget, hours: Mapping[UnixSeconds, Nanos], now: UnixSeconds
) -> tuple[KeyStanding, ...]:
    """Return how each budget of a key stands. hours: what it spent, by hour.

    The rest of a span is taken to be like this hour and the last one; of an hour, like this one.
    """
    found = []
    for span, limit in budget.limits():
        begin, end = span_of(span, now)
        spent = sum(nanos for at, nanos in hours.items() if begin <= at < end)
        rate = _rate(hours, now, since=begin if span is Span.HOUR else now - _HOUR_SECONDS)
        projected = None if rate is None else spent + round(rate * (end - now))
        found.append(KeyStanding(span, limit, spent, projected))
    return tuple(found)


def _rate(
    hours: Mapping[UnixSeconds, Nanos], now: UnixSeconds, *, since: UnixSeconds
) -> float | None:
    """Return the money a second since the hour of an instant began; None: too early to tell."""
    first = since // _HOUR_SECONDS * _HOUR_SECONDS
    if now - first < _LEAST_SECONDS:
        return None
    return sum(nanos for at, nanos in hours.items() if first <= at <= now) / (now - first)


def ease_of(standings: Iterable[KeyStanding], before: Ease) -> Ease:
    """Return how far a key is to be eased: as far as the budget that is worst off asks for."""
    return max((_ease(it, before) for it in standings), default=Ease.NONE)


def _ease(it: KeyStanding, before: Ease) -> Ease:
    return max(_by_amount(it, before), _by_speed(it.lasts_seconds, before))


def _by_speed(lasts_seconds: float | None, before: Ease) -> Ease:
    if lasts_seconds is None:
        return Ease.NONE
    for ease, bound in ((Ease.FIRM, FIRM_LASTS_SECONDS), (Ease.GENTLE, GENTLE_LASTS_SECONDS)):
        if lasts_seconds < bound * (_STAYS if before >= ease else 1):
            return ease
    return Ease.NONE


def _by_amount(it: KeyStanding, before: Ease) -> Ease:
    will_run_out = it.projected_ratio > 1
    if it.used_ratio >= FIRM_RATIO or (it.used_ratio >= FIRM_LEAD_RATIO and will_run_out):
        return Ease.FIRM
    least = Ease.GENTLE if it.used_ratio >= GENTLE_RATIO else Ease.NONE
    if it.used_ratio >= LEAD_RATIO and will_run_out:
        least = Ease.GENTLE
    may_stay = it.used_ratio >= LEAD_RATIO and it.projected_ratio > EASED_RATIO
    return max(least, before) if may_stay else least
