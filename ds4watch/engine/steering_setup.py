"""Puts together what acts on workers: who decides, who answers persons, what they go by."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ds4watch.actions.divert import DivertClass
from ds4watch.actions.runner import Handler, Runner
from ds4watch.actions.set_level import SetLevel
from ds4watch.actions.workers import ExcludeWorker, OnWorker
from ds4watch.cost.prices import price_at
from ds4watch.engine.blueprint import Blueprint
from ds4watch.engine.installed import TRIAL_SECONDS, installed_at, trial_told
from ds4watch.engine.orders import Orders
from ds4watch.engine.parts import Known
from ds4watch.engine.policy_wishes import PolicyWishes
from ds4watch.engine.pulse import Pulse
from ds4watch.engine.replica import WhileLeading
from ds4watch.engine.restart import Stores
from ds4watch.engine.steering import Steering
from ds4watch.engine.turn import Turn
from ds4watch.fleet.board import BoardPublisher
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.history.state import StateStore
from ds4watch.model.action import ActionKind, ActionPlan, ActionStatus, Hold
from ds4watch.model.errors import WorkerError
from ds4watch.model.money import nanos_from_decimal
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.policy.standing import Bounds, Standing
from ds4watch.telemetry.metrics import ProcessMetrics

log = logging.getLogger(__name__)

_UNFINISHED = (ActionStatus.PLANNED, ActionStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class Acting:
    """What acts: carries out, answers persons, decides on workers, and sees how all stands."""

    runner: Runner
    orders: Orders
    steering: Steering
    look: Look


async def open_acting(
    blueprint: Blueprint,
    stores: Stores,
    board: BoardPublisher,
    supervisor: Supervisor,
    *,
    metrics: ProcessMetrics,
    clock: Clock,
    turn: Turn,
    wake: Callable[[], None],
) -> Acting:
    """Return what acts, with what an earlier daemon left half done looked at.

    On standby nothing is looked at, and what is restored is what a leader has stored.
    """
    state, policy = stores.state, blueprint.policy
    wanted = PolicyWishes(supervisor)
    lease_seconds = blueprint.settings.gateway.lease_seconds
    kinds = handlers(board, wanted, clock, lease_seconds=lease_seconds, may_act=turn.may_act)
    runner = Runner(state, kinds, metrics=metrics, clock=clock)
    look = Look(blueprint, supervisor, board, await _began_at(state, clock.now(), leads=turn.leads))
    orders = Orders(policy, state, runner, look.held, wake=wake, clock=clock)
    steers = Steering(policy, state, orders, wanted, Pulse(stores.live), look)
    if turn.leads:
        left = [it.plan for it in stores.restored.actions if it.status in _UNFINISHED]
        wanted.note_started(await _started(left, blueprint.specs, supervisor))
        await runner.recover(left)
        await steers.restore(clock.now())
    return Acting(runner, orders, steers, look)


async def _started(
    left: Sequence[ActionPlan], specs: Sequence[WorkerSpec], supervisor: Supervisor
) -> dict[str, UnixSeconds | None]:
    """Return since when each worker runs that an earlier daemon was about to start anew."""
    names = {it.target for it in left if it.kind is ActionKind.RESTART_WORKER}
    found: dict[str, UnixSeconds | None] = {}
    for spec in specs:
        if spec.id not in names or spec.url is not None:
            continue
        try:
            found[spec.id] = await supervisor.started_at(spec)
        except WorkerError as error:
            log.warning("%s: it is not known whether it was started anew: %s", spec.id, error)
    return found


async def _began_at(state: StateStore, now: UnixSeconds, *, leads: bool) -> UnixSeconds:
    story_began_at = await state.began_at()
    if not leads:
        return story_began_at or now
    began_at = await installed_at(state, now, story_began_at)
    if trial := trial_told(began_at, now):
        log.info("%s", trial)
    return began_at


def handlers(
    board: BoardPublisher,
    wishes: PolicyWishes,
    clock: Clock,
    *,
    lease_seconds: float,
    may_act: Callable[[], bool],
) -> dict[ActionKind, Handler]:
    """Return who carries out each kind of action, while this daemon leads."""
    on_worker = OnWorker(wishes, clock)
    found: dict[ActionKind, Handler] = {
        ActionKind.SET_LEVEL: SetLevel(board, clock, lease_seconds=lease_seconds),
        ActionKind.RESTART_WORKER: on_worker,
        ActionKind.DRAIN_WORKER: on_worker,
        ActionKind.WAKE_WORKER: on_worker,
        ActionKind.EXCLUDE_WORKER: ExcludeWorker(board, clock),
        ActionKind.DIVERT_CLASS: DivertClass(board, clock),
    }
    return {kind: WhileLeading(handler, may_act) for kind, handler in found.items()}


class Look:
    """Says how everything stands, but for past actions."""

    def __init__(
        self,
        blueprint: Blueprint,
        supervisor: Supervisor,
        board: BoardPublisher,
        installed_at: UnixSeconds,
    ) -> None:
        self._blueprint = blueprint
        self._supervisor = supervisor
        self._board = board
        self.installed_at = installed_at
        self.known = Known()

    def __call__(self, now: UnixSeconds) -> Standing:
        """Return how it stands."""
        workers, policy = self._supervisor.views(), self._board.policy()
        limits = ((it.id, self._supervisor.limits_of(it.id)) for it in workers)
        return Standing(
            at=now,
            workers=workers,
            foreign=frozenset(name for name, it in limits if it.is_foreign),
            excluded=frozenset(policy.excluded_workers),
            diverted=frozenset((it.model, it.work_class) for it in policy.diversions),
            holds=self.known.holds,
            bounds=self._bounds(now),
            trial_until=self.installed_at + TRIAL_SECONDS,
            is_dry=self._blueprint.policy.dry_run,
        )

    def held(self, holds: tuple[Hold, ...]) -> None:
        """Take over the holds in force."""
        self.known.holds = holds

    def _bounds(self, now: UnixSeconds) -> Bounds:
        settings, prices = self._blueprint.settings, self._blueprint.prices
        own = settings.provisioning
        budget = own.budget_per_hour
        profiles = {spec.profile.name for spec in self._blueprint.specs}
        return Bounds(
            min_hot=settings.fleet.min_hot,
            max_workers=own.max_workers,
            budget=None if budget is None else nanos_from_decimal(budget),
            prices={name: price_at(prices, name, now) for name in profiles},
        )
