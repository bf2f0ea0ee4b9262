"""Rendezvous hashing: an order of the workers for each key, the same in every gateway process.

When a worker comes or goes only the keys move whose first worker it is or becomes. A worker with
a weight under 1 is the first for that share of the keys of a full one, and as its weight grows,
keys move to it alone (score u^(1/w): Efraimidis and Spirakis, 2006).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

SLOTS = 4096
"""Keys fall into so many slots, and slots are what is ordered: an order is made once for each."""
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX = 0xD6E8FEB86659FD93
_TO_UNIT = 2.0**-53


class HashOrder:
    """The orders of one set of workers, made when they are asked for and kept."""

    __slots__ = ("_inverses", "_orders", "_seeds", "signature")

    def __init__(self, ids: Sequence[str], weights: Sequence[float]) -> None:
        """Take the workers' ids and their weights, from 0 to 1."""
        self.signature = (tuple(ids), tuple(weights))
        self._seeds = [seed_of(name) for name in ids]
        self._inverses = [1.0 / weight if weight > 0 else None for weight in weights]
        self._orders: dict[int, tuple[int, ...]] = {}

    def of(self, key: int) -> tuple[int, ...]:
        """Return the positions of all workers, the first for `key` first."""
        slot = key % SLOTS
        order = self._orders.get(slot)
        if order is None:
            order = self._orders[slot] = self._made(slot)
        return order

    def _made(self, slot: int) -> tuple[int, ...]:
        scores = [
            _score(seed, slot, inverse)
            for seed, inverse in zip(self._seeds, self._inverses, strict=True)
        ]
        return tuple(sorted(range(len(scores)), key=scores.__getitem__, reverse=True))


def seed_of(name: str) -> int:
    """Return 64 bits that stand for a worker, whatever the process."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest())


def _score(seed: int, slot: int, inverse: float | None) -> float:
    if inverse is None:
        return -1.0
    mixed = (seed ^ (slot * _GOLDEN)) & _MASK
    mixed = ((mixed ^ (mixed >> 32)) * _MIX) & _MASK
    mixed = ((mixed ^ (mixed >> 32)) * _MIX) & _MASK
    unit = ((mixed ^ (mixed >> 32)) >> 11) * _TO_UNIT
    return unit if inverse == 1.0 else unit**inverse
