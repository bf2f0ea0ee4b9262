"""The choice of a worker: health score, and the better of two drawn at random."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView
from ds4watch.routing.admission import has_room

_LOAD_WEIGHT = 0.6
_KV_WEIGHT = 0.3
_VERSION_WEIGHT = 0.1
_BELOW_ONE = math.nextafter(1.0, 0.0)
_UNKNOWN_KV_RATIO = 0.5
"""Not reported is neither full nor empty."""


class NoRouteReason(StrEnum):
    """Why no worker can be tried."""

    UNKNOWN_MODEL = "unknown_model"
    NOT_READY = "not_ready"
    EXCLUDED = "excluded"
    ALL_TRIED = "all_tried"
    FULL = "full"
    """Each that could serve has as many requests open as it may have."""


@dataclass(frozen=True, slots=True)
class RouteDecision:
    """The worker to try, its health score in [0, 1], and how many could have been chosen."""

    worker: WorkerView
    health: float
    candidates: int


@dataclass(frozen=True, slots=True)
class NoRoute:
    """There is no worker to try."""

    reason: NoRouteReason


def choose(
    fleet: FleetSnapshot,
    model: str,
    *,
    draws: tuple[float, float],
    inflight: Mapping[str, int],
    tried: Set[str] = frozenset(),
    excluded: Set[str] = frozenset(),
    ejected: Mapping[str, UnixSeconds] | None = None,
    processes: int = 1,
) -> RouteDecision | NoRoute:
    """Return the healthier of two workers picked by `draws`, each in [0, 1).

    Nobody gets more than it may have open (`WorkerView.max_inflight`), however many others fell:
    what they can no longer take is shed, so that one death is not followed by the next.

    One with a share under 1 (a new version under watch) is not picked for its health: the first
    draw gives it its share, and no more as long as there are others.

    inflight: our own open requests by worker; the workers' gauges lag by seconds (vllm#49538).
    excluded: never used. ejected: worker to the instant until which it is left out; if there
    is nobody else, the one that comes back first is tried, so that a short fault of the
    network is not a blackout.
    """
    routable = fleet.routable(model)
    if not routable:
        return NoRoute(_why_nobody(fleet, model))
    allowed = [worker for worker in routable if worker.id not in excluded]
    if not allowed:
        return NoRoute(NoRouteReason.EXCLUDED)
    untried = [worker for worker in allowed if worker.id not in tried]
    if not untried:
        return NoRoute(NoRouteReason.ALL_TRIED)
    candidates = [
        worker
        for worker in _without_ejected(untried, ejected or {})
        if has_room(worker.max_inflight, inflight.get(worker.id, 0), processes=processes)
    ]
    if not candidates:
        return NoRoute(NoRouteReason.FULL)
    favoured, draws = _by_share(candidates, draws)
    first, second = _two_of(favoured, draws)
    top = max(inflight.get(first.id, 0), inflight.get(second.id, 0))
    best, health = first, health_of(first, inflight=inflight.get(first.id, 0), most=top)
    other = health_of(second, inflight=inflight.get(second.id, 0), most=top)
    if other > health:
        best, health = second, other
    return RouteDecision(worker=best, health=health, candidates=len(candidates))


def is_about_to_be_ready(fleet: FleetSnapshot, model: str, tried: Set[str] = frozenset()) -> bool:
    """Return whether a worker of a model, none of `tried`, is seconds away from ready."""
    return any(
        model in worker.models
        and worker.phase in (WorkerPhase.ASLEEP, WorkerPhase.WARMING)
        and worker.id not in tried
        for worker in fleet.workers
    )


def health_of(worker: WorkerView, *, inflight: int, most: int) -> float:
    """Return a score in [0, 1]: 0.6 free of load, 0.3 free of KV cache, 0.1 for the version.

    Load is `inflight` as a share of `most`, the highest among those compared. The version
    always matches until fleets of mixed versions are told apart.
    """
    load = inflight / most if most > 0 else 0.0
    usage = worker.load.kv_usage_ratio
    kv = _UNKNOWN_KV_RATIO if usage is None else min(1.0, max(0.0, usage))
    return _LOAD_WEIGHT * (1 - load) + _KV_WEIGHT * (1 - kv) + _VERSION_WEIGHT


def _by_share(
    workers: Sequence[WorkerView], draws: tuple[float, float]
) -> tuple[Sequence[WorkerView], tuple[float, float]]:
    """Return the limited worker that the first draw falls to, or all others; and fresh draws."""
    unlimited = [worker for worker in workers if worker.share >= 1.0]
    if not unlimited or len(unlimited) == len(workers):
        return workers, draws
    below = 0.0
    for worker in workers:
        if worker.share < 1.0:
            below += worker.share
            if draws[0] < below:
                return (worker,), draws
    return unlimited, (min((draws[0] - below) / (1.0 - below), _BELOW_ONE), draws[1])


def _two_of(
    workers: Sequence[WorkerView], draws: tuple[float, float]
) -> tuple[WorkerView, WorkerView]:
    """Return two different workers (the only one twice), each pair equally likely."""
    count = len(workers)
    if count == 1:
        return workers[0], workers[0]
    first = int(draws[0] * count)
    second = int(draws[1] * (count - 1))
    return workers[first], workers[second if second < first else second + 1]


def _without_ejected(
    workers: list[WorkerView], ejected: Mapping[str, UnixSeconds]
) -> list[WorkerView]:
    if not ejected:
        return workers
    healthy = [worker for worker in workers if worker.id not in ejected]
    return healthy or [min(workers, key=lambda worker: ejected[worker.id])]


def _why_nobody(fleet: FleetSnapshot, model: str) -> NoRouteReason:
    known = not fleet.workers or any(
        # A worker whose models are not known yet may turn out to serve this one.
        model in worker.models or not worker.models
        for worker in fleet.workers
    )
    return NoRouteReason.NOT_READY if known else NoRouteReason.UNKNOWN_MODEL
