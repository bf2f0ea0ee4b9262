"""The choice of a worker: by session, else the healthier of two drawn at random."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView
from ds4watch.routing.pools import Lane, Pool, Routes, Seat

LOAD_WEIGHT = 0.6
LONG_LOAD = 8
"""A long prompt is as much load as so many short ones."""
_BELOW_ONE = math.nextafter(1.0, 0.0)


class NoRouteReason(StrEnum):
    """Why no worker can be tried."""

    UNKNOWN_MODEL = "unknown_model"
    NOT_READY = "not_ready"
    EXCLUDED = "excluded"
    ALL_TRIED = "all_tried"
    FULL = "full"
    """Each that could serve has as many requests open as it may have."""


class RouteDecision(NamedTuple):
    """The worker to try."""

    worker: WorkerView


@dataclass(frozen=True, slots=True)
class NoRoute:
    """There is no worker to try."""

    reason: NoRouteReason


class Ask(NamedTuple):
    """What of a request matters to who answers it.

    session: key of its conversation, None if it has none. tried: workers that failed it.
    """

    model: str
    session: int | None = None
    is_long: bool = False
    tried: Set[str] = frozenset()


@dataclass(frozen=True, slots=True)
class View:
    """What a process knows by itself; mappings are read, never kept.

    inflight, longs: its open requests, and the long ones among them, by worker. The workers'
    gauges lag by seconds (vllm#49538).
    dead: cannot be reached; worker to the instant at which it is tried again.
    busy: said a moment ago that they are full.
    aside: answer badly. probes: those of them that are due back.
    """

    inflight: Mapping[str, int]
    longs: Mapping[str, int]
    dead: Mapping[str, float]
    aside: Set[str] = frozenset()
    busy: Set[str] = frozenset()
    probes: Sequence[str] = ()
    probe_ratio: float = 0.05
    max_aside_ratio: float = 0.5
    load_ratio: float = 1.25


def choose(
    routes: Routes, ask: Ask, view: View, draw: Callable[[], float]
) -> RouteDecision | NoRoute:
    """Return the worker to try; `draw` gives numbers in [0, 1).

    Nobody gets more than it may have open (`WorkerView.max_inflight`), however many others fell:
    what they can no longer take is shed, so that one death is not followed by the next.

    A conversation goes to the first in its order that is not out, full or overloaded. Without one
    two are drawn and the healthier answers, but one with a share under 1 is not picked for its
    health: the draw gives it its share, and no more as long as there are others.
    """
    pool = routes.pools.get(ask.model)
    if pool is None:
        return NoRoute(_why_nobody(routes, ask.model))
    lane = pool.long if ask.is_long else pool.short
    seats: Sequence[Seat] = lane.seats
    if ask.tried or view.dead or view.aside or view.busy:
        probe = _probe(seats, ask, view, draw)
        if probe is not None:
            return RouteDecision(probe.worker)
        lane, seats = _usable(pool, lane, ask, view)
        if not seats:
            return NoRoute(NoRouteReason.ALL_TRIED)
    if ask.session is not None and len(lane.seats) > 1:
        seat = _by_session(lane, seats, ask, view)
    else:
        seat = _by_health(lane, seats, ask, view, draw)
    return NoRoute(NoRouteReason.FULL) if seat is None else RouteDecision(seat.worker)


def is_about_to_be_ready(fleet: FleetSnapshot, model: str, tried: Set[str] = frozenset()) -> bool:
    """Return whether a worker of a model, none of `tried`, is seconds away from ready."""
    return any(
        model in worker.models
        and worker.phase in (WorkerPhase.ASLEEP, WorkerPhase.WARMING)
        and worker.id not in tried
        for worker in fleet.workers
    )


def health_of(seat: Seat, *, load: float, most: float) -> float:
    """Return a score in [0, 1]: 0.6 free of load, 0.3 free of KV cache, 0.1 for the version.

    Load is a share of `most`, the highest among those compared.
    """
    return LOAD_WEIGHT * (1 - load / most if most > 0 else 1.0) + seat.fixed


def _by_health(
    lane: Lane, seats: Sequence[Seat], ask: Ask, view: View, draw: Callable[[], float]
) -> Seat | None:
    if len(seats) == 1:
        return seats[0] if _has_room(seats[0], ask, view) else None
    one, two = draw(), draw()
    if not lane.has_shares:
        first, second = _two_of(seats, one, two)
        if _has_room(first, ask, view) and _has_room(second, ask, view):
            return _healthier(first, second, view)
    with_room = [seat for seat in seats if _has_room(seat, ask, view)]
    if not with_room:
        return None
    if lane.has_shares:
        with_room, one = _by_share(with_room, one)
    first, second = _two_of(with_room, one, two)
    return _healthier(first, second, view)


def _by_session(lane: Lane, seats: Sequence[Seat], ask: Ask, view: View) -> Seat | None:
    """Return the first in the session's order whose load is bounded (Mirrokni et al., 2016)."""
    inflight, all_seats = view.inflight, lane.seats
    is_whole = len(seats) == len(all_seats)
    allowed = None if is_whole else {seat.id for seat in seats}
    most = -1.0
    fallback = None
    for at in lane.order.of(ask.session or 0):
        seat = all_seats[at]
        if (allowed is not None and seat.id not in allowed) or not _has_room(seat, ask, view):
            continue
        fallback = fallback or seat
        load = inflight.get(seat.id, 0)
        if load < seat.free and not seat.is_full:
            return seat
        if most < 0:
            most = _most_of_mean(seats, view)
        if load < most and not seat.is_full:
            return seat
    return fallback


def _most_of_mean(seats: Sequence[Seat], view: View) -> float:
    """Return what one may have open: so many times the mean, this request counted in."""
    total = 1 + sum([view.inflight.get(seat.id, 0) for seat in seats])
    return math.ceil(view.load_ratio * total / len(seats))


def _has_room(seat: Seat, ask: Ask, view: View) -> bool:
    if view.inflight.get(seat.id, 0) >= seat.room:
        return False
    return not ask.is_long or view.longs.get(seat.id, 0) < seat.long_room


def _healthier(first: Seat, second: Seat, view: View) -> Seat:
    if first is second:
        return first
    one, two = _load(first, view), _load(second, view)
    most = max(one, two)
    health = health_of(first, load=one, most=most)
    return second if health_of(second, load=two, most=most) > health else first


def _load(seat: Seat, view: View) -> int:
    load = view.inflight.get(seat.id, 0)
    if view.longs:
        load += (LONG_LOAD - 1) * view.longs.get(seat.id, 0)
    return load


def _by_share(seats: list[Seat], one: float) -> tuple[list[Seat], float]:
    """Return the limited worker that the draw falls to, or all others; and a fresh draw."""
    unlimited = [seat for seat in seats if seat.share >= 1.0]
    if not unlimited or len(unlimited) == len(seats):
        return seats, one
    below = 0.0
    for seat in seats:
        if seat.share < 1.0:
            below += seat.share
            if one < below:
                return [seat], one
    return unlimited, min((one - below) / (1.0 - below), _BELOW_ONE)


def _two_of(seats: Sequence[Seat], one: float, two: float) -> tuple[Seat, Seat]:
    """Return two different workers (the only one twice), each pair equally likely."""
    count = len(seats)
    if count == 1:
        return seats[0], seats[0]
    first = int(one * count)
    second = int(two * (count - 1))
    return seats[first], seats[second if second < first else second + 1]


def _probe(seats: Sequence[Seat], ask: Ask, view: View, draw: Callable[[], float]) -> Seat | None:
    """Return one that is due back and has nothing of ours open, for a share of the requests."""
    if not view.probes or ask.tried or draw() >= view.probe_ratio:
        return None
    for seat in seats:
        is_due = seat.id in view.probes and seat.id not in view.dead
        if is_due and not view.inflight.get(seat.id, 0):
            return seat
    return None


def _usable(pool: Pool, lane: Lane, ask: Ask, view: View) -> tuple[Lane, Sequence[Seat]]:
    """Return those to choose from: not tried, neither dead nor set aside, as far as there are.

    Where the kind of request has nobody left the model's other workers stand in. The one that
    comes back first is tried rather than nobody: a short fault of the network is no blackout.
    Nobody is set aside if too many would be out: then it is not the worker's fault. One that was
    full is passed over for another of its kind only: long prompts never spill over for that.
    """
    aside = frozenset[str]() if not view.aside or _is_panic(pool, view) else view.aside
    none = frozenset[str]()
    tries = ((lane, aside), (pool.whole, aside), (lane, none), (pool.whole, none))
    for each, out in ((lane, aside | view.busy), *tries) if view.busy else tries:
        found = [seat for seat in each.seats if not _is_out(seat.id, ask, view, out)]
        if found:
            return each, found
    untried = [seat for seat in pool.whole.seats if seat.id not in ask.tried]
    first_back = sorted(untried, key=lambda seat: view.dead[seat.id])[:1]
    return pool.whole, first_back


def _is_out(name: str, ask: Ask, view: View, aside: Set[str]) -> bool:
    return name in ask.tried or name in view.dead or name in aside


def _is_panic(pool: Pool, view: View) -> bool:
    seats = pool.whole.seats
    out = sum([seat.id in view.aside or seat.id in view.dead for seat in seats])
    return out > view.max_aside_ratio * len(seats)


def _why_nobody(routes: Routes, model: str) -> NoRouteReason:
    if model in routes.ready:
        return NoRouteReason.EXCLUDED
    # A worker whose models are not known yet may turn out to serve this one.
    is_known = routes.has_nameless or model in routes.known
    return NoRouteReason.NOT_READY if is_known else NoRouteReason.UNKNOWN_MODEL
