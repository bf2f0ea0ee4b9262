"""What guards go by: the fleet, what was done before, holds, bounds. Plain values, no clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ds4watch.model.action import ActionKind, ActionPlan, ActionStatus, Hold
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.policy.policyfile import Pool

_UNDER_WAY = (ActionStatus.WAITING, ActionStatus.PLANNED, ActionStatus.RUNNING)
_DONE_PERHAPS = (ActionStatus.APPLIED, ActionStatus.UNKNOWN)
SINGLE = (ActionKind.RESTART_WORKER, ActionKind.DRAIN_WORKER, ActionKind.EXCLUDE_WORKER)
"""What takes a single worker away."""
PAID = (
    WorkerPhase.STARTING,
    WorkerPhase.LOADING,
    WorkerPhase.WARMING,
    WorkerPhase.READY,
    WorkerPhase.DRAINING,
    WorkerPhase.STOPPING,
)


@dataclass(frozen=True, slots=True)
class Past:
    """An action of before. `verify_by`: its effect is looked at by then; None: not at all."""

    plan: ActionPlan
    status: ActionStatus
    finished_at: UnixSeconds | None = None
    verify_by: UnixSeconds | None = None
    verified_at: UnixSeconds | None = None
    helped: bool | None = None

    @property
    def action(self) -> str:
        """Its name in the policy."""
        return str(self.plan.parameters.get("action", ""))

    @property
    def pool(self) -> str:
        """Its pool."""
        return self.plan.pool or self.plan.target

    @property
    def is_under_way(self) -> bool:
        """Whether it is not over, or waits for a person."""
        return self.status in _UNDER_WAY

    @property
    def is_in_force(self) -> bool:
        """Whether it was done, or may have been, and was not taken back."""
        return self.status in _DONE_PERHAPS and self.plan.undoes is None

    @property
    def is_to_verify(self) -> bool:
        """Whether its effect has not been told yet."""
        is_awaited = self.verify_by is not None and self.verified_at is None
        return self.status in _DONE_PERHAPS and is_awaited

    @property
    def is_in_flight(self) -> bool:
        """Whether it counts against the pool's `max_in_flight`."""
        return self.is_under_way or self.is_to_verify

    @property
    def counts(self) -> bool:
        """Whether a cooldown runs from it: it was begun or is about to be, and is no undoing."""
        done = (*_UNDER_WAY, *_DONE_PERHAPS, ActionStatus.UNDONE, ActionStatus.FAILED)
        return self.status in done and self.plan.undoes is None


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is never gone over or under. `budget`: the fleet's an hour."""

    min_hot: int = 0
    max_workers: int | None = None
    budget: Nanos | None = None
    prices: Mapping[str, Nanos] = field(default_factory=dict)
    """By profile, an hour."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How everything stands at one instant.

    foreign: workers that somebody else runs (adopted ones). excluded: those that gateways pass
    over. diverted: models with the class of work that they do not get. trial_until: until then
    scaling and adopted workers are only told about.
    """

    at: UnixSeconds
    workers: tuple[WorkerView, ...] = ()
    foreign: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    diverted: frozenset[tuple[str, str]] = frozenset()
    past: tuple[Past, ...] = ()
    holds: tuple[Hold, ...] = ()
    bounds: Bounds = Bounds()
    trial_until: UnixSeconds = 0.0
    is_dry: bool = False

    known: Summary = field(init=False, compare=False, repr=False)
    """What guards look up, gathered once."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "known", Summary.of(self))

    def worker(self, name: str) -> WorkerView | None:
        """Return a worker by its id."""
        return self.known.workers.get(name)

    def of_pool(self, pool: Pool) -> tuple[WorkerView, ...]:
        """Return the workers of a pool."""
        if not pool.profiles:
            return self.workers
        return tuple(it for it in self.workers if it.profile in pool.profiles)

    def spent(self) -> Nanos:
        """Return what the workers that are on cost an hour."""
        return self.known.spent


@dataclass(frozen=True, slots=True)
class Summary:
    """What guards ask of a standing, so that each of many alerts is looked at in the same time.

    serving: workers that get requests and that nothing is about to take away. on: how many workers
    cost money, which is `spent` an hour. flying: by pool, what counts as under way. last: when an
    action was last begun, by name and worker, and by name alone ("").
    """

    workers: Mapping[str, WorkerView]
    serving: frozenset[str]
    on: int
    spent: Nanos
    flying: Mapping[str, Sequence[Past]]
    last: Mapping[tuple[str, str], UnixSeconds]

    @classmethod
    def of(cls, it: Standing) -> Summary:
        """Gather it."""
        on = [view for view in it.workers if view.phase in PAID]
        return cls(
            workers={view.id: view for view in it.workers},
            serving=_serving(it),
            on=len(on),
            spent=sum(it.bounds.prices.get(view.profile, 0) for view in on),
            flying=_flying(it.past),
            last=_last(it.past),
        )


def _serving(it: Standing) -> frozenset[str]:
    leaving = {
        one.plan.target
        for one in it.past
        if one.is_under_way and one.plan.undoes is None and one.plan.kind in SINGLE
    }
    serving = {view.id for view in it.workers if view.phase is WorkerPhase.READY}
    return frozenset(serving - it.excluded - leaving)


def _flying(past: Sequence[Past]) -> dict[str, list[Past]]:
    found: dict[str, list[Past]] = {}
    for it in past:
        if it.plan.is_on_worker and it.is_in_flight:
            found.setdefault(it.pool, []).append(it)
    return found


def _last(past: Sequence[Past]) -> dict[tuple[str, str], UnixSeconds]:
    found: dict[tuple[str, str], UnixSeconds] = {}
    for it in past:
        if it.counts:
            for key in ((it.action, it.plan.target), (it.action, "")):
                found[key] = max(found.get(key, 0.0), it.plan.planned_at)
    return found
