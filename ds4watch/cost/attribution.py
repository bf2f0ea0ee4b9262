"""What a span of a worker's time costs, hour by hour, exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ds4watch.cost.prices import PriceEntry, price_at
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerPhase, WorkerView

MS_PER_HOUR = 3_600_000


class CostPart(StrEnum):
    """The disjoint parts of what a worker costs."""

    BUSY = "busy"
    """With requests running. In the ledger: of which no stage was timed."""
    PREFILL = "prefill"
    DECODE = "decode"
    IDLE = "idle"
    SPARE = "spare"
    """Ready, and has served nothing since."""
    STARTING = "starting"
    ASLEEP = "asleep"


@dataclass(frozen=True, slots=True)
class Charge:
    """Money of one part in one hour (`hour_at`: its start), for so much time at a price."""

    hour_at: int
    worker: str
    profile: str
    part: CostPart
    nanos: Nanos
    nanos_per_hour: Nanos = 0
    paid_ms: int = 0


_STARTING = (WorkerPhase.STARTING, WorkerPhase.LOADING, WorkerPhase.WARMING)
_UNPAID = (WorkerPhase.ABSENT, WorkerPhase.FAILED)


def part_of(worker: WorkerView, served_at: UnixSeconds | None = None) -> CostPart | None:
    """Return what the worker's time is spent on; None while it holds no machine.

    served_at: when it last answered somebody. One that is ready and has not since is a spare.
    """
    if worker.phase in _UNPAID:
        return None
    if worker.phase in _STARTING:
        return CostPart.STARTING
    if worker.phase is WorkerPhase.ASLEEP:
        return CostPart.ASLEEP
    if (worker.load.running or 0.0) > 0:
        return CostPart.BUSY
    is_spare = worker.phase is WorkerPhase.READY and (served_at or 0.0) < worker.since
    return CostPart.SPARE if is_spare else CostPart.IDLE


def charges(
    worker: WorkerView,
    prices: Sequence[PriceEntry],
    start: UnixSeconds,
    end: UnixSeconds,
    *,
    served_at: UnixSeconds | None = None,
) -> tuple[Charge, ...]:
    """Return what the worker's time from `start` to `end` costs.

    Charges telescope: the cost up to millisecond m of an hour is floor(price * m / 3,600,000),
    and a span costs the difference at its ends. So an hour cut anywhere, any number of times,
    sums to exactly its price.
    """
    part = part_of(worker, served_at)
    if part is None:
        return ()
    found = []
    for hour_ms, first, last in _hours(round(start * 1000), round(end * 1000)):
        price = price_at(prices, worker.profile, hour_ms / 1000, worker.url)
        nanos = price * last // MS_PER_HOUR - price * first // MS_PER_HOUR
        if price:
            hour_at, paid_ms = hour_ms // 1000, last - first
            found.append(Charge(hour_at, worker.id, worker.profile, part, nanos, price, paid_ms))
    return tuple(found)


def per_hour(workers: Sequence[WorkerView], prices: Sequence[PriceEntry], at: UnixSeconds) -> Nanos:
    """Return what the fleet, as it stands, costs an hour."""
    return sum(
        price_at(prices, worker.profile, at, worker.url)
        for worker in workers
        if part_of(worker) is not None
    )


class Stage(StrEnum):
    """What a worker's busy time goes into; `unknown` while no request of a minute was timed."""

    PREFILL = "prefill"
    DECODE = "decode"
    UNKNOWN = "unknown"


def by_stage(nanos: Nanos, prefill_ratio: float | None) -> tuple[Nanos, Nanos, Nanos]:
    """Return busy money by stage time, in the order of Stage. It sums to exactly `nanos`."""
    if prefill_ratio is None:
        return 0, 0, nanos
    prefill = min(nanos, round(nanos * prefill_ratio))
    return prefill, nanos - prefill, 0


def staged(charges: Iterable[Charge], prefill_ratios: Mapping[str, float]) -> Iterator[Charge]:
    """Yield charges with busy money by stage; they sum to exactly what they were."""
    for charge in charges:
        if charge.part is not CostPart.BUSY:
            yield charge
            continue
        parts = by_stage(charge.nanos, prefill_ratios.get(charge.worker))
        for part, nanos in zip(_STAGES, parts, strict=True):
            if nanos:
                yield replace(charge, part=part, nanos=nanos)


_STAGES = (CostPart.PREFILL, CostPart.DECODE, CostPart.BUSY)
"""In the order of Stage."""


def _hours(start_ms: int, end_ms: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start of the hour, first ms in it, last ms in it) for each hour touched."""
    at = start_ms
    while at < end_ms:
        hour = at - at % MS_PER_HOUR
        until = min(end_ms, hour + MS_PER_HOUR)
        yield hour, at - hour, until - hour
        at = until
