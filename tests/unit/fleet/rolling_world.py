"""A fleet in a few lines that does what a rolling change says, for walks through the planner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ds4watch.fleet.rolling import (
    ENDED,
    Aim,
    Change,
    Do,
    Rules,
    Stage,
    Standing,
    Status,
    Step,
    World,
    aims,
    peers,
    taken,
)
from ds4watch.fleet.rolling_plan import Kind, Slot, moves
from ds4watch.fleet.rolling_steps import next_step
from ds4watch.fleet.rolling_watch import Answered, Evidence, baseline, tally
from ds4watch.model.worker import WorkerPhase

RULES = Rules(min_hot=2, settle_seconds=1, watch_seconds=3, watch_max_seconds=20, min_requests=10)
START_SECONDS = 3.0
COMING = (WorkerPhase.STARTING, WorkerPhase.LOADING, WorkerPhase.WARMING)


def slot(worker: str, revision: str, *models: str) -> Slot:
    profile = worker.removesuffix("-surge").rpartition("-")[0] if "-" in worker else worker
    return Slot(worker, profile or worker, revision, models or ("m",))


def fleet(count: int, revision: str, profile: str = "a") -> tuple[Slot, ...]:
    return tuple(slot(f"{profile}-{number}", revision) for number in range(count))


def change_of(before: Sequence[Slot], after: Sequence[Slot], *, surge: int = 1) -> Change:
    return Change(
        id="c",
        begun_at=0.0,
        before=tuple(before),
        after=tuple(after),
        moves=moves(before, after, surge=surge),
    )


@dataclass(slots=True)
class Process:
    """A worker of the simulated fleet."""

    slot: Slot
    phase: WorkerPhase
    started_at: float
    since: float


@dataclass(slots=True)
class Fleet:
    """Workers that come up, fail and go as their versions do; a step is one second."""

    change: Change
    rules: Rules = RULES
    starts: Callable[[Slot], bool] = lambda _: True
    """Whether a process of it becomes ready, when it is tried."""
    fails: Callable[[Slot], float] = lambda _: 0.0
    """The share of its requests that fail."""
    held: str = ""
    now: float = 100.0
    workers: dict[str, Process] = field(default_factory=dict)
    fewest_ready: int = 1_000
    most: int = 0
    steps: list[Step] = field(default_factory=list)
    served_since: float = 100.0

    def __post_init__(self) -> None:
        self.workers = {
            it.worker: Process(it, WorkerPhase.READY, 0.0, 0.0) for it in self.change.before
        }

    def run(self, seconds: int = 2_000) -> Change:
        """Go on until the change has ended."""
        for _ in range(seconds):
            if self.change.status in ENDED:
                break
            self.step()
        return self.change

    def step(self) -> Step:
        self.now += 1.0
        for name in list(self.workers):
            self._live(name)
        step = next_step(self.change, self.world(), self.rules, self.now)
        if step.do is not Do.WAIT:
            self.steps.append(step)
        self.change = taken(self.change, step, self.now)
        for name, aim in aims(self.change, self.rules).items():
            self._follow(name, aim)
        ready = [it for it in self.workers.values() if it.phase is WorkerPhase.READY]
        self.fewest_ready = min(self.fewest_ready, len(ready))
        self.most = max(self.most, len(self.workers))
        return step

    def world(self) -> World:
        return World(
            {
                name: Standing(it.phase, it.slot.revision, "-", patience_seconds=30)
                for name, it in self.workers.items()
            },
            held=self.held,
            evidence=self._evidence(),
        )

    def revisions(self) -> dict[str, str]:
        return {name: it.slot.revision for name, it in sorted(self.workers.items())}

    def phases(self) -> set[WorkerPhase]:
        return {it.phase for it in self.workers.values()}

    def _evidence(self) -> Evidence | None:
        if self.change.stage is not Stage.WATCHING or self.change.at >= len(self.change.moves):
            return None
        new, _ = peers(self.change)
        count = int(5 * (self.now - self.change.since))
        share = max(
            (self.fails(self.workers[it].slot) for it in new if it in self.workers), default=0
        )
        fresh = tally(Answered(0, number >= share * count, 0.1) for number in range(count))
        return Evidence(fresh, baseline(tally([Answered(0, True, 0.1)] * 200)))

    def _live(self, name: str) -> None:
        it = self.workers[name]
        if it.phase is WorkerPhase.DRAINING:
            it.phase, it.since = WorkerPhase.STOPPING, self.now
        elif it.phase is WorkerPhase.STOPPING:
            it.phase = WorkerPhase.ABSENT
        elif it.phase is WorkerPhase.STARTING and self.now - it.since >= START_SECONDS:
            it.phase = WorkerPhase.READY if self.starts(it.slot) else WorkerPhase.FAILED
            it.since = self.now

    def _follow(self, name: str, aim: Aim) -> None:
        it = self.workers.get(name)
        if aim.slot is None:
            self._leave(name, it)
        elif (
            it is None
            or it.phase is WorkerPhase.ABSENT
            or (
                it.phase is WorkerPhase.FAILED
                and (it.started_at < aim.acted_at or self.now - it.since > 5)
            )
        ):
            self._start(name, aim.slot)
        elif it.started_at < aim.acted_at:
            if it.phase is WorkerPhase.READY:
                it.phase = WorkerPhase.DRAINING
            elif it.phase is WorkerPhase.STARTING:
                it.phase = WorkerPhase.STOPPING
        elif it.phase is WorkerPhase.DRAINING:
            it.phase = WorkerPhase.READY

    def _start(self, name: str, what: Slot) -> None:
        self.workers[name] = Process(what, WorkerPhase.STARTING, self.now, self.now)

    def _leave(self, name: str, it: Process | None) -> None:
        if it is None:
            return
        if it.phase in (WorkerPhase.ABSENT, WorkerPhase.FAILED):
            del self.workers[name]
        elif it.phase is WorkerPhase.READY:
            it.phase = WorkerPhase.DRAINING
        elif it.phase in COMING:
            it.phase = WorkerPhase.STOPPING


def kinds(change: Change) -> list[tuple[Kind, str]]:
    return [(move.kind, move.worker) for move in change.moves]


def returned(change: Change) -> bool:
    return change.status is Status.RETURNED


def paused(change: Change, *, to: bool) -> Change:
    return replace(change, paused=to)
