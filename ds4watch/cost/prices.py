"""The price list: who costs what from when on. History is never priced anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import urlsplit

from ds4watch.model.money import Nanos, nanos_from_decimal
from ds4watch.model.ports import UnixSeconds

ANY = "*"
OWN_HOSTS = ("127.0.0.1", "localhost", "::1")
"""Of workers on this machine, whose GPUs are known."""


@dataclass(frozen=True, slots=True)
class PriceEntry:
    """A worker hour of `profile` at `host` (`*`: any) costs so much from `valid_from_at` on.

    of_gpu: it holds because of the model of this machine's GPUs, so for workers on it alone.
    stands_for_all: it is one for any profile, reckoned for the GPUs of this one.
    """

    profile: str
    nanos_per_hour: Nanos
    valid_from_at: UnixSeconds
    host: str = ANY
    of_gpu: bool = False
    stands_for_all: bool = False

    @property
    def rank(self) -> tuple[int, UnixSeconds, bool]:
        """How closely it says whom it is for, and how new it is.

        A profile goes before a host, a host before a GPU.
        """
        names_profile = self.profile != ANY
        closeness = 4 * (names_profile and not self.stands_for_all)
        closeness += 2 * (self.host != ANY) + self.of_gpu
        return closeness, self.valid_from_at, names_profile

    def is_for(self, profile: str, host: str) -> bool:
        """Return whether it is for workers of a profile at a host."""
        is_there = self.host in (ANY, host) and (host in OWN_HOSTS or not self.of_gpu)
        return is_there and self.profile in (ANY, profile)


def price_entry(
    profile: str,
    per_hour: Decimal,
    valid_from_at: UnixSeconds,
    *,
    host: str = ANY,
    of_gpu: bool = False,
    stands_for_all: bool = False,
) -> PriceEntry:
    """Return the entry for a price as a person writes it."""
    nanos = nanos_from_decimal(per_hour)
    return PriceEntry(profile, nanos, valid_from_at, host, of_gpu, stands_for_all)


def with_own_prices(
    prices: Sequence[PriceEntry], own: Mapping[str, Iterable[tuple[UnixSeconds, Decimal]]]
) -> tuple[PriceEntry, ...]:
    """Return the list with the prices that profiles name themselves, in place of those for them.

    own: profile → instants, and the price of a worker hour from each on.
    """
    others = (it for it in prices if it.profile not in own)
    named = (
        price_entry(profile, per_hour, at) for profile, its in own.items() for at, per_hour in its
    )
    return (*others, *named)


def price_at(prices: Sequence[PriceEntry], profile: str, at: UnixSeconds, url: str = "") -> Nanos:
    """Return the price of an hour of the worker at `url`; 0 without any.

    Of the entries that are valid, the one that says most closely whom it is for, then the newest.
    """
    host = (urlsplit(url).hostname or OWN_HOSTS[0]) if url else OWN_HOSTS[0]
    valid = (it for it in prices if it.valid_from_at <= at and it.is_for(profile, host))
    best = max(valid, key=lambda it: it.rank, default=None)
    return 0 if best is None else best.nanos_per_hour
