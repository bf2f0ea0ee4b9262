"""The price list: who costs what from when on. History is never priced anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from ds4watch.model.money import Nanos, nanos_from_decimal
from ds4watch.model.ports import UnixSeconds

ANY_PROFILE = "*"


@dataclass(frozen=True, slots=True)
class PriceEntry:
    """A worker hour of `profile` (`*`: any other) costs so much from `valid_from_at` on."""

    profile: str
    nanos_per_hour: Nanos
    valid_from_at: UnixSeconds


def price_entry(profile: str, per_hour: Decimal, valid_from_at: UnixSeconds) -> PriceEntry:
    """Return the entry for a price as a person writes it."""
    return PriceEntry(profile, nanos_from_decimal(per_hour), valid_from_at)


def with_own_prices(
    prices: Sequence[PriceEntry], own: Mapping[str, Decimal]
) -> tuple[PriceEntry, ...]:
    """Return the list with the prices that profiles name themselves, in place of those for them.

    own: profile → price of a worker hour. It holds from the start of time on; hours that were
    booked at another price stay so.
    """
    others = (it for it in prices if it.profile not in own)
    return (*others, *(price_entry(name, per_hour, 0.0) for name, per_hour in own.items()))


def price_at(prices: Sequence[PriceEntry], profile: str, at: UnixSeconds) -> Nanos:
    """Return a worker hour's price: the profile's newest valid one, else that of `*`, else 0."""
    for name in (profile, ANY_PROFILE):
        valid = [it for it in prices if it.profile == name and it.valid_from_at <= at]
        if valid:
            return max(valid, key=lambda it: it.valid_from_at).nanos_per_hour
    return 0
