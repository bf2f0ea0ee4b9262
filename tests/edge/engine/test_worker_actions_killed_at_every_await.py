"""Actions on workers, killed at every await: done once, taken back once, none forgotten.

What does not die with a daemon is the world: the workers as they are, and the policy that the
gateways obey. A worker obeys a wish once the tick is over.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ds4watch.actions.runner import Runner
from ds4watch.engine.command_run import CommandRun
from ds4watch.engine.orders import Orders
from ds4watch.engine.parts import Known
from ds4watch.engine.policy_wishes import PolicyWishes
from ds4watch.engine.pulse import Pulse
from ds4watch.engine.silence_desk import SilenceDesk
from ds4watch.engine.steering import Steering
from ds4watch.engine.steering_setup import handlers
from ds4watch.fleet.wish import By, Wanted, Wish
from ds4watch.history.database import Database
from ds4watch.history.rows import TickCommit
from ds4watch.history.state import StateStore
from ds4watch.model.action import ActionKind, ActionPlan, ActionStatus
from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.model.series import Labels, labels_of
from ds4watch.model.service_policy import Diversion, ServicePolicy
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.policy.explain import Ladder
from ds4watch.policy.ladder import LadderState
from ds4watch.policy.policyfile import load_policy
from ds4watch.policy.standing import Standing
from ds4watch.telemetry.metrics import Telemetry
from tests.edge.engine.mortal import live

pytestmark = pytest.mark.timeout(300)

READY, ASLEEP, DRAINING = WorkerPhase.READY, WorkerPhase.ASLEEP, WorkerPhase.DRAINING
TICKS, FIRES = 24, range(3, 14)
LATER_SECONDS = (30, 60, 90, 120)
"""What failed to be taken back is tried again after a minute."""
BEGAN_AT = 1_800_000_000.0
POLICY = """\
pools:
  default: {{max_in_flight: 2}}
actions:
  deed:
    kind: {kind}
    cooldown_seconds: 5
    action_cooldown_seconds: 0
    undo_after_seconds: 3
    verify: {{within_seconds: 2}}
bindings:
  - {{match: {{alertname: Odd}}, action: deed}}
