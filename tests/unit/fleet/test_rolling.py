from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4watch.fleet.rolling import Change, Do, Stage, Standing, Status, World, aims, halted
from ds4watch.fleet.rolling_plan import Kind, Slot, floor_of, moves, why_impossible
from ds4watch.fleet.rolling_steps import next_step
from ds4watch.fleet.rolling_watch import Answered, Evidence, baseline, tally
from ds4watch.model.worker import WorkerPhase
from tests.unit.fleet.rolling_world import RULES, Fleet, change_of, fleet, kinds, slot

S, A, R, D, U = Kind.SURGE, Kind.ADD, Kind.REPLACE, Kind.REMOVE, Kind.UNSURGE
TWO, NEW_TWO = fleet(2, "1"), fleet(2, "2")


@pytest.mark.parametrize(
    ("before", "after", "surge", "expected"),
    [
        (TWO, TWO, 1, []),
        (TWO, NEW_TWO, 1, [(S, "a-surge"), (R, "a-0"), (R, "a-1"), (U, "a-surge")]),
        (TWO, NEW_TWO, 0, [(R, "a-0"), (R, "a-1")]),
        (TWO, fleet(3, "1"), 1, [(A, "a-2")]),
        (fleet(3, "1"), TWO, 1, [(D, "a-2")]),
        (TWO, fleet(2, "1", "b"), 1, [(A, "b-0"), (D, "a-0"), (A, "b-1"), (D, "a-1")]),
        (TWO, fleet(2, "1", "b"), 0, [(D, "a-0"), (A, "b-0"), (D, "a-1"), (A, "b-1")]),
        (
            (*TWO, slot("z-0", "1", "other")),
            (*fleet(1, "2"), slot("z-0", "2", "other")),
            1,
            [
                *[(S, "a-surge"), (R, "a-0"), (U, "a-surge")],
                *[(S, "z-surge"), (R, "z-0"), (U, "z-surge"), (D, "a-1")],
            ],
        ),
    ],
)
def test_the_moves_between_two_fleets(
    before: tuple[Slot, ...], after: tuple[Slot, ...], surge: int, expected: list[object]
) -> None:
    assert [(it.kind, it.worker) for it in moves(before, after, surge=surge)] == expected


def test_without_room_for_one_more_a_fleet_of_min_hot_workers_cannot_be_changed() -> None:
    assert "free a GPU" in why_impossible(TWO, NEW_TWO, surge=0, min_hot=2)
    assert not why_impossible(TWO, NEW_TWO, surge=1, min_hot=2)
    assert not why_impossible(TWO, NEW_TWO, surge=0, min_hot=1)
    assert not why_impossible(TWO, fleet(3, "1"), surge=0, min_hot=2)


def test_a_good_change_goes_through_worker_by_worker() -> None:
    world = Fleet(change_of(TWO, NEW_TWO))
    assert world.run().status is Status.DONE
    assert world.revisions() == {"a-0": "2", "a-1": "2"}
    assert world.fewest_ready >= 2
    assert world.most == 3
    one = [Do.BEGIN, Do.WATCH]
    assert [it.do for it in world.steps if it.do is not Do.LOOKED] == [
        *[*one, Do.NEXT] * 3,
        Do.BEGIN,
        Do.NEXT,
        Do.DONE,
    ]


def test_a_new_version_that_does_not_start_touches_no_worker_of_the_old() -> None:
    world = Fleet(change_of(TWO, NEW_TWO), starts=lambda it: it.revision != "2")
    assert world.run().status is Status.RETURNED
    assert "a-surge, on the new, failed" in world.change.reason
    assert world.revisions() == {"a-0": "1", "a-1": "1"}
    assert world.fewest_ready == 2


def test_a_new_version_that_errs_is_found_by_its_canary_and_given_back() -> None:
    world = Fleet(change_of(TWO, NEW_TWO), fails=lambda it: 0.5 if it.revision == "2" else 0.0)
    assert world.run().status is Status.RETURNED
    assert "requests failed, against 0 of 200" in world.change.reason
    assert world.revisions() == {"a-0": "1", "a-1": "1"}
    assert all(it.worker == "a-surge" for it in world.change.moves[: world.change.at + 1])


