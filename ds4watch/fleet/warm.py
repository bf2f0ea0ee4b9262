"""The warm pool: who is kept ready, who may rest, who is called back. Pure.

called   to have `min_hot` ready, for a model that nobody ready serves, or for load:
         sleepers first, then spares
rests    one at a time, after a time without work, never below `min_hot`, never the last of a
         model, and only if the others would carry the load at half of what calls it back
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ds4watch.fleet.pool import (
    NO_FACTS,
    NOTHING_ASKED,
    SPARE,
    Asked,
    Change,
    Facts,
    Pool,
    PoolSettings,
    Rest,
    goal,
)
from ds4watch.fleet.wish import Wish
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView

_CALM_RATIO = 0.5
"""Who rests leaves the others with at most this share of the load that would call it back."""
_REFUSED_SECONDS = 5.0
"""Ready for so long after it was wished asleep, a worker would not sleep."""
_WAKES = (WorkerPhase.WARMING,)
_COMES = (WorkerPhase.STARTING, WorkerPhase.LOADING, WorkerPhase.WARMING)
_RESTS_IN = (WorkerPhase.ASLEEP, WorkerPhase.ABSENT)
_IS_AWAY = (*_RESTS_IN, WorkerPhase.DRAINING, WorkerPhase.STOPPING)


def plan(
    fleet: FleetSnapshot,
    facts: Mapping[str, Facts],
    pool: Pool,
    settings: PoolSettings,
    now: UnixSeconds,
    asked: Asked = NOTHING_ASKED,
) -> tuple[Pool, tuple[Change, ...]]:
    """Return the pool after a look at the fleet, and what changed."""
    pool = _settled(fleet, facts, pool, now)
    look = _Look(fleet, facts, pool, settings, now)
    calls = _calls(look, asked)
    if calls:
        resting = {name: rest for name, rest in pool.resting.items() if name not in calls}
        called_at = {**pool.called_at, **dict.fromkeys(calls, now)}
        changes = tuple(Change(name, Wish.READY, why) for name, why in calls.items())
        return replace(pool, resting=resting, called_at=called_at), changes
    found = _to_rest(look)
    if found is None:
        return pool, ()
    view, rest = found
    is_trial = asked.is_trial and rest.wish is Wish.ASLEEP
    since = facts[view.id].idle_since or now
    if not is_trial:
        resting = {**pool.resting, view.id: rest}
        return replace(pool, resting=resting), (Change(view.id, rest.wish, rest.why),)
    if pool.told.get(view.id) == since:
        return pool, ()
    told = {**pool.told, view.id: since}
    return replace(pool, told=told), (Change(view.id, rest.wish, rest.why, is_trial=True),)


class _Look:
    """One look at the fleet."""

    def __init__(
        self,
        fleet: FleetSnapshot,
        facts: Mapping[str, Facts],
        pool: Pool,
        settings: PoolSettings,
        now: UnixSeconds,
    ) -> None:
        self.views = fleet.workers
        self.facts = facts
        self.pool = pool
        self.settings = settings
        self.now = now
        self.goal = goal(fleet, settings)
        self.ready = [
            view
            for view in fleet.workers
            if view.phase is WorkerPhase.READY
            and (view.id not in pool.resting or self.fact(view).is_taken)
        ]
        self._can_spare: dict[str, bool] = {}
        self.by_model: dict[str, list[WorkerView]] = {}
        for view in self.ready:
            for model in view.models:
                self.by_model.setdefault(model, []).append(view)

    def fact(self, view: WorkerView) -> Facts:
        return self.facts.get(view.id, NO_FACTS)

    def coming(self, phases: tuple[WorkerPhase, ...]) -> list[WorkerView]:
        """Return who is about to be ready: in one of the phases, or called and not begun."""
        return [
            view
            for view in self.views
            if view.phase in phases
            or (
                view.phase in _IS_AWAY
                and view.id in self.pool.called_at
                and view.id not in self.pool.resting
                and not self.fact(view).is_taken
            )
        ]

    def callable(self) -> list[WorkerView]:
        """Return who may be called, sleepers first."""
        found = [
            view
            for view in self.views
            if view.id in self.pool.resting
            and not self.fact(view).is_taken
            and not self.fact(view).is_held
            and view.phase in _IS_AWAY
        ]
        return sorted(found, key=lambda view: self.pool.resting[view.id].wish is not Wish.ASLEEP)

    def can_spare_one(self, model: str) -> bool:
        """Return whether the load of a model is known, and small for one ready worker fewer."""
        if model not in self._can_spare:
            is_known = all(view.load.running is not None for view in self.by_model[model])
            self._can_spare[model] = is_known and self.pressure(model, fewer=1) <= _CALM_RATIO
        return self._can_spare[model]

    def pressure(self, model: str, fewer: int = 0) -> float:
        """Return the load of a model's ready workers as a share of what calls others.

        With `fewer` of them. Not reported is not zero: then it is not known, and calls nobody,
        and nobody rests on it either (see `can_spare_one`).
        """
        views = self.by_model.get(model, [])
        count = len(views) - fewer
        if count <= 0:
            return math.inf if fewer else 0.0
        waiting = sum(view.load.waiting or 0.0 for view in views) / count
        usage = sum(view.load.kv_usage_ratio or 0.0 for view in views) / count
        return max(waiting / self.settings.wake_waiting, usage / self.settings.wake_kv_usage_ratio)


def _settled(
    fleet: FleetSnapshot, facts: Mapping[str, Facts], pool: Pool, now: UnixSeconds
) -> Pool:
    """Forget who has left, whom somebody else took, and who would not sleep; note new spares."""
    resting: dict[str, Rest] = {}
    called_at = {name: at for name, at in pool.called_at.items() if name in facts}
    for view in fleet.workers:
        fact, rest = facts.get(view.id, NO_FACTS), pool.resting.get(view.id)
        if rest is None:
            if fact.is_spare and view.id not in called_at and view.phase is WorkerPhase.ABSENT:
                resting[view.id] = Rest(Wish.STOPPED, now, SPARE)
            continue
        would_not = view.phase is WorkerPhase.READY and now - rest.since >= _REFUSED_SECONDS
        if rest.wish is Wish.ASLEEP and (fact.is_taken or would_not):
            called_at[view.id] = now
        else:
            resting[view.id] = rest
    if resting == pool.resting and called_at == pool.called_at:
        return pool
    return replace(pool, resting=resting, called_at=called_at)


def _calls(look: _Look, asked: Asked) -> dict[str, str]:
    """Return who is called, and why."""
    free = look.callable()
    if not free:
        return {}
    waking, starting = look.coming(_WAKES), look.coming(_COMES)
    found = _for_the_floor(look, free, len(waking), len(starting))
    came = {model for view in free if view.id in found for model in view.models}
    by_model: dict[str, list[WorkerView]] = {}
    for view in free:
        for model in view.models:
            if view.id not in found and model not in came:
                by_model.setdefault(model, []).append(view)
    for model, able in sorted(by_model.items()):
        if found.keys() & {view.id for view in able}:
            continue  # one that serves it was called for another model just now
        soon = starting if _all_spare(able, look) else waking
        if any(model in view.models for view in soon):
            continue
        why = _why_for(look, model, able, asked)
        if why:
            found[able[0].id] = why
    return found


def _for_the_floor(
    look: _Look, free: list[WorkerView], waking: int, starting: int
) -> dict[str, str]:
    """Return who is called to have enough ready; a sleeper is sooner there than who starts."""
    ready = len(look.ready)
    why = f"{ready} of {look.goal} workers are ready"
    found: dict[str, str] = {}
    for view in free:
        is_asleep = look.pool.resting[view.id].wish is Wish.ASLEEP
        if ready + (waking if is_asleep else starting) + len(found) >= look.goal:
            continue
        found[view.id] = why
    return found


def _all_spare(able: list[WorkerView], look: _Look) -> bool:
    return all(look.pool.resting[view.id].wish is not Wish.ASLEEP for view in able)


def _why_for(look: _Look, model: str, able: list[WorkerView], asked: Asked) -> str:
    """Return why one more is needed for a model; empty if none is."""
    ready = look.by_model.get(model, [])
    if not ready:
        if model in asked.demand:
            return f"requests ask for {model}, which no ready worker serves"
        return "" if _all_spare(able, look) else f"no ready worker serves {model}"
    if look.pressure(model) <= 1:
        return ""
    waiting = sum(view.load.waiting or 0.0 for view in ready)
    usage = sum(view.load.kv_usage_ratio or 0.0 for view in ready) / len(ready)
    full = f"the KV cache is {usage:.0%} full"
    return f"{waiting:.0f} requests wait and {full} on the {len(ready)} ready workers of {model}"


def _to_rest(look: _Look) -> tuple[WorkerView, Rest] | None:
    """Return who may rest now: the longest idle one, spares before sleepers."""
    spare_places = len(look.ready) - look.goal
    is_leaving = any(
        view.id in look.pool.resting
        and view.phase not in _RESTS_IN
        and not look.fact(view).is_taken
        for view in look.views
    )
    if spare_places <= 0 or is_leaving:
        return None
    found = [
        (view, wish)
        for view in look.ready
        if (wish := _rest_of(view, look)) is not None and _carry(look, view.models)
    ]
    if not found:
        return None
    view, wish = min(found, key=lambda it: (it[1] is Wish.ASLEEP, look.fact(it[0]).idle_since))
    idle = look.now - (look.fact(view).idle_since or look.now)
    others = len(look.ready) - 1
    return view, Rest(wish, look.now, f"idle for {idle:.0f} s, {others} others are ready")


def _rest_of(view: WorkerView, look: _Look) -> Wish | None:
    """Return how a ready worker may rest; None if it may not."""
    fact, settings = look.fact(view), look.settings
    if fact.is_taken or fact.is_held or fact.idle_since is None:
        return None
    if look.now - look.pool.called_at.get(view.id, -math.inf) < settings.wake_hold_seconds:
        return None
    idle = look.now - fact.idle_since
    if fact.is_spare:
        return Wish.STOPPED if idle >= settings.wake_hold_seconds else None
    return Wish.ASLEEP if fact.can_sleep and idle >= settings.sleep_after_seconds else None


def _carry(look: _Look, models: tuple[str, ...]) -> bool:
    """Return whether one fewer would carry the load of these models with ease."""
    return all(look.can_spare_one(model) for model in models)
