"""What a span of a worker's time costs, hour by hour, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ds4watch.cost.prices import PriceEntry, price_at
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerPhase, WorkerView

MS_PER_HOUR = 3_600_000


class CostPart(StrEnum):
    """The disjoint parts of what a worker costs."""

    BUSY = "busy"
    IDLE = "idle"
    STARTING = "starting"
    ASLEEP = "asleep"


@dataclass(frozen=True, slots=True)
class Charge:
    """Money of one part in one hour (`hour_at`: its start)."""

    hour_at: int
    worker: str
    profile: str
    part: CostPart
    nanos: Nanos


_STARTING = (WorkerPhase.STARTING, WorkerPhase.LOADING, WorkerPhase.WARMING)
_UNPAID = (WorkerPhase.ABSENT, WorkerPhase.FAILED)


def part_of(worker: WorkerView) -> CostPart | None:
    """Return what the worker's time is spent on; None while it holds no machine."""
    if worker.phase in _UNPAID:
        return None
    if worker.phase in _STARTING:
        return CostPart.STARTING
    if worker.phase is WorkerPhase.ASLEEP:
        return CostPart.ASLEEP
    return CostPart.BUSY if (worker.load.running or 0.0) > 0 else CostPart.IDLE


def charges(
    worker: WorkerView, prices: Sequence[PriceEntry], start: UnixSeconds, end: UnixSeconds
) -> tuple[Charge, ...]:
    """Return what the worker's time from `start` to `end` costs.

    Charges telescope: the cost up to millisecond m of an hour is floor(price * m / 3,600,000),
    and a span costs the difference at its ends. So an hour cut anywhere, any number of times,
    sums to exactly its price.
    """
    part = part_of(worker)
    if part is None:
        return ()
    found = []
    for hour_ms, first, last in _hours(round(start * 1000), round(end * 1000)):
        price = price_at(prices, worker.profile, hour_ms / 1000)
        nanos = price * last // MS_PER_HOUR - price * first // MS_PER_HOUR
        if nanos:
            found.append(Charge(hour_ms // 1000, worker.id, worker.profile, part, nanos))
    return tuple(found)


def per_hour(workers: Sequence[WorkerView], prices: Sequence[PriceEntry], at: UnixSeconds) -> Nanos:
    """Return what the fleet, as it stands, costs an hour."""
    return sum(
        price_at(prices, worker.profile, at) for worker in workers if part_of(worker) is not None
    )


def _hours(start_ms: int, end_ms: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start of the hour, first ms in it, last ms in it) for each hour touched."""
    at = start_ms
    while at < end_ms:
        hour = at - at % MS_PER_HOUR
        until = min(end_ms, hour + MS_PER_HOUR)
        yield hour, at - hour, until - hour
        at = until
