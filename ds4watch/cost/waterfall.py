"""Why an hour costs more, or less, than another: the difference in money, cause by cause.

An hour's money is, exactly, price * (requests * attempts * (missed prompt tokens * seconds each +
answer tokens * seconds each) + idle seconds). Each cause takes one factor from the one hour to the
other, and its share is its Shapley value: its mean effect over all orders of taking them. So no
order is preferred, and shares sum to the whole: in nanos exactly, for all is reckoned in fractions,
and sums are rounded, not shares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from fractions import Fraction

from ds4watch.cost.hours import HourSum, Measure
from ds4watch.model.money import Nanos


class Cause(StrEnum):
    """What may have changed. `speed` is seconds for a token: other profiles, or a slower engine."""

    TRAFFIC = "traffic"
    PROMPT_LENGTH = "prompt_length"
    ANSWER_LENGTH = "answer_length"
    MISS_RATIO = "miss_ratio"
    RETRIES = "retries"
    SPEED = "speed"
    IDLE = "idle"
    PRICE = "price"


@dataclass(frozen=True, slots=True)
class Waterfall:
    """From `expected` to `actual`; the causes sum to the difference exactly."""

    measure: Measure
    expected: Nanos
    actual: Nanos
    causes: Mapping[Cause, Nanos]


@dataclass(frozen=True, slots=True)
class _Factors:
    """What an hour's money is the product of; fields in the order of Cause.

    speed: seconds of a worker for a missed token of a prompt, and for a token of an answer; both
    are one cause.
    """

    traffic: Fraction
    prompt_length: Fraction
    answer_length: Fraction
    miss_ratio: Fraction
    retries: Fraction
    speed: tuple[Fraction, Fraction]
    idle: Fraction
    price: Fraction


def waterfall(expected: HourSum, actual: HourSum, measure: Measure) -> Waterfall:
    """Return why `actual` is not like `expected`.

    Of `used_per_1k_tokens` in nanos for each 1,000 tokens; idle is no cause of it, nor of `used`.
    """
    before, after = _factors(expected), _factors(actual)
    first = round(_value(before, measure))
    total = Fraction()
    last = first
    causes = {}
    worth = _worths(before, after, measure)
    for cause in Cause:
        total += _share(worth, cause)
        reached = round(worth[frozenset()] + total)
        causes[cause] = reached - last
        last = reached
    return Waterfall(measure, first, last, causes)


def _worths(
    before: _Factors, after: _Factors, measure: Measure
) -> dict[frozenset[Cause], Fraction]:
    """Return what the hour comes to with any set of causes changed."""
    sets: list[frozenset[Cause]] = [frozenset()]
    for cause in Cause:
        sets += [it | {cause} for it in sets]
    return {it: _value(_changed(before, after, it), measure) for it in sets}


def _changed(before: _Factors, after: _Factors, causes: frozenset[Cause]) -> _Factors:
    return replace(before, **{it.value: getattr(after, it.value) for it in causes})


def _share(worth: Mapping[frozenset[Cause], Fraction], cause: Cause) -> Fraction:
    """Return a cause's Shapley value."""
    count = len(Cause)
    orders = math.factorial(count)
    times = [math.factorial(it) for it in range(count)]
    return sum(
        (
            Fraction(times[len(without)] * times[count - 1 - len(without)], orders)
            * (worth[without | {cause}] - value)
            for without, value in worth.items()
            if cause not in without
        ),
        Fraction(),
    )


def _value(it: _Factors, measure: Measure) -> Fraction:
    missed = it.prompt_length * it.miss_ratio
    a_request = it.retries * (missed * it.speed[0] + it.answer_length * it.speed[1])
    if measure is Measure.USED_PER_1K_TOKENS:
        length = it.prompt_length + it.answer_length
        return it.price * a_request * 1000 / length if length > 0 else Fraction()
    busy = it.traffic * a_request
    return it.price * (busy + (it.idle if measure is Measure.SPENT else 0))


def _factors(hour: HourSum) -> _Factors:
    """Return the factors; their product is the hour's money, exactly.

    Time of an hour without requests, busy or not, is idle.
    """
    worker_seconds = Fraction(hour.worker_seconds)
    price = hour.spent / worker_seconds if worker_seconds > 0 else Fraction()
    is_busy = price > 0 and hour.tokens > 0 and hour.requests > 0
    busy = hour.used / price if is_busy else Fraction()
    missed = max(0, hour.prompt_tokens - hour.cached_tokens)
    answers = max(0, hour.tokens - hour.prompt_tokens)
    attempts = 1 + _ratio(hour.retries, hour.requests)
    prefill = _prefill_ratio(hour, missed, answers) * busy
    return _Factors(
        traffic=Fraction(hour.requests),
        prompt_length=_ratio(hour.prompt_tokens, hour.requests),
        answer_length=_ratio(answers, hour.requests),
        miss_ratio=_ratio(missed, hour.prompt_tokens),
        retries=attempts,
        speed=(_ratio(prefill, missed * attempts), _ratio(busy - prefill, answers * attempts)),
        idle=worker_seconds - (busy if missed or answers else 0),
        price=price,
    )


def _prefill_ratio(hour: HourSum, missed: int, answers: int) -> Fraction:
    """Return the share of busy time that is prefill; all of it where there is nothing else."""
    if not answers:
        return Fraction(1)
    if not missed or hour.used <= 0:
        return Fraction()
    return min(Fraction(1), Fraction(hour.prefill) / hour.used)


def _ratio(of: Fraction | int, to: Fraction | int) -> Fraction:
    return Fraction(of) / to if to else Fraction()


def usual(hours: list[HourSum], like: HourSum) -> HourSum | None:
    """Return the medians of hours, for as long a time as `like` was watched; None without any."""
    if not hours or like.watched_seconds <= 0:
        return None
    found = {}
    for field in fields(HourSum):
        rates = sorted(getattr(it, field.name) / it.watched_seconds for it in hours)
        found[field.name] = rates[len(rates) // 2] * like.watched_seconds
    whole = {name: round(value) for name, value in found.items() if not name.endswith("_seconds")}
    return HourSum(**{**found, **whole})
