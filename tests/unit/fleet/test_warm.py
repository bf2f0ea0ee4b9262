"""The warm pool's decisions: as a table, and as random lives of a fleet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4watch.fleet.pool import (
    Asked,
    Facts,
    Pool,
    PoolSettings,
    Rest,
    begun,
    idle_since,
    to_rewarm,
)
from ds4watch.fleet.warm import plan
from ds4watch.fleet.wish import Wish
from ds4watch.model.worker import FleetSnapshot, WorkerLoad, WorkerPhase, WorkerView

READY, ASLEEP, ABSENT = WorkerPhase.READY, WorkerPhase.ASLEEP, WorkerPhase.ABSENT
FAILED, LOADING, WARMING = WorkerPhase.FAILED, WorkerPhase.LOADING, WorkerPhase.WARMING
DRAINING = WorkerPhase.DRAINING
IDLE = WorkerLoad(0, 0, 0.0)
NOW = 10_000.0
LONG_IDLE = Facts(can_sleep=True, idle_since=NOW - 5000)
GO_BY = PoolSettings(min_hot=2, sleep_after_seconds=600, wake_hold_seconds=300)
SLEEPS = Rest(Wish.ASLEEP, NOW - 1000, "idle")
IS_SPARE = Rest(Wish.STOPPED, NOW - 1000, "spare")


def view(
    name: str,
    phase: WorkerPhase = READY,
    *,
    load: WorkerLoad = IDLE,
    models: tuple[str, ...] = ("m",),
) -> WorkerView:
    return WorkerView(name, "p", models, "http://127.0.0.1:1", phase, 0.0, load=load)


def fleet(*views: WorkerView) -> FleetSnapshot:
    return FleetSnapshot(NOW, views)


def facts(views: Iterable[WorkerView], **special: Facts) -> dict[str, Facts]:
    return {it.id: special.get(it.id, LONG_IDLE) for it in views}


def decided(
    *views: WorkerView,
    pool: Pool | None = None,
    go_by: PoolSettings = GO_BY,
    asked: Asked | None = None,
    **special: Facts,
) -> list[tuple[str, str]]:
    _, changes = plan(
        fleet(*views), facts(views, **special), pool or Pool(), go_by, NOW, asked or Asked()
    )
    return [(it.worker, it.wish.value) for it in changes]


def test_the_longest_idle_of_the_surplus_is_put_to_sleep() -> None:
    longest = replace(LONG_IDLE, idle_since=NOW - 9000)
    assert decided(view("a"), view("b"), view("c"), b=longest) == [("b", "asleep")]


def test_by_default_nobody_is_put_to_sleep() -> None:
    assert decided(view("a"), view("b"), view("c"), go_by=PoolSettings()) == []


@pytest.mark.parametrize(
    ("special", "why_not"),
    [
        (Facts(can_sleep=True, idle_since=NOW - 599), "idle for too short a time"),
        (Facts(can_sleep=True, idle_since=None), "it works, or its load is not known"),
        (Facts(idle_since=0.0), "it has no sleep mode and is kept loaded"),
        (replace(LONG_IDLE, is_taken=True), "a person decides"),
        (replace(LONG_IDLE, is_held=True), "a person holds it"),
    ],
)
def test_who_may_not_sleep_is_left_ready(special: Facts, why_not: str) -> None:
    views = [view("a"), view("b"), view("c")]
    busy = Facts(can_sleep=True)
    assert decided(*views, a=special, b=busy, c=busy) == [], why_not


def test_with_no_more_ready_than_min_hot_nobody_sleeps() -> None:
    assert decided(view("a"), view("b")) == []
    assert decided(view("a"), view("b"), view("c", LOADING)) == []


def test_the_last_of_a_model_never_sleeps() -> None:
    views = [view("a"), view("b"), view("c", models=("other",))]
    only = Facts(can_sleep=True)
    assert decided(*views, a=only, b=only) == []


def test_one_at_a_time_goes_to_sleep() -> None:
    views = [view("a"), view("b"), view("c"), view("d", DRAINING)]
    pool = Pool(resting={"d": SLEEPS})
    assert decided(*views, pool=pool) == []


def test_nobody_sleeps_where_the_others_would_be_half_way_to_the_bound() -> None:
    busy = WorkerLoad(8, 2, 0.4)
    views = [view("a", load=busy), view("b", load=busy), view("c")]
    works = Facts(can_sleep=True)
    assert decided(*views, a=works, b=works) == [("c", "asleep")]
    views[0] = view("a", load=WorkerLoad(8, 3, 0.4))
    assert decided(*views, a=works, b=works) == []


def test_nobody_sleeps_on_a_load_that_is_not_known() -> None:
    views = [view("a", load=WorkerLoad()), view("b"), view("c")]
    assert decided(*views, a=Facts(can_sleep=True)) == []


def test_in_the_trial_it_is_told_once_that_somebody_would_sleep() -> None:
    views = [view("a"), view("b"), view("c")]
    asked = Asked(is_trial=True)
    pool, changes = plan(fleet(*views), facts(views), Pool(), GO_BY, NOW, asked)
    assert [(it.worker, it.is_trial) for it in changes] == [("a", True)]
    assert pool.wishes() == {}
    assert plan(fleet(*views), facts(views), pool, GO_BY, NOW + 1, asked)[1] == ()


def test_who_would_not_sleep_is_counted_as_ready_again() -> None:
    views = [view("a"), view("b"), view("c")]
    pool, _ = plan(
        fleet(*views), facts(views), Pool(resting={"c": SLEEPS}), PoolSettings(), NOW, Asked()
    )
    assert pool.wishes() == {}


@pytest.mark.parametrize(
    ("views", "called"),
    [
        ([view("a"), view("s", ASLEEP), view("x", ABSENT)], ["s"]),
        ([view("a"), view("s", WARMING), view("x", ABSENT)], []),
        ([view("a"), view("b"), view("s", ASLEEP), view("x", ABSENT)], []),
        ([view("a", FAILED), view("s", ASLEEP), view("x", ABSENT)], ["s", "x"]),
        ([view("a", LOADING), view("b"), view("s", ASLEEP), view("x", ABSENT)], ["s"]),
        ([view("a", LOADING), view("b"), view("x", ABSENT)], []),
        ([view("a", FAILED), view("b"), view("x", ABSENT)], ["x"]),
    ],
)
def test_sleepers_are_woken_first_then_spares_started(
    views: list[WorkerView], called: list[str]
) -> None:
    pool = Pool(resting={"s": SLEEPS, "x": IS_SPARE})
    assert decided(*views, pool=pool) == [(name, "ready") for name in called]


def test_a_model_that_nobody_ready_serves_wakes_its_sleeper() -> None:
    views = [view("a"), view("b"), view("s", ASLEEP, models=("other",))]
    assert decided(*views, pool=Pool(resting={"s": SLEEPS})) == [("s", "ready")]


def test_a_model_that_only_a_spare_serves_is_started_once_somebody_asks_for_it() -> None:
    views = [view("a"), view("b"), view("x", ABSENT, models=("other",))]
    pool = Pool(resting={"x": IS_SPARE})
    asked = Asked(demand=frozenset({"other"}))
    assert decided(*views, pool=pool) == []
    assert decided(*views, pool=pool, asked=asked) == [("x", "ready")]


@pytest.mark.parametrize(
    ("load", "called"),
    [
        (WorkerLoad(8, 4, 0.2), []),
        (WorkerLoad(8, 5, 0.2), [("s", "ready")]),
        (WorkerLoad(8, 0, 0.9), [("s", "ready")]),
        (WorkerLoad(8, None, None), []),
    ],
)
def test_load_beyond_the_bound_wakes_one_of_the_model(
    load: WorkerLoad, called: list[tuple[str, str]]
) -> None:
    views = [view("a", load=load), view("b", load=load), view("s", ASLEEP), view("t", ASLEEP)]
    assert decided(*views, pool=Pool(resting={"s": SLEEPS, "t": SLEEPS})) == called


def test_while_one_is_being_woken_the_next_waits() -> None:
    busy = WorkerLoad(8, 50, 0.9)
    views = [view("a", load=busy), view("b", load=busy), view("s", ASLEEP), view("t", ASLEEP)]
    pool = Pool(resting={"t": SLEEPS}, called_at={"s": NOW - 1})
    assert decided(*views, pool=pool) == []


def test_who_is_held_or_taken_is_not_woken() -> None:
    views = [view("a"), view("s", ASLEEP), view("t", ASLEEP)]
    pool = Pool(resting={"s": SLEEPS, "t": IS_SPARE})
    held, taken = replace(LONG_IDLE, is_held=True), replace(LONG_IDLE, is_taken=True)
    assert decided(*views, pool=pool, s=held, t=taken) == []


def test_a_spare_that_is_no_longer_needed_is_stopped_again_even_in_the_trial() -> None:
    views = [view("a"), view("b"), view("x")]
    spare = Facts(is_spare=True, idle_since=NOW - 400)
    asked = Asked(is_trial=True)
    pool = Pool(called_at={"x": NOW - 400})
    assert decided(*views, pool=pool, x=spare, asked=asked) == [("x", "stopped")]
    assert decided(*views, pool=Pool(called_at={"x": NOW - 200}), x=spare) != [("x", "stopped")]


def test_a_daemon_that_starts_lets_sleepers_sleep_and_spares_that_ran_run() -> None:
    before = fleet(view("s", ASLEEP), view("x"), view("a"))
    known = {
        "s": Facts(can_sleep=True),
        "x": Facts(is_spare=True),
        "y": Facts(is_spare=True),
        "a": Facts(can_sleep=True),
    }
    wishes = {name: it.wish for name, it in begun(before, known, NOW).wishes().items()}
    assert wishes == {"s": Wish.ASLEEP, "y": Wish.STOPPED}


@pytest.mark.parametrize(
    ("load", "moved", "is_own", "since"),
    [
        (IDLE, False, False, 5.0),
        (WorkerLoad(1, 0), False, False, None),
        (WorkerLoad(0, 1), False, False, None),
        (IDLE, True, False, None),
        (WorkerLoad(1, 0), True, True, 5.0),
        (WorkerLoad(), False, False, None),
    ],
)
def test_a_worker_is_idle_while_only_our_own_canaries_move_it(
    load: WorkerLoad, moved: bool, is_own: bool, since: float | None
) -> None:
    assert idle_since(5.0, load, 9.0, moved=moved, is_own=is_own) == since


def test_idleness_begins_when_it_is_first_seen() -> None:
    assert idle_since(None, IDLE, 9.0, moved=False, is_own=False) == 9.0


def test_the_longest_not_warmed_worker_is_warmed_again_while_all_is_quiet() -> None:
    views = [view("a"), view("b"), view("c")]
    idle = Facts(idle_since=0.0, warmed_at=NOW - 4000)
    known = {"a": idle, "b": replace(idle, warmed_at=NOW - 5000), "c": Facts(idle_since=0.0)}
    assert to_rewarm(fleet(*views), known, 3600, NOW) == "b"
    assert to_rewarm(fleet(*views), known, 6000, NOW) is None
    known["c"] = Facts(idle_since=None)
    assert to_rewarm(fleet(*views), known, 3600, NOW) is None, "somebody works"


MODELS = [("m",), ("m", "n"), ("n",)]


@dataclass(slots=True)
class World:
    """A fleet that does what it is wished, a step a second."""

    models: list[tuple[str, ...]]
    spares: list[bool]
    go_by: PoolSettings
    now: float = NOW
    pool: Pool = field(default_factory=Pool)
    phases: list[WorkerPhase] = field(default_factory=list)
    loads: list[WorkerLoad] = field(default_factory=list)
    idle: list[float | None] = field(default_factory=list)
    woken_at: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.models)
        self.phases = [READY if not spare else ABSENT for spare in self.spares]
        self.loads, self.idle = [IDLE] * count, [self.now] * count
        self.pool = begun(FleetSnapshot(self.now), self.facts(), self.now)

    def views(self) -> tuple[WorkerView, ...]:
        rows = zip(self.models, self.phases, self.loads, strict=True)
        return tuple(
            view(f"w{number}", phase, load=load, models=models)
            for number, (models, phase, load) in enumerate(rows)
        )

    def facts(self) -> Mapping[str, Facts]:
        return {
            f"w{number}": Facts(can_sleep=True, is_spare=spare, idle_since=self.idle[number])
            for number, spare in enumerate(self.spares)
        }

    def step(self, waiting: list[int], *, dies: int | None = None, seconds: float = 1.0) -> None:
        self.now += seconds
        for number, phase in enumerate(self.phases):
            self.phases[number] = self.moved(number, phase)
        if dies is not None and dies < len(self.phases):
            self.phases[dies] = FAILED
        for number in range(len(self.phases)):
            load = waiting[number % len(waiting)] if self.phases[number] is READY else 0
            self.loads[number] = WorkerLoad(load, load, 0.0)
            self.idle[number] = None if load else self.idle[number] or self.now
        before = self.pool
        now = FleetSnapshot(self.now, self.views())
        self.pool, changes = plan(now, self.facts(), before, self.go_by, self.now, Asked())
        self.check(before, [it.worker for it in changes if it.wish is not Wish.READY])
        self.woken_at |= {it.worker: self.now for it in changes if it.wish is Wish.READY}

    def moved(self, number: int, phase: WorkerPhase) -> WorkerPhase:
        rest = self.pool.resting.get(f"w{number}")
        if rest is None:
            comes = {ABSENT: LOADING, FAILED: LOADING, LOADING: WARMING, DRAINING: WARMING}
            return (comes | {WARMING: READY, ASLEEP: WARMING}).get(phase, phase)
        if phase is FAILED and rest.wish is Wish.STOPPED:
            return ABSENT
        goes = {READY: DRAINING, DRAINING: ASLEEP if rest.wish is Wish.ASLEEP else ABSENT}
        return goes.get(phase, phase)

    def check(self, before: Pool, leave: list[str]) -> None:
        ready = [it for it in self.views() if it.phase is READY and it.id not in before.resting]
        goal = min(self.go_by.min_hot, len(self.phases))
        assert len(leave) <= 1, "one at a time"
        for name in leave:
            stay = [it for it in ready if it.id != name]
            gone = next(it for it in ready if it.id == name)
            assert len(stay) >= goal
            assert all(any(model in it.models for it in stay) for model in gone.models)
            held = self.now - self.woken_at.get(name, -math.inf)
            assert held >= self.go_by.wake_hold_seconds, "flapping"


STEPS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 12), min_size=1, max_size=4),
        st.none() | st.integers(0, 5),
        st.sampled_from([1.0, 30.0, 700.0]),
    ),
    max_size=40,
)


@given(
    st.lists(st.tuples(st.sampled_from(MODELS), st.booleans()), min_size=1, max_size=6),
    st.integers(1, 4),
    STEPS,
)
def test_whatever_happens_enough_are_ready_in_the_end_and_nobody_flaps(
    workers: list[tuple[tuple[str, ...], bool]],
    min_hot: int,
    steps: list[tuple[list[int], int | None, float]],
) -> None:
    models, spares = [it[0] for it in workers], [it[1] for it in workers]
    world = World(models, spares, replace(GO_BY, min_hot=min_hot))
    for waiting, dies, seconds in steps:
        world.step(waiting, dies=dies, seconds=seconds)
    for _ in range(10):  # nothing dies any more: a death costs no more than a start
        world.step([0])
    ready = [it for it in world.views() if it.phase is READY]
    assert len(ready) >= min(min_hot, len(workers))


@given(
    st.lists(st.sampled_from([READY, ASLEEP, WARMING, LOADING, FAILED]), min_size=1, max_size=6),
    st.lists(st.integers(0, 20), min_size=6, max_size=6),
    st.integers(1, 20),
)
@settings(max_examples=300)
def test_more_load_never_means_fewer_awake(
    phases: list[WorkerPhase], waiting: list[int], more: int
) -> None:
    sleepers = {f"w{n}": SLEEPS for n, phase in enumerate(phases) if phase is ASLEEP}

    def resting(extra: int) -> set[str]:
        views = [
            view(f"w{n}", phase, load=WorkerLoad(0, waiting[n] + extra, 0.0))
            for n, phase in enumerate(phases)
        ]
        known = facts(views)
        pool, _ = plan(fleet(*views), known, Pool(resting=sleepers), GO_BY, NOW, Asked())
        return set(pool.resting)

    assert resting(more) <= resting(0)
