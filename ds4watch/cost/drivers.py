"""What moves an hour's cost: each a number that is comparable from hour to hour."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from ds4watch.cost.hours import HourSum
from ds4watch.model.money import Nanos

LEAST_REQUESTS: Final = 30
"""Below that, a mean of requests says nothing."""

_ALIKE: Final = 0.12
"""Loads are alike within so much, as a logarithm."""


class Driver(StrEnum):
    """The three measures of the cost, and what it is made of."""

    SPENT = "spent"
    USED = "used"
    USED_PER_1K_TOKENS = "used_per_1k_tokens"
    SPENT_PER_1K_TOKENS = "spent_per_1k_tokens"
    TRAFFIC = "traffic"
    PROMPT_LENGTH = "prompt_length"
    ANSWER_LENGTH = "answer_length"
    MISS_RATIO = "miss_ratio"
    RETRIES = "retries"
    WORKERS = "workers"
    PRICE = "price"


@dataclass(frozen=True, slots=True)
class Gauge:
    """A driver's value in an hour.

    grain: by what share it moves with one worker, or with the luck of so few requests.
    at_stake: the money that moves with it. alike: what it is compared by; if None, by the clock.
    """

    value: float
    grain: float
    at_stake: Nanos
    alike: int | None = None


def gauges(hour: HourSum) -> Mapping[Driver, Gauge]:
    """Return the drivers of an hour; those that cannot be told of it are absent."""
    if hour.watched_seconds < 1:
        return {}
    found = {}
    for driver, read in _READ.items():
        gauge = read(hour)
        if gauge is not None and gauge.value > 0 and math.isfinite(gauge.value):
            found[driver] = gauge
    return found


def _spent(hour: HourSum) -> Gauge:
    return Gauge(hour.spent / hour.watched_seconds, _worker_grain(hour), hour.spent)


def _used(hour: HourSum) -> Gauge:
    return Gauge(hour.used / hour.watched_seconds, _worker_grain(hour), hour.used)


def _used_per_token(hour: HourSum) -> Gauge | None:
    return _by_tokens(hour, hour.used)


def _spent_per_token(hour: HourSum) -> Gauge | None:
    return _by_tokens(hour, hour.spent)


def _by_tokens(hour: HourSum, nanos: Nanos) -> Gauge | None:
    if hour.requests < LEAST_REQUESTS or hour.tokens <= 0:
        return None
    grain = math.hypot(_worker_grain(hour), _luck(hour))
    return Gauge(nanos * 1000 / hour.tokens, grain, nanos)


def _traffic(hour: HourSum) -> Gauge:
    # None at all is less than one.
    rate = max(0.5, hour.requests) / hour.watched_seconds
    return Gauge(rate, _luck(hour), hour.spent)


def _prompt_length(hour: HourSum) -> Gauge | None:
    if hour.requests < LEAST_REQUESTS:
        return None
    return Gauge(hour.prompt_tokens / hour.requests, _luck(hour), hour.prefill)


def _answer_length(hour: HourSum) -> Gauge | None:
    if hour.requests < LEAST_REQUESTS:
        return None
    answers = hour.tokens - hour.prompt_tokens
    return Gauge(answers / hour.requests, _luck(hour), hour.used - hour.prefill)


def _miss_ratio(hour: HourSum) -> Gauge | None:
    if hour.requests < LEAST_REQUESTS or hour.prompt_tokens <= 0:
        return None
    missed = hour.prompt_tokens - hour.cached_tokens
    return Gauge(missed / hour.prompt_tokens, _luck(hour), hour.prefill)


def _retries(hour: HourSum) -> Gauge | None:
    # Attempts for each request: retries themselves are few, and double by chance.
    if hour.requests < LEAST_REQUESTS:
        return None
    luck = math.sqrt(hour.retries + 1) / hour.requests
    return Gauge(1 + hour.retries / hour.requests, luck, hour.used)


def _workers(hour: HourSum) -> Gauge | None:
    """Workers, to be compared with those of hours of like load: more are idle, or stuck."""
    missed = hour.prompt_tokens - hour.cached_tokens
    if hour.requests < LEAST_REQUESTS or min(hour.prefill, hour.used, missed) <= 0:
        return None
    # Decode in the tokens of prefill that take as long.
    load = missed * hour.used / hour.prefill * (1 + hour.retries / hour.requests)
    alike = round(math.log(load / hour.watched_seconds) / _ALIKE)
    workers = hour.worker_seconds / hour.watched_seconds
    return Gauge(workers, _worker_grain(hour), hour.spent, alike)


def _price(hour: HourSum) -> Gauge | None:
    if hour.worker_seconds < 1:
        return None
    return Gauge(hour.spent / hour.worker_seconds, 0.0, hour.spent)


def _worker_grain(hour: HourSum) -> float:
    """Half a worker."""
    workers = hour.worker_seconds / hour.watched_seconds
    return 0.4 / workers if workers > 0 else 0.0


def _luck(hour: HourSum) -> float:
    """Lengths and arrivals of requests spread by about as much as they are."""
    return 1 / math.sqrt(max(1, hour.requests))


_READ: Final[Mapping[Driver, Callable[[HourSum], Gauge | None]]] = MappingProxyType(
    {
        Driver.SPENT: _spent,
        Driver.USED: _used,
        Driver.USED_PER_1K_TOKENS: _used_per_token,
        Driver.SPENT_PER_1K_TOKENS: _spent_per_token,
        Driver.TRAFFIC: _traffic,
        Driver.PROMPT_LENGTH: _prompt_length,
        Driver.ANSWER_LENGTH: _answer_length,
        Driver.MISS_RATIO: _miss_ratio,
        Driver.RETRIES: _retries,
        Driver.WORKERS: _workers,
        Driver.PRICE: _price,
    }
)
