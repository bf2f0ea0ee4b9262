"""What keeping things costs: a line of its own beside what workers cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds

ANYTHING: Final = "*"
_GB_HOUR: Final = 10**9 * 3600
"""In bytes times seconds: GB are 1e9 bytes, as sellers count."""


class Kept(StrEnum):
    """What is kept."""

    HISTORY = "history"
    """The databases of samples and of the state."""
    LOGS = "logs"
    """Logs of workers and gateways, and what gateways spool."""
    KV_OFFLOAD = "kv_offload"
    """Memory set aside for KV caches beside the GPU's, by workers that run."""


@dataclass(frozen=True, slots=True)
class StoragePrice:
    """A GB for an hour costs so much from `valid_from_at` on; `*`: whatever is not named."""

    what: str
    nanos_per_gb_hour: Nanos
    valid_from_at: UnixSeconds


def storage_nanos(byte_seconds: int, nanos_per_gb_hour: Nanos) -> Nanos:
    """Return what was kept comes to, rounded down."""
    return byte_seconds * nanos_per_gb_hour // _GB_HOUR


def storage_price_at(prices: Sequence[StoragePrice], what: Kept, at: UnixSeconds) -> Nanos:
    """Return the newest valid price for it, else that for anything, else 0."""
    for name in (what.value, ANYTHING):
        valid = [it for it in prices if it.what == name and it.valid_from_at <= at]
        if valid:
            return max(valid, key=lambda it: it.valid_from_at).nanos_per_gb_hour
    return 0