def test_who_fails_and_is_given_no_more_is_given_back_long_before_the_watch_is_over() -> None:
    """Its breaker opens, so it never gets the requests that a comparison takes."""
    change = change_of(TWO, NEW_TWO)
    watching = replace(change, stage=Stage.WATCHING, since=100.0)
    old = baseline(tally(Answered(0.0, ok=True, duration_seconds=0.1) for _ in range(200)))
    failed, slow = Answered(0.0, ok=False), Answered(0.0, ok=True, duration_seconds=9.0)
    for answers, do in (
        ([failed] * 4, Do.WAIT),
        ([failed] * 5, Do.HALT),
        ([slow] * 2 + [failed] * 3, Do.HALT),
        ([slow] * 5, Do.LOOKED),  # how long it takes is for more of them to say
    ):
        ready = Standing(WorkerPhase.READY, "2")
        seen = World({"a-surge": ready}, evidence=Evidence(tally(answers), old))
        assert next_step(watching, seen, RULES, 105.0).do is do


def test_the_last_look_at_few_requests_is_a_strict_one() -> None:
    """A starved machine gave six requests in all the time there was, and three of them failed."""
    change = change_of(TWO, NEW_TWO)
    watching = replace(change, stage=Stage.WATCHING, since=100.0, looked=5)
    well, failed = Answered(0.0, ok=True, duration_seconds=0.1), Answered(0.0, ok=False)
    old = baseline(tally([well] * 40))
    for answers, do in (
        ([well] * 3 + [failed] * 3, Do.HALT),
        ([well] * 5 + [failed], Do.NEXT),
        ([well] * 6, Do.NEXT),
    ):
        evidence = Evidence(tally(answers), old)
        seen = World({"a-surge": Standing(WorkerPhase.READY, "2")}, evidence=evidence)
        late = 100.0 + RULES.watch_max_seconds
        assert next_step(watching, seen, RULES, late).do is do


def test_the_canary_gets_a_share_and_later_ones_their_due() -> None:
    world = Fleet(change_of(TWO, NEW_TWO))
    while world.change.stage is not Stage.WATCHING:
        world.step()
    assert aims(world.change, RULES)["a-surge"].share == RULES.canary_ratio
    while world.change.at == 0:
        world.step()
    assert aims(world.change, RULES)["a-surge"].share == 1.0
    back = halted(world.change, "by hand", 0.0)
    shares = {name: aim.share for name, aim in aims(back, RULES).items()}
    assert shares == {"a-0": 1.0, "a-1": 1.0, "a-surge": 0.0}


def test_a_pause_lets_the_running_step_end_and_begins_no_other() -> None:
    world = Fleet(change_of(TWO, NEW_TWO))
    world.step()
    world.change = replace(world.change, paused=True)
    for _ in range(60):
        step = world.step()
    assert (world.change.at, world.change.stage) == (1, Stage.WAITING)
    assert step.do is Do.WAIT
    assert step.why.startswith("paused before: replace a-0")
    world.change = replace(world.change, paused=False)
    assert world.run().status is Status.DONE


def test_under_a_persons_hold_nothing_is_done_neither_forth_nor_back() -> None:
    world = Fleet(change_of(TWO, NEW_TWO), starts=lambda it: it.revision != "2")
    world.step()
    world.held = "ops holds *: an incident"
    for _ in range(30):
        assert world.step().why == world.held
    world.held = ""
    assert world.run().status is Status.RETURNED


def test_a_worker_that_a_person_has_drained_is_waited_for() -> None:
    change = replace(change_of(TWO, NEW_TWO, surge=0), since=0.0)
    standing = {
        "a-0": Standing(WorkerPhase.DRAINING, "1"),
        "a-1": Standing(WorkerPhase.READY, "1"),
    }
    step = next_step(change, World(standing, steered=frozenset({"a-0"})), RULES, 1.0)
    assert step.do is Do.WAIT
    assert "a person wants a-0 otherwise" in step.why


def test_one_that_a_person_has_stopped_runs_the_new_from_its_next_start_on() -> None:
    change = change_of(TWO, NEW_TWO, surge=0)
    rules = replace(RULES, min_hot=1)
    world = Fleet(change, rules=rules)
    stopped = Standing(WorkerPhase.ABSENT, "1")
    seen = world.world()
    absent = replace(seen, workers={**seen.workers, "a-0": stopped}, steered=frozenset({"a-0"}))
    assert next_step(change, absent, rules, 1.0).do is Do.BEGIN
    begun = replace(change, stage=Stage.BRINGING)
    assert next_step(begun, absent, rules, 1.0).do is Do.NEXT


