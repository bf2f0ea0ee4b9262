"""How many workers of a profile are wanted, and who is called or put to rest for it. Pure.

wanted   the most of what the floor, the load now, a long queue, the load ahead, the calendar and a
         planned action ask for, within the ceiling and what an hour may cost
called   at once: sleepers first, then workers that are stopped; who is on the way counts, and is
         given up after a time
rests    one at a time, what was not wanted for a whole stabilisation window, if the others would
         carry what is open now: load x N / (N - 1)

What is not known asks for nothing and lets nobody rest. Zero is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.policy.provision import (
    Decision,
    Demand,
    Move,
    Provision,
    ProvisioningLimits,
    Reason,
    Standing,
    Step,
    Unit,
)


def step(
    state: Provision, units: Sequence[Unit], demand: Demand, limits: ProvisioningLimits
) -> tuple[Provision, Decision]:
    """Return what is carried on after a look, and what is to be done now."""
    now = demand.at
    state = _settled(state, units, now)
    late = _late(state, units, limits, now)
    look = _Look(state, units, demand, limits, frozenset(late))
    asks = look.asks()
    asked = max(asks.values(), default=0)
    wanted, refused = look.capped(asked)
    state = replace(state, wanted=_window(state.wanted, wanted, now, limits.stabilise_seconds))
    kept = max(most for _, most in state.wanted)
    missing = wanted - len(look.on)
    steps = [Step(name, Move.GIVE_UP, "it did not get ready in time") for name in late]
    if missing > 0:
        calls = look.callable(missing)
        why = look.why(asks, wanted)
        steps += [Step(name, Move.CALL, why) for name in calls]
        refused = refused or ("nobody is left to call" if len(calls) < missing else "")
    elif len(look.on) > kept:
        steps += look.to_rest(kept)
    hot, coming = len(look.hot), len(look.coming)
    decision = Decision(wanted, kept, hot, coming, asks, tuple(steps), refused)
    return _taken(state, steps, limits, now), decision


def expected_workers(ahead: float, limits: ProvisioningLimits) -> int:
    """Return how many workers a load that is forecast asks for, in requests open at once."""
    spread = limits.margin * math.sqrt(ahead)
    return _count(ahead + spread, limits.slots * limits.target_ratio)


class _Look:
    """One look at the workers of a profile."""

    def __init__(
        self,
        state: Provision,
        units: Sequence[Unit],
        demand: Demand,
        limits: ProvisioningLimits,
        late: frozenset[str],
    ) -> None:
        self.state = state
        self.units = units
        self.demand = demand
        self.limits = limits
        self.late = late
        on = state.on
        self.hot = [
            it for it in units if it.standing is Standing.HOT and (not it.is_ours or it.id in on)
        ]
        self.coming = [
            it
            for it in units
            if it.id not in late
            and it.standing not in (Standing.HOT, Standing.LOST)
            and (it.id in on if it.is_ours else it.standing is Standing.COMING)
        ]
        self.on = [*self.hot, *self.coming]

    def asks(self) -> dict[Reason, int]:
        """Return who asks for how many; who asks for nobody is left out."""
        limits, demand = self.limits, self.demand
        each = limits.slots * limits.target_ratio
        found = {Reason.FLOOR: limits.floor, Reason.CALENDAR: demand.calendar}
        if demand.is_unserved:
            found[Reason.UNSERVED] = 1
        if demand.is_full and not self.coming:
            found[Reason.KV_CACHE] = len(self.hot) + 1
        if demand.in_flight is not None:
            found[Reason.LOAD] = _count(demand.in_flight, each)
            # A start on the way is waited for: the queue is what it is to take care of.
            if demand.waiting > limits.queue_trigger and not self.coming:
                found[Reason.QUEUE] = len(self.hot) + max(1, _count(demand.waiting, limits.slots))
        if demand.ahead is not None:
            found[Reason.FORECAST] = expected_workers(demand.ahead, limits)
        if demand.planned:
            found[Reason.PLANNED] = max(found.values()) + demand.planned
        return {reason: count for reason, count in found.items() if count > 0}

    def capped(self, asked: int) -> tuple[int, str]:
        """Return how many of those asked for are within ceiling and budget, and what is not."""
        limits = self.limits
        bounds = [(limits.ceiling, "the ceiling of {} workers")]
        if limits.budget is not None:
            bounds.append(
                (self._affordable(limits.budget), "the budget of an hour, for {} workers")
            )
        bound, told = min(
            ((most, told) for most, told in bounds if most is not None),
            default=(asked, ""),
        )
        if asked <= bound:
            return asked, ""
        return bound, f"{asked} are asked for, over {told.format(bound)}"

    def _affordable(self, budget: Nanos) -> int:
        """Return how many may be on: those that are first, then the cheapest to call."""
        on = {it.id for it in self.on}
        order = [*self.on, *(it for it in self.units if it.id not in on)]
        left, count = budget, 0
        for unit in order:
            left -= unit.price
            if left < 0:
                break
            count += 1
        return count

    def callable(self, count: int) -> list[str]:
        """Return who is called, sleepers first; never somebody over what an hour may cost."""
        on = {it.id for it in self.on}
        free = [
            it
            for it in self.units
            if it.is_ours
            and it.id not in on
            and it.id not in self.late
            and it.standing is not Standing.LOST
            and self.state.given_up_until.get(it.id, -math.inf) <= self.demand.at
        ]
        free.sort(key=lambda it: _CALL_ORDER[it.standing])
        return [it.id for it in free[:count]]

    def to_rest(self, kept: int) -> list[Step]:
        """Return who may rest now: one at most, and none while one is leaving."""
        on = {it.id for it in self.on}
        is_leaving = any(
            it.is_ours and it.id not in on and it.standing in _GOING for it in self.units
        )
        free = [it for it in self.hot if it.is_ours]
        count, least = len(self.hot), max(self.limits.floor, self.limits.least_hot)
        open_now = self.demand.in_flight
        if is_leaving or not free or open_now is None or count <= least:
            return []
        if open_now > (count - 1) * self.limits.slots * self.limits.target_ratio:
            return []
        why = (
            f"{len(self.on)} are on and {kept} were wanted at most for "
            f"{self.limits.stabilise_seconds:.0f} s; {open_now:.0f} open requests are "
            f"{_each(open_now, count - 1)} for each of the others"
        )
        return [Step(free[-1].id, Move.REST, why)]

    def why(self, asks: Mapping[Reason, int], wanted: int) -> str:
        """Return in a line who asks for how many, and the values that they go by."""
        demand = self.demand
        most = max(asks, key=lambda it: asks[it])
        known = {
            Reason.LOAD: f"{demand.in_flight or 0:.0f} requests are open",
            Reason.QUEUE: f"{demand.waiting:.0f} requests wait",
            Reason.FORECAST: f"up to {demand.ahead or 0:.0f} open requests are forecast",
            Reason.KV_CACHE: "the KV caches of the ready are nearly full",
            Reason.UNSERVED: "requests find nobody who serves them",
            Reason.PLANNED: f"{demand.planned} are about to be taken away",
        }
        told = known.get(most, "")
        return f"{most.value} asks for {asks[most]}, {wanted} are wanted" + (told and f": {told}")


_REFUSED_SECONDS = 60.0
"""Ready for so long after it was to rest, a worker would not."""
_IS_UP = (Standing.HOT, Standing.COMING, Standing.LOST)
_CALL_ORDER = {
    Standing.HOT: 0,  # wished to rest and not gone yet
    Standing.COMING: 1,
    Standing.LEAVING: 2,
    Standing.ASLEEP: 3,
    Standing.AWAY: 4,
    Standing.LOST: 5,
}
_GOING = (Standing.HOT, Standing.LEAVING)


def _count(load: float, each: float) -> int:
    """Return how many workers carry a load; a hair over is not one more."""
    return max(0, math.ceil(load / each - 1e-9))


def _each(load: float, workers: int) -> str:
    return f"{load / workers:.1f}" if workers else "none"


def _settled(state: Provision, units: Sequence[Unit], now: UnixSeconds) -> Provision:
    """Forget who has left; who becomes ours goes on as it is, and so does who would not rest."""
    ours = {it.id: it.standing for it in units if it.is_ours}
    refused = {
        name
        for name, at in state.rested_at.items()
        if ours.get(name) is Standing.HOT and now - at >= _REFUSED_SECONDS
    }
    begins = {name for name, at in ours.items() if name not in state.ours and at in _IS_UP}
    on = (state.on & ours.keys()) | begins | refused
    before = state.called_at
    return replace(
        state,
        on=on,
        ours=frozenset(ours),
        called_at={name: before.get(name, now) for name in on if ours[name] is not Standing.HOT},
        rested_at={
            name: at for name, at in state.rested_at.items() if name in ours and name not in on
        },
        given_up_until={
            name: at for name, at in state.given_up_until.items() if at > now and name in ours
        },
    )


def _late(
    state: Provision, units: Iterable[Unit], limits: ProvisioningLimits, now: UnixSeconds
) -> list[str]:
    """Return who was called and cannot be expected any more."""
    return [
        it.id
        for it in units
        if it.is_ours
        and it.id in state.on
        and it.standing is not Standing.HOT
        and now - state.called_at.get(it.id, now) >= limits.patience_seconds
    ]


def _window(
    before: Sequence[tuple[UnixSeconds, int]], wanted: int, now: UnixSeconds, seconds: float
) -> tuple[tuple[UnixSeconds, int], ...]:
    kept = [(at, most) for at, most in before if now - at < seconds and most > wanted]
    return (*kept, (now, wanted))


def _taken(
    state: Provision, steps: Iterable[Step], limits: ProvisioningLimits, now: UnixSeconds
) -> Provision:
    """Return the state once the steps are taken."""
    on = set(state.on)
    called_at, until = dict(state.called_at), dict(state.given_up_until)
    rested_at = dict(state.rested_at)
    for it in steps:
        if it.move is Move.CALL:
            on.add(it.worker)
            called_at[it.worker] = now
            rested_at.pop(it.worker, None)
            continue
        on.discard(it.worker)
        called_at.pop(it.worker, None)
        rested_at[it.worker] = now
        if it.move is Move.GIVE_UP:
            until[it.worker] = now + limits.give_up_seconds
    return replace(
        state,
        on=frozenset(on),
        called_at=called_at,
        rested_at=rested_at,
        given_up_until=until,
    )