"""
LABELS = {
    "alertname": "Odd", "severity": "critical", "worker": "a",
    "profile": "p", "reference": "r", "class": "mathematics",
}  # fmt: skip


class Deaths(NamedTuple):
    """At which steps a daemon dies, each in a life of its own: at `first` and every further."""

    first: int
    stride: int


@dataclass
class World:
    """Workers, gateways and the time."""

    folder: Path
    kind: ActionKind
    command: bool = False
    at_once: bool = False
    """A worker obeys at once, not when the tick is over: the effect comes before its row."""
    at: float = BEGAN_AT
    views: dict[str, WorkerView] = field(default_factory=dict)
    wishes: Mapping[str, Wanted] = field(default_factory=dict)
    obeyed: list[ServicePolicy] = field(default_factory=lambda: [ServicePolicy()])
    history: list[str] = field(default_factory=list)
    """What became of worker `a`, change by change."""
    opened: list[Database] = field(default_factory=list)

    def __post_init__(self) -> None:
        phase = ASLEEP if self.kind is ActionKind.WAKE_WORKER else READY
        rest = {"b": "p", "c": "r", "d": "r"}
        self.views = {"a": _view("a", "p", phase)}
        self.views |= {name: _view(name, profile, READY) for name, profile in rest.items()}

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def newest(self, _name: str) -> list[tuple[Labels, float]]:
        return []

    async def wish(self, by: By, wanted: Mapping[str, Wanted]) -> None:
        assert by is By.POLICY
        self.wishes = wanted
        if self.at_once:
            await asyncio.sleep(0)
            self.obey()
            await asyncio.sleep(0)

    def started(self) -> dict[str, float | None]:
        """Return since when processes run; the one of a worker that was restarted, since then."""
        return {name: it.since for name, it in self.views.items()}

    def policy(self) -> ServicePolicy:
        return self.obeyed[-1]

    async def publish_policy(self, policy: ServicePolicy, *, timeout_seconds: float) -> bool:
        assert timeout_seconds > 0
        await asyncio.sleep(0)
        self.obeyed.append(policy)
        await asyncio.sleep(0)
        return True

    def alerts(self) -> list[AlertState]:
        if self.command or self.at - BEGAN_AT not in FIRES:
            return []
        fired_at = BEGAN_AT + FIRES.start
        firing = AlertState("r", labels_of(LABELS), AlertPhase.FIRING, fired_at, 1.0)
        return [replace(firing, fired_at=fired_at)]

    def obey(self) -> None:
        view, wanted = self.views["a"], self.wishes.get("a", Wanted())
        rests = self.kind is ActionKind.WAKE_WORKER
        phase = {Wish.DRAINED: DRAINING, Wish.READY: READY}.get(
            wanted.wish or Wish.STOPPED, ASLEEP if rests else READY
        )
        if wanted.restart_at > view.since:
            self.history.append("restarted")
        elif phase is not view.phase:
            self.history.append(str(phase))
        else:
            return
        self.views["a"] = replace(view, phase=phase, since=self.at + 0.5)

    def look(self, now: float) -> Standing:
        policy = self.policy()
        return Standing(
            now,
            tuple(self.views.values()),
            excluded=frozenset(policy.excluded_workers),
            diverted=frozenset((it.model, it.work_class) for it in policy.diversions),
        )


def _view(name: str, profile: str, phase: WorkerPhase) -> WorkerView:
    return WorkerView(name, profile, (f"model-{profile}",), f"http://{name}", phase, since=0.0)


class Log:
    """The rows, with a sign once none is to be done."""

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self.idle = asyncio.Event()

    async def claim_action(self, at: float) -> ActionPlan | None:
        plan = await self._state.claim_action(at)
        if plan is None:
            self.idle.set()
        return plan

    async def finish_action(self, outcome: Any, *, policy: Any = None) -> bool:
        return await self._state.finish_action(outcome, policy=policy)


async def episode(world: World) -> None:
    """Be a daemon until the script is over."""
    world.wishes = {}
    world.opened.clear()
    state = StateStore.open(world.folder / "state.db", world)
    world.opened.append(state._database._database)
    policy = load_policy(POLICY.format(kind=world.kind), "policy.yml")
    restored, log = await state.load(world.at), Log(state)
    wishes = PolicyWishes(world)
    kinds = handlers(world, wishes, world, lease_seconds=600.0, may_act=lambda: True)  # type: ignore[arg-type]
    runner = Runner(log, kinds, metrics=Telemetry().process, clock=world)
    asked = asyncio.Event()
    orders = Orders(policy, state, runner, lambda _: None, wake=asked.set, clock=world)
    steering = Steering(policy, state, orders, wishes, Pulse(world), world.look)
    unfinished = (ActionStatus.PLANNED, ActionStatus.RUNNING)
    wishes.note_started(world.started())
    await runner.recover(it.plan for it in restored.actions if it.status in unfinished)
    await steering.restore(world.at)
    desk = SilenceDesk(state.desk, Known(), world)
    commands = CommandRun(state, desk, wake=lambda: None, clock=world, carry=orders.carry())
    tasks = [asyncio.create_task(runner.run())]
    for at in [BEGAN_AT + it for it in (*range(1, TICKS + 1), *LATER_SECONDS)]:
        if at <= world.at:
            continue
        world.at = at
        carried = await _carry(commands, asked) if world.command else None
        await _tick(world, state, steering, runner, log)
        if carried is not None:
            await carried
        world.obey()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await state.close()


async def _carry(commands: CommandRun, asked: asyncio.Event) -> asyncio.Task[None]:
    """Begin to carry out what waits; return once it is done, or waits for the tick."""
    asked.clear()
    task = asyncio.create_task(commands.carry_out())
    sign = asyncio.create_task(asked.wait())
    await asyncio.wait([task, sign], return_when=asyncio.FIRST_COMPLETED)
    sign.cancel()
    return task


async def _tick(
    world: World, state: StateStore, steering: Steering, runner: Runner, log: Log
) -> None:
    ladders = {"default": Ladder(LadderState("default"))}
    steered = await steering.step(world.alerts(), ladders, 0, world.at)
    committed = await state.commit_tick(
        TickCommit(
            at=world.at,
            alerts=(),
            transitions=(),
            plans=steered.plans,
            claims=runner.is_free,
            refusals=steered.refusals,
            spools=(),
            costs=(),
            workers=(),
        )
    )
    fresh = [it for it in steered.plans if it.id not in committed.duplicate_plans]
    if fresh:
        log.idle.clear()
        runner.submit(fresh, committed.claimed_plans)
        await log.idle.wait()
    await steering.settle(steered, fresh, 0, world.at)


async def prepare(world: World) -> None:
    state = StateStore.open(world.folder / "state.db", world)
    if world.command:
        body = {"name": world.kind.value, "target": "a", "why": "a test"}
        await state.desk.ask(kind="act", body=body, who="ann", at=world.at)
    await state.close()


def through_deaths(
    kind: ActionKind, folder: Path, deaths: Deaths, *, command: bool, at_once: bool = False
) -> list[World]:
    """Return how the world stands after each of the deaths and the life that came after."""
    found: list[World] = []
    empty = World(folder / "empty", kind, command, at_once)
    empty.folder.mkdir()
    asyncio.run(prepare(empty))
    is_whole = False
    while not is_whole:
        copy = shutil.copytree(empty.folder, folder / str(len(found)))
        world = World(copy, kind, command, at_once)
        killed_at = deaths.first + len(found) * deaths.stride
        is_whole = live(lambda it=world: episode(it), killed_at, world.opened)  # type: ignore[misc]
        assert live(lambda it=world: episode(it), None, world.opened)  # type: ignore[misc]
        found.append(world)
    assert len(found) > 5
    return found


def excluded(world: World) -> list[tuple[str, ...]]:
    return [it.excluded_workers for it in world.obeyed[1:]]


def every_death(sample: int) -> list[Any]:
    """Return which deaths are tried: each `sample`-th, and in the slow tests all, in three parts.

    Each part is bounded in time; on a busy machine all at once would be over it.
    """
    thirds = [Deaths(first, 3) for first in range(3)]
    return [
        pytest.param(Deaths(0, sample), id=f"each {sample}th"),
        *(pytest.param(it, id=f"third {it.first}", marks=pytest.mark.slow) for it in thirds),
    ]


DEATHS = every_death(23)


@pytest.mark.parametrize("deaths", DEATHS)
def test_a_worker_is_passed_over_once_and_let_in_again(tmp_path: Path, deaths: Deaths) -> None:
    for world in through_deaths(ActionKind.EXCLUDE_WORKER, tmp_path, deaths, command=False):
        assert excluded(world) == [("a",), ()]


@pytest.mark.parametrize("deaths", DEATHS)
@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (ActionKind.RESTART_WORKER, ["restarted"]),
        (ActionKind.DRAIN_WORKER, ["draining", "ready"]),
        (ActionKind.WAKE_WORKER, ["ready", "asleep"]),
    ],
)
def test_a_worker_is_restarted_drained_or_called_once(
    tmp_path: Path, deaths: Deaths, kind: ActionKind, wanted: list[str]
) -> None:
    for world in through_deaths(kind, tmp_path, deaths, command=False):
        assert world.history == wanted


@pytest.mark.parametrize("deaths", every_death(7))
def test_a_restart_whose_row_was_never_finished_is_not_made_again(
    tmp_path: Path, deaths: Deaths
) -> None:
    """The alert outlasts the cooldown: only the effect says that it was done."""
    restart = ActionKind.RESTART_WORKER
    for world in through_deaths(restart, tmp_path, deaths, command=False, at_once=True):
        assert world.history == ["restarted"]


@pytest.mark.parametrize("deaths", DEATHS)
def test_a_class_is_diverted_once_and_stays_so(tmp_path: Path, deaths: Deaths) -> None:
    for world in through_deaths(ActionKind.DIVERT_CLASS, tmp_path, deaths, command=False):
        (policy,) = world.obeyed[1:]
        assert policy.diversions == (Diversion("model-p", "mathematics", "model-r"),)


@pytest.mark.parametrize("deaths", DEATHS)
def test_what_a_person_asks_for_is_done_once_or_said_not_to_be(
    tmp_path: Path, deaths: Deaths
) -> None:
    given_up = 0
    tried = through_deaths(ActionKind.EXCLUDE_WORKER, tmp_path, deaths, command=True)
    for world in tried:
        status, told = asyncio.run(_outcome(world))
        if status == "refused":
            given_up += 1
            assert "the daemon was gone before it was done" in told
        assert excluded(world) == ([] if status == "refused" else [("a",)])
    assert given_up < len(tried)


async def _outcome(world: World) -> tuple[str, str]:
    state = StateStore.open(world.folder / "state.db", world)
    (command,) = [await state.desk.command(1)]
    await state.close()
    assert command is not None
    return command.status.value, command.told