def test_a_fleet_that_has_failed_altogether_can_be_changed_for_one_that_runs() -> None:
    world = Fleet(change_of(TWO, NEW_TWO), starts=lambda it: it.revision == "2")
    for it in world.workers.values():
        it.phase = WorkerPhase.FAILED
    assert world.run().status is Status.DONE
    assert world.phases() == {WorkerPhase.READY}


def test_an_abort_of_what_has_not_begun_ends_at_once() -> None:
    world = Fleet(change_of(TWO, NEW_TWO))
    world.change = halted(world.change, "by hand", world.now)
    assert world.step().do is Do.RETURNED
    assert halted(world.change, "again", world.now).reason == "by hand"


slots = st.integers(0, 4)


@st.composite
def fleets(draw: st.DrawFn) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
    """Two fleets that have at least a worker each."""
    before = [*fleet(draw(st.integers(1, 3)), "1"), *fleet(draw(slots), "1", "b")]
    other = slot("c-0", "1", "other")
    before += [other] * draw(st.booleans())
    after = [
        *fleet(draw(slots), draw(st.sampled_from("12"))),
        *fleet(draw(slots), draw(st.sampled_from("12")), "b"),
    ]
    return tuple(before), tuple(after) or (slot("a-0", "2"),)


@settings(max_examples=300, deadline=None)
@given(
    both=fleets(),
    surge=st.integers(0, 1),
    min_hot=st.integers(0, 3),
    bad_from=st.integers(0, 12),
    how=st.sampled_from(["good", "no start", "errors", "dies", "abort"]),
)
def test_at_whatever_point_it_fails_the_end_is_all_new_or_all_old(
    both: tuple[tuple[Slot, ...], tuple[Slot, ...]],
    surge: int,
    min_hot: int,
    bad_from: int,
    how: str,
) -> None:
    before, after = both
    if why_impossible(before, after, surge=surge, min_hot=min_hot):
        return
    olds = {(it.worker, it.revision) for it in before}
    starts = 0

    def comes_up(it: Slot) -> bool:
        nonlocal starts
        is_new = (it.worker, it.revision) not in olds and it.revision == "2"
        starts += is_new
        return not (how == "no start" and is_new and starts > bad_from)

    def errs(it: Slot) -> float:
        is_bad = how == "errors" and it.revision == "2" and world.change.at >= bad_from
        return 0.6 if is_bad else 0.0

    rules = replace(RULES, min_hot=min_hot)
    world = Fleet(change_of(before, after, surge=surge), rules, comes_up, errs)
    floor = floor_of(before, after, min_hot)
    for _ in range(3_000):
        if world.change.status in (Status.DONE, Status.RETURNED):
            break
        if world.change.at == bad_from and how == "abort":
            world.change = halted(world.change, "by hand", world.now)
        if world.change.at == bad_from and how == "dies":
            kill_new(world)
        world.step()
    lost = how == "dies"  # a death is not ours to prevent
    assert lost or world.fewest_ready >= floor
    assert world.most <= max(len(before), len(after)) + surge
    expected = after if world.change.status is Status.DONE else before
    assert world.change.status in (Status.DONE, Status.RETURNED), kinds(world.change)
    assert world.revisions() == {it.worker: it.revision for it in expected}
    if how == "good":
        assert world.change.status is Status.DONE


def kill_new(world: Fleet) -> None:
    for it in world.workers.values():
        if it.slot.revision == "2" and it.phase is WorkerPhase.READY:
            it.phase = WorkerPhase.FAILED


def test_what_each_worker_is_to_be_follows_from_the_change_alone() -> None:
    """So a daemon that was killed after any step makes of the fleet what another would have."""
    world = Fleet(change_of(TWO, NEW_TWO))
    while world.change.status is Status.RUNNING:
        world.step()
        again = Change(**{name: getattr(world.change, name) for name in Change.__slots__})
        assert aims(again, RULES) == aims(world.change, RULES)
