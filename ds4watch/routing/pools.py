"""The workers of each model as a choice needs them: reckoned once a board, not once a request."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from ds4watch.config.routing import RoutingSettings
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView
from ds4watch.routing.admission import most_of
from ds4watch.routing.hashing import HashOrder, seed_of
from ds4watch.routing.slow_start import ramp

KV_WEIGHT = 0.3
VERSION_WEIGHT = 0.1
_UNKNOWN_KV_RATIO = 0.5
"""Not reported is neither full nor empty."""
_KV_FULL_RATIO = 0.95


@dataclass(frozen=True, slots=True)
class Seat:
    """One worker of a model.

    fixed: what of its health does not change from request to request.
    room, long_room: requests, and long ones, that this process may have open at it.
    free: requests open that are no reason to send a conversation elsewhere.
    share: of the model's requests it gets that many at most; 1 is no limit.
    is_full: its KV cache is: conversations do better elsewhere.
    """

    worker: WorkerView
    id: str
    fixed: float
    room: float
    long_room: float
    free: float
    share: float = 1.0
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class Lane:
    """The workers for one kind of request of a model, and their order by session."""

    seats: tuple[Seat, ...]
    order: HashOrder
    has_shares: bool
    """Some have a share under 1, and some have not."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A model's ready workers that are not excluded: for short prompts, and for long ones."""

    whole: Lane
    short: Lane
    long: Lane

    def long_room(self) -> float:
        """Return how many long prompts this process may have open at all workers together."""
        return sum(seat.long_room for seat in self.long.seats)


@dataclass(frozen=True, slots=True)
class Routes:
    """What a gateway process routes by until the next board, or until `stale_at`.

    pools: by model. known, ready: models of all workers, of the ready ones.
    stale_at: instant (wall clock) at which shares have grown; infinite if none grows.
    """

    pools: dict[str, Pool]
    ready: frozenset[str]
    known: frozenset[str]
    has_nameless: bool
    """There are no workers, or some whose models are not known yet."""
    starting: dict[str, float]
    """Workers that have just become ready, and the part of a full share that they get."""
    stale_at: UnixSeconds


_STALE_SECONDS = 1.0


def routes_of(
    fleet: FleetSnapshot,
    settings: RoutingSettings,
    *,
    now: UnixSeconds,
    processes: int = 1,
    excluded: Set[str] = frozenset(),
    before: Routes | None = None,
) -> Routes:
    """Return the routes of a board; `before` gives its orders where the workers are the same."""
    ready: dict[str, list[WorkerView]] = {}
    ramps: dict[str, float] = {}
    for worker in fleet.workers:
        if worker.phase is not WorkerPhase.READY:
            continue
        grown = ramp(
            worker,
            now,
            slow_start_seconds=settings.slow_start_seconds,
            first=settings.slow_start_ratio,
        )
        if grown < 1.0:
            ramps[worker.id] = grown
        for model in worker.models:
            ready.setdefault(model, []).append(worker)
    maker = _Maker(settings, ramps=ramps, processes=processes)
    pools = {}
    for model, workers in ready.items():
        allowed = [worker for worker in workers if worker.id not in excluded]
        if allowed:
            pools[model] = maker.pool(allowed, before.pools.get(model) if before else None)
    return Routes(
        pools=pools,
        ready=frozenset(ready),
        known=frozenset(model for worker in fleet.workers for model in worker.models),
        has_nameless=not fleet.workers or any(not worker.models for worker in fleet.workers),
        starting=ramps,
        stale_at=now + _STALE_SECONDS if ramps else math.inf,
    )


class _Maker:
    """Makes the pools of one board."""

    def __init__(
        self, settings: RoutingSettings, *, ramps: dict[str, float], processes: int
    ) -> None:
        self._settings = settings
        self._ramps = ramps
        self._processes = processes
        self._free = most_of(settings.session_free_inflight, processes=processes)

    def pool(self, workers: Sequence[WorkerView], before: Pool | None) -> Pool:
        """Return a model's pool. Workers kept for long prompts take short ones only if alone."""
        if self._settings.long_tokens is None:
            long, short = set[str](), set[str]()
        else:
            long = self._long_of(workers)
            short = {it.id for it in workers if not it.is_for_long}
        seats = [self._seat(it, len(workers), takes_long=it.id in long) for it in workers]
        whole = _lane(seats, before.whole if before else None)
        return Pool(
            whole=whole,
            short=_part(whole, short, before.short if before else None),
            long=_part(whole, long, before.long if before else None),
        )

    def _seat(self, worker: WorkerView, count: int, *, takes_long: bool) -> Seat:
        room = most_of(worker.max_inflight, processes=self._processes)
        grown = self._ramps.get(worker.id)
        return Seat(
            worker=worker,
            id=worker.id,
            fixed=fixed_health_of(worker),
            room=room,
            long_room=room if worker.is_for_long else self._long_room(room, takes_long=takes_long),
            free=min(self._free, max(1.0, room / 2)),
            share=worker.share if grown is None else min(worker.share, grown / count),
            is_full=kv_ratio_of(worker) >= _KV_FULL_RATIO,
        )

    def _long_room(self, room: float, *, takes_long: bool) -> float:
        """Return the long prompts that this process may have open at a worker: half of all.

        The last place of a worker is for short ones, but at those who are there for long ones.
        """
        allowed = most_of(self._settings.long_inflight, processes=self._processes)
        half = room if math.isinf(room) else room // 2
        return min(allowed, max(half, 1.0 if takes_long else 0.0))

    def _long_of(self, workers: Sequence[WorkerView]) -> set[str]:
        kept = {it.id for it in workers if it.is_for_long}
        if kept:
            return kept
        # In an order that every process finds, and that a change of the fleet changes little.
        in_order = sorted((it.id for it in workers), key=seed_of)
        count, ratio = len(workers), self._settings.long_worker_ratio
        if ratio < 1:
            count = max(1, min(count - 1, int(count * ratio)))
        return set(in_order[:count])


def _part(whole: Lane, ids: Set[str], before: Lane | None) -> Lane:
    """Return the lane of some of the workers; of all if they are all, or none."""
    if not ids or len(ids) == len(whole.seats):
        return whole
    return _lane([seat for seat in whole.seats if seat.id in ids], before)


def _lane(seats: Sequence[Seat], before: Lane | None) -> Lane:
    shares = [seat.share for seat in seats]
    weights = _weights(shares)
    order = before.order if before else None
    ids = tuple(seat.id for seat in seats)
    if order is None or order.signature != (ids, tuple(weights)):
        order = HashOrder(ids, weights)
    return Lane(tuple(seats), order, has_shares=min(shares) < 1.0 <= max(shares))


def _weights(shares: Iterable[float]) -> list[float]:
    """Return weights that give each limited worker its share beside the others' full ones."""
    given = list(shares)
    full = sum(1 for share in given if share >= 1.0)
    if not full:
        return [1.0] * len(given)
    return [1.0 if share >= 1.0 else min(1.0, full * share / (1.0 - share)) for share in given]


def fixed_health_of(worker: WorkerView) -> float:
    """Return the part of a worker's health that is not its load: free KV cache, and version."""
    free = KV_WEIGHT * (1 - kv_ratio_of(worker))
    return free + (VERSION_WEIGHT if worker.is_current else 0.0)


def kv_ratio_of(worker: WorkerView) -> float:
    """Return the use of a worker's KV cache, in [0, 1]."""
    usage = worker.load.kv_usage_ratio
    return _UNKNOWN_KV_RATIO if usage is None else min(1.0, max(0.0, usage))
