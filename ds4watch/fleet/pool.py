"""What the warm pool goes by and carries on, as values.

Resting is asleep, or stopped for a spare worker. All that the pool wishes is who rests; whoever
does not is left to the settings, which want it ready. So a pool that forgets everything errs on
the warm side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ds4watch.fleet.wish import Wanted, Wish
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import FleetSnapshot, WorkerLoad, WorkerPhase

SPARE = "spare: others are enough"


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """What the pool goes by. sleep_after_seconds: infinite is never.

    wake_waiting: waiting requests for each ready worker of a model.
    """

    min_hot: int = 2
    sleep_after_seconds: float = math.inf
    wake_waiting: float = 4.0
    wake_kv_usage_ratio: float = 0.85
    wake_hold_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What the pool knows of a worker beyond its view.

    is_taken: somebody above the pool decides, or it is leaving the fleet. is_held: a person wants
    it left alone. idle_since: None if it works, or that is not known. warming_until: when our last
    warm-up of it ended, well or not; infinite while it runs, None without one.
    """

    can_sleep: bool = False
    is_spare: bool = False
    is_taken: bool = False
    is_held: bool = False
    idle_since: UnixSeconds | None = None
    warmed_at: UnixSeconds = 0.0
    warm_up_seconds: float | None = None
    warming_until: UnixSeconds | None = None


NO_FACTS = Facts(is_taken=True)


@dataclass(frozen=True, slots=True)
class Rest:
    """Who rests, how, since when, and why."""

    wish: Wish
    since: UnixSeconds
    why: str


@dataclass(frozen=True, slots=True)
class Pool:
    """What the pool carries on: who rests, who was called when, what was told only."""

    resting: Mapping[str, Rest] = field(default_factory=dict)
    called_at: Mapping[str, UnixSeconds] = field(default_factory=dict)
    told: Mapping[str, UnixSeconds] = field(default_factory=dict)
    """Idle since when, by worker, when it was told that it would be put to sleep."""

    def wishes(self) -> dict[str, Wanted]:
        """Return what the pool wishes."""
        return {name: Wanted(rest.wish, why=rest.why) for name, rest in self.resting.items()}


@dataclass(frozen=True, slots=True)
class Change:
    """A decision. is_trial: it is told and not done."""

    worker: str
    wish: Wish
    why: str
    is_trial: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What calls workers back beside load: models that requests found nobody for."""

    demand: frozenset[str] = frozenset()
    is_trial: bool = False
    """Nobody is put to sleep; that it would be is told."""


NOTHING_ASKED = Asked()


def begun(before: FleetSnapshot, facts: Mapping[str, Facts], now: UnixSeconds) -> Pool:
    """Return the pool of a daemon that starts: who slept sleeps on, spares that ran run on."""
    phases = {view.id: view.phase for view in before.workers}
    resting = {
        name: Rest(Wish.ASLEEP, now, "it slept before")
        for name, fact in facts.items()
        if phases.get(name) is WorkerPhase.ASLEEP and fact.can_sleep and not fact.is_taken
    }
    spares = [name for name, fact in facts.items() if fact.is_spare and name not in resting]
    idle = {
        name: Rest(Wish.STOPPED, now, SPARE)
        for name in spares
        if phases.get(name, WorkerPhase.ABSENT) is WorkerPhase.ABSENT
    }
    return Pool(resting | idle, {name: now for name in spares if name not in idle})


def goal(fleet: FleetSnapshot, settings: PoolSettings) -> int:
    """Return how many are to be ready at all times: no more than there are."""
    return min(settings.min_hot, len(fleet.workers))


def hot(fleet: FleetSnapshot) -> int:
    """Return how many are ready."""
    return sum(view.phase is WorkerPhase.READY for view in fleet.workers)


def idle_since(
    before: UnixSeconds | None, load: WorkerLoad, now: UnixSeconds, *, moved: bool, is_own: bool
) -> UnixSeconds | None:
    """Return since when a worker has nothing to do; None if it has, or if that is not known.

    moved: a counter did. is_own: what is seen may be a canary or warm-up of ours.
    """
    counts = (load.running, load.waiting)
    works = moved or any(count is not None and count > 0 for count in counts)
    if load.running is None or (works and not is_own):
        return None
    return now if before is None else before


def to_rewarm(
    fleet: FleetSnapshot, facts: Mapping[str, Facts], after_seconds: float, now: UnixSeconds
) -> str | None:
    """Return the ready worker to warm up again, if all is quiet: the longest not warmed up.

    None of somebody above the pool, and none that did anything within `after_seconds`.
    """
    ready = [view for view in fleet.workers if view.phase is WorkerPhase.READY]
    known = [(facts.get(view.id, NO_FACTS), view.id) for view in ready]
    if any(fact.idle_since is None for fact, _ in known):
        return None
    due = [
        (fact.warmed_at, name)
        for fact, name in known
        if not fact.is_taken
        and not fact.is_held
        and fact.warmed_at > 0
        and now - max(fact.idle_since or 0.0, fact.warmed_at) >= after_seconds
    ]
    return min(due)[1] if due else None
