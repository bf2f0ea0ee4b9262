"""What an API key may spend, by the hour, day and month (UTC), and what is left of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.usage import Usage

MAX_BUDGET: Final = 2**62


class Span(StrEnum):
    """What a budget is for."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class KeyBudget:
    """Money for each hour, day and month, in 1e-9 of the currency; None: not limited."""

    hour: Nanos | None = None
    day: Nanos | None = None
    month: Nanos | None = None

    def limits(self) -> tuple[tuple[Span, Nanos], ...]:
        """Return the spans that are limited, with their limits."""
        found = ((Span.HOUR, self.hour), (Span.DAY, self.day), (Span.MONTH, self.month))
        return tuple((span, limit) for span, limit in found if limit is not None)

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict; `from_json` is its inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KeyBudget:
        """Read what `as_json` wrote; unknown keys are ignored. Raises ValueError."""
        budget = cls(**{span.value: data.get(span.value) for span in Span})
        for span, limit in budget.limits():
            is_whole = isinstance(limit, int) and not isinstance(limit, bool)
            if not is_whole or not 0 <= limit <= MAX_BUDGET:
                message = f"the budget of a {span} must be a whole number of nanos"
                raise ValueError(message)
        return budget


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    """What is left of the budget that ends first, and when a new one begins."""

    nanos: Nanos
    until_at: UnixSeconds

    def is_spent(self, now: UnixSeconds) -> bool:
        """Return whether nothing is left, at an instant."""
        return self.nanos <= 0 and now < self.until_at

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict; `from_json` is its inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BudgetLeft:
        """Read what `as_json` wrote. Raises KeyError or ValueError."""
        return cls(int(data["nanos"]), float(data["until_at"]))


@dataclass(frozen=True, slots=True)
class KeyUse:
    """Tokens of one key on one worker in one hour."""

    hour_at: UnixSeconds
    worker: str
    key: str
    usage: Usage


def span_of(span: Span, at: UnixSeconds) -> tuple[UnixSeconds, UnixSeconds]:
    """Return the begin and end of the hour, day or month that an instant is in."""
    begin = datetime.fromtimestamp(at, UTC).replace(minute=0, second=0, microsecond=0)
    if span is Span.HOUR:
        return begin.timestamp(), (begin + timedelta(hours=1)).timestamp()
    begin = begin.replace(hour=0)
    if span is Span.DAY:
        return begin.timestamp(), (begin + timedelta(days=1)).timestamp()
    begin = begin.replace(day=1)
    following = (begin + timedelta(days=31)).replace(day=1)
    return begin.timestamp(), following.timestamp()


def budget_left(
    budget: KeyBudget, spent: Iterable[tuple[UnixSeconds, Nanos]], now: UnixSeconds
) -> BudgetLeft | None:
    """Return what is left after what was spent in each hour; None without a budget.

    Of several spans, the one with nothing left that ends last, else the one with least left.
    """
    hours = tuple(spent)
    found = []
    for span, limit in budget.limits():
        begin, end = span_of(span, now)
        used = sum(nanos for hour_at, nanos in hours if begin <= hour_at < end)
        found.append(BudgetLeft(limit - used, end))
    if not found:
        return None
    empty = [left for left in found if left.nanos <= 0]
    if empty:
        return max(empty, key=lambda left: left.until_at)
    return min(found, key=lambda left: left.nanos)
