"""Budgets: money that all, a key or a model may cost in an hour, a day, a month of UTC.

What a key or a model costs is its share of the hours in which it had requests: all that workers
cost in such an hour, by tokens that had to be computed. Hours without requests are nobody's, and
only in the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from ds4watch.cost.hours import HOUR_SECONDS, hour_of
from ds4watch.cost.split import split
from ds4watch.model.budget_speed import Speeds
from ds4watch.model.key_budget import Span
from ds4watch.model.key_easing import KeyStanding
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.usage import Usage

LEAST_ELAPSED_RATIO: Final = 1 / 6
"""Before so much of an hour, nothing is projected; nor of longer periods before an hour."""
_RECENT_HOURS: Final = 24


class Scope(StrEnum):
    """Whose money."""

    TOTAL = "total"
    KEY = "key"
    MODEL = "model"


class Period(StrEnum):
    """In what time; each begins anew in UTC."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class Budget:
    """`who` is a key's or a model's name, and empty for the whole."""

    scope: Scope
    who: str
    period: Period
    limit: Nanos


@dataclass(frozen=True, slots=True)
class Standing:
    """How a budget stands. projected: what the period will come to; None: it is too early.

    lasts_seconds: of one that goes fast, how long the rest lasts at the speed of the last minute.
    """

    budget: Budget
    spent: Nanos
    projected: Nanos | None
    lasts_seconds: float | None = None


Weights = Mapping[tuple[str, str], int]
"""By key and model."""


@dataclass(slots=True)
class _Hour:
    nanos: Nanos = 0
    weights: Counter[tuple[str, str]] = field(default_factory=Counter)


class BudgetBook:
    """Money and work of the running month (and of a day at least), by hour."""

    def __init__(self, budgets: Sequence[Budget]) -> None:
        self._budgets = tuple(budgets)
        self._hours: dict[int, _Hour] = {}
        self._closed: dict[int, Mapping[tuple[Scope, str], Nanos]] = {}
        self._speeds = Speeds()

    def note(self, money: Iterable[tuple[int, Nanos]], now: UnixSeconds) -> None:
        """Book what workers cost lately, by hour, and how fast budgets go by now."""
        for hour_at, nanos in money:
            self.add_money(hour_at, nanos)
        for budget in self._budgets:
            self._speeds.note(_named(budget), [self._standing(budget, now)], now)

    def add_money(self, hour_at: int, nanos: Nanos) -> None:
        """Book what workers cost in an hour."""
        if self._budgets:
            self._hour(hour_at).nanos += nanos

    def add_work(self, hour_at: int, key: str, model: str, usage: Usage) -> None:
        """Book what requests of an hour took."""
        if self._budgets and usage.work > 0:
            self._hour(hour_at).weights[key, model] += usage.work

    def standings(self, now: UnixSeconds) -> Iterator[Standing]:
        """Yield each budget's standing."""
        for budget in self._budgets:
            it = self._told(budget, now)
            yield Standing(budget, it.spent, it.projected, it.lasts_seconds)

    def of_keys(self, now: UnixSeconds) -> dict[str, tuple[KeyStanding, ...]]:
        """Return how the budgets of single keys stand, by key."""
        return self._of(Scope.KEY, now)

    def of_models(self, now: UnixSeconds) -> dict[str, tuple[KeyStanding, ...]]:
        """Return how the budgets of single models stand, by model."""
        return self._of(Scope.MODEL, now)

    def _of(self, scope: Scope, now: UnixSeconds) -> dict[str, tuple[KeyStanding, ...]]:
        found: dict[str, tuple[KeyStanding, ...]] = {}
        for budget in self._budgets:
            if budget.scope is not scope:
                continue
            found[budget.who] = (*found.get(budget.who, ()), self._told(budget, now))
        return found

    def _told(self, budget: Budget, now: UnixSeconds) -> KeyStanding:
        (found,) = self._speeds.told(_named(budget), [self._standing(budget, now)], now)
        return found

    def _standing(self, budget: Budget, now: UnixSeconds) -> KeyStanding:
        start = period_start(now, budget.period)
        spent = sum(self._shares(budget, start, hour_of(now) + HOUR_SECONDS))
        projected = self._projected(budget, spent, now)
        return KeyStanding(Span(budget.period.value), budget.limit, spent, projected)

    def _projected(self, budget: Budget, spent: Nanos, now: UnixSeconds) -> Nanos | None:
        """Return what was spent, and for the rest of the period what the last day came to.

        Of an hour, and on a first day, what the time so far came to.
        """
        start, end = period_start(now, budget.period), period_end(now, budget.period)
        if now - start < LEAST_ELAPSED_RATIO * min(end - start, 6 * HOUR_SECONDS):
            return None
        rate = spent / (now - start)
        if budget.period is not Period.HOUR:
            hour = hour_of(now)
            first = min(self._hours, default=hour)
            begun = max(first, hour - _RECENT_HOURS * HOUR_SECONDS)
            if hour - begun >= HOUR_SECONDS:
                rate = sum(self._shares(budget, begun, hour)) / (hour - begun)
        return spent + round(rate * (end - now))

    def _shares(self, budget: Budget, start: float, end: float) -> Iterator[Nanos]:
        for hour_at in range(hour_of(start), int(end), HOUR_SECONDS):
            if hour_at in self._hours:
                yield self._shared(hour_at).get((budget.scope, budget.who), 0)

    def _shared(self, hour_at: int) -> Mapping[tuple[Scope, str], Nanos]:
        if hour_at not in self._closed:
            self._closed[hour_at] = shares(self._hours[hour_at].nanos, self._hours[hour_at].weights)
        return self._closed[hour_at]

    def _hour(self, hour_at: int) -> _Hour:
        if hour_at not in self._hours:
            self._forget(hour_at)
            self._hours[hour_at] = _Hour()
        self._closed.pop(hour_at, None)
        return self._hours[hour_at]

    def _forget(self, hour_at: int) -> None:
        kept_from = first_needed(hour_at)
        gone = [at for at in self._hours if at < kept_from]
        for at in gone:
            del self._hours[at]
            self._closed.pop(at, None)


def _named(budget: Budget) -> str:
    return f"{budget.scope} {budget.who}"


def shares(nanos: Nanos, weights: Weights) -> dict[tuple[Scope, str], Nanos]:
    """Return an hour's money: the whole, and of each key and model, both summing to the whole."""
    found: Counter[tuple[Scope, str]] = Counter({(Scope.TOTAL, ""): nanos})
    for (key, model), share in split(nanos, weights).items():
        found[Scope.KEY, key] += share
        found[Scope.MODEL, model] += share
    return dict(found)


def period_start(at: UnixSeconds, period: Period) -> int:
    """Return the start of an instant's hour, day or month."""
    if period is Period.HOUR:
        return hour_of(at)
    day = datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return int((day if period is Period.DAY else day.replace(day=1)).timestamp())


def period_end(at: UnixSeconds, period: Period) -> int:
    """Return the start of the next one."""
    start = period_start(at, period)
    if period is Period.HOUR:
        return start + HOUR_SECONDS
    beyond = timedelta(days=1 if period is Period.DAY else 32)
    return period_start((datetime.fromtimestamp(start, UTC) + beyond).timestamp(), period)


def first_needed(at: UnixSeconds) -> int:
    """Return the first hour that any standing at an instant looks at."""
    return min(period_start(at, Period.MONTH), hour_of(at) - _RECENT_HOURS * HOUR_SECONDS)
