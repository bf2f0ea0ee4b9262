"""What becomes of a wish: tables, and random walks with a worker that may misbehave."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.fleet.life import Deed, Life, Seen, Work, could_not_start, started
from ds4watch.fleet.lifecycle import QUIET_SECONDS, advance, deed, is_as_wished, wished
from ds4watch.fleet.wish import AS_SET, By, Wanted, Wish, merged
from ds4watch.model.worker import WorkerPhase
from tests.unit.fleet.walks import LIMITS, World

READY = Life(phase=WorkerPhase.READY, since=0.0, started_at=0.0, proved_at=100.0)
FOREIGN = replace(LIMITS, is_foreign=True, can_sleep=False)
STOPPED, ASLEEP, DRAINED = Wanted(Wish.STOPPED), Wanted(Wish.ASLEEP), Wanted(Wish.DRAINED)
DEAD = Seen(alive=False, exit_code=1)
RESTS_IN = {
    Wish.READY: WorkerPhase.READY,
    Wish.ASLEEP: WorkerPhase.ASLEEP,
    Wish.DRAINED: WorkerPhase.DRAINING,
    Wish.STOPPED: WorkerPhase.ABSENT,
}


def reached(world: World, wanted: Wanted, seconds: float = 120.0) -> bool:
    """Wish something and look until it is so."""
    world.wanted = wanted
    end = world.now + seconds
    while world.now < end:
        world.step()
        if is_as_wished(world.life, wanted, world.limits, world.now):
            return True
    return False


@pytest.mark.parametrize("first", list(Wish))
@pytest.mark.parametrize("then", list(Wish))
def test_every_wish_is_reached_from_every_other(first: Wish, then: Wish) -> None:
    world = World()
    assert reached(world, AS_SET)
    assert reached(world, Wanted(first))
    assert reached(world, Wanted(then))
    assert world.life.phase is RESTS_IN[then]


def test_who_is_to_leave_leaves_the_routing_before_anything_is_done() -> None:
    for wanted in (STOPPED, ASLEEP, DRAINED, Wanted(restart_at=50.0)):
        life = wished(READY, wanted, LIMITS, 100.0)
        assert life.phase is WorkerPhase.DRAINING
        assert deed(life, LIMITS, 100.0, wanted) is Deed.NOTHING


def test_a_drain_waits_until_scrapes_made_since_have_shown_it_empty_for_a_while() -> None:
    life = wished(READY, STOPPED, LIMITS, 100.0)
    before = Work(quiet_since=50.0, quiet_until=99.0)
    assert wished(life, STOPPED, LIMITS, 110.0, before) == life
    fresh = Work(quiet_since=50.0, quiet_until=100.0 + QUIET_SECONDS)
    assert wished(life, STOPPED, LIMITS, 110.0, fresh).phase is WorkerPhase.STOPPING


def test_a_drain_that_takes_too_long_is_over_and_an_unseen_worker_is_waited_for_as_long() -> None:
    life = wished(READY, STOPPED, LIMITS, 100.0)
    for work in (Work(is_busy=True), Work()):
        assert wished(life, STOPPED, LIMITS, 129.9, work) == life
        assert wished(life, STOPPED, LIMITS, 130.0, work).phase is WorkerPhase.STOPPING


def test_a_drained_worker_that_is_wanted_again_answers_a_canary_first() -> None:
    life = wished(wished(READY, DRAINED, LIMITS, 100.0), AS_SET, LIMITS, 105.0)
    assert life.phase is WorkerPhase.WARMING
    assert deed(life, LIMITS, 105.0) is Deed.CANARY
    ready = advance(life, Seen(alive=True, canary_ok=True), LIMITS, 106.0)
    assert (ready.phase, ready.proved_at) == (WorkerPhase.READY, 106.0)


def test_without_a_sleep_mode_who_is_wished_asleep_is_kept_loaded_and_ready() -> None:
    limits = replace(LIMITS, can_sleep=False)
    assert wished(READY, ASLEEP, limits, 100.0) == READY
    assert is_as_wished(READY, ASLEEP, limits, 100.0)


def test_who_would_not_sleep_is_kept_loaded_for_a_while_and_asked_again() -> None:
    draining = wished(READY, ASLEEP, LIMITS, 100.0)
    refused = advance(draining, Seen(alive=True, slept=False, detail="500"), LIMITS, 110.0)
    assert refused.phase is WorkerPhase.WARMING
    assert "500" in refused.reason
    ready = advance(refused, Seen(alive=True, canary_ok=True), LIMITS, 111.0)
    assert wished(ready, ASLEEP, LIMITS, 129.0) == ready
    assert wished(ready, ASLEEP, LIMITS, 130.0).phase is WorkerPhase.DRAINING


def test_who_cannot_be_woken_is_started_anew() -> None:
    life = Life(phase=WorkerPhase.ASLEEP, since=0.0)
    unwoken = Seen(alive=True, woke=False, detail="no answer")
    once = advance(life, unwoken, LIMITS, 10.0)
    assert once.phase is WorkerPhase.ASLEEP
    assert advance(once, unwoken, LIMITS, 11.0).phase is WorkerPhase.FAILED


def test_one_that_sleeps_unasked_is_found_asleep_not_hung_and_is_woken() -> None:
    sleeping = Seen(alive=True, asked_at=120.0, canary_ok=False, sleeping=True)
    life = advance(READY, sleeping, LIMITS, 150.0)
    assert life.phase is WorkerPhase.ASLEEP
    assert deed(life, LIMITS, 150.0) is Deed.WAKE


def test_a_restart_is_done_once_and_asks_nothing_of_a_younger_process() -> None:
    world = World()
    assert reached(world, AS_SET)
    first = world.begun_at
    wanted = Wanted(restart_at=world.now, why="care")
    assert reached(world, wanted)
    assert world.begun_at > first
    again = world.begun_at
    for _ in range(200):
        world.step()
    assert world.begun_at == again


def test_a_sleeping_worker_is_restarted_without_being_woken() -> None:
    world = World()
    assert reached(world, ASLEEP)
    first = world.begun_at
    assert reached(world, Wanted(Wish.ASLEEP, restart_at=world.now))
    assert world.begun_at > first


def test_case_38_what_survives_sigkill_is_waited_for_and_no_other_is_started_beside_it() -> None:
    """An engine that waits in the driver ignores kill -9 (unslothai/unsloth#3331)."""
    world = World()
    assert reached(world, AS_SET)
    world.survives = True
    assert not reached(world, Wanted(restart_at=world.now), 60.0)
    assert world.life.phase is WorkerPhase.STOPPING
    assert world.life.reason == "something of it survives SIGKILL: process 7"
    world.survives = False
    assert reached(world, AS_SET)


def test_after_n_failures_in_a_row_it_is_not_started_until_a_person_says_so() -> None:
    life, now = Life(), 1000.0
    for number in range(1, 6):
        life = started(life, now)
        life = advance(life, DEAD, LIMITS, now + 1.0)
        assert life.phase is (WorkerPhase.FAILED if number < 5 else WorkerPhase.QUARANTINED)
        life = advance(life, Seen(alive=False, gone=True), LIMITS, now + 1.0)
        now += 30.0
    assert "5 failures in a row" in life.reason
    assert deed(life, LIMITS, now + 1e6) is Deed.NOTHING
    old = Wanted(pardon_at=life.since - 1.0)
    assert wished(life, old, LIMITS, now) == life
    pardoned = wished(life, Wanted(pardon_at=now), LIMITS, now)
    assert (pardoned.phase, pardoned.failed_at) == (WorkerPhase.ABSENT, ())
    assert deed(pardoned, LIMITS, now) is Deed.START


def test_failures_spread_over_more_than_the_window_are_no_crash_loop() -> None:
    life = Life(failed_at=(0.0, 1.0, 2.0, 3.0), phase=WorkerPhase.LOADING)
    late = LIMITS.quarantine_window_seconds + 1.0
    assert advance(life, DEAD, LIMITS, late).phase is WorkerPhase.FAILED
    assert advance(life, DEAD, LIMITS, late - 2.0).phase is WorkerPhase.QUARANTINED


def test_where_no_process_can_be_started_it_is_tried_for_as_long_as_it_takes() -> None:
    life = Life()
    for number in range(50):
        life = could_not_start(life, "driver and library do not match", LIMITS, number * 100.0)
    assert life.phase is WorkerPhase.FAILED
    assert deed(life, LIMITS, 6000.0) is Deed.START


def test_a_pardon_starts_a_failed_worker_without_its_back_off() -> None:
    failed = replace(advance(replace(READY, failures=7), DEAD, LIMITS, 100.0), has_remains=False)
    assert deed(failed, LIMITS, 101.0) is Deed.NOTHING
    pardoned = wished(failed, Wanted(pardon_at=101.0), LIMITS, 101.0)
    assert deed(pardoned, LIMITS, 101.0) is Deed.START


def test_a_busy_engine_that_stands_still_is_asked_at_once_and_one_silence_is_enough() -> None:
    limits = replace(LIMITS, stall_seconds=4.0)
    busy = Work(is_busy=True)
    assert deed(READY, limits, 104.0, AS_SET, Work()) is Deed.NOTHING
    assert deed(READY, limits, 103.9, AS_SET, busy) is Deed.NOTHING
    assert deed(READY, limits, 104.0, AS_SET, busy) is Deed.CANARY
    silent = Seen(alive=True, asked_at=104.0, canary_ok=False, detail="no answer in time")
    assert advance(READY, silent, limits, 109.0, Work()).phase is WorkerPhase.READY
    hung = advance(READY, silent, limits, 109.0, busy)
    assert hung.phase is WorkerPhase.FAILED
    assert "no step for 9 s with work in it" in hung.reason


def test_somebody_elses_worker_that_does_not_answer_is_unknown_and_never_stopped() -> None:
    life = started(Life(), 0.0)
    life = advance(life, Seen(alive=True, healthy=False), FOREIGN, 1.0)
    assert life.phase is WorkerPhase.UNKNOWN
    assert deed(life, FOREIGN, 100.0, STOPPED) is Deed.CANARY
    for now in range(100, 2000, 100):
        silent = Seen(alive=True, asked_at=now, canary_ok=False)
        life = advance(life, silent, FOREIGN, float(now))
        assert life.retry_at <= now + FOREIGN.canary_interval_seconds
    assert life.phase is WorkerPhase.UNKNOWN
    life = advance(life, Seen(alive=True, canary_ok=True), FOREIGN, 2000.0)
    assert life.phase is WorkerPhase.READY
    drained = wished(life, STOPPED, FOREIGN, 2000.0)
    assert drained.phase is WorkerPhase.DRAINING
    later = wished(drained, STOPPED, FOREIGN, 9000.0)
    assert (later.phase, deed(later, FOREIGN, 9000.0, STOPPED)) == (
        WorkerPhase.DRAINING,
        Deed.NOTHING,
    )


def test_a_person_goes_before_all_others_and_everybody_may_restart() -> None:
    wishes = {
        By.WARM_POOL: {"a": Wanted(Wish.ASLEEP, why="spare"), "b": Wanted(Wish.ASLEEP)},
        By.CARE: {"a": Wanted(restart_at=7.0, why="its memory saws")},
        By.PERSON: {"a": Wanted(Wish.READY, restart_at=5.0, pardon_at=5.0)},
    }
    told = merged(wishes, "a")
    assert (told.wish, told.restart_at, told.pardon_at) == (Wish.READY, 7.0, 5.0)
    assert told.why == "its memory saws"
    assert merged(wishes, "b").wish is Wish.ASLEEP
    assert merged(wishes, "c") == AS_SET
    left = wishes | {By.PERSON: {"a": Wanted(None, pardon_at=9.0)}}
    assert merged(left, "a").wish is Wish.ASLEEP


EVENTS = st.sampled_from(
    ["look"] * 6 + ["busy", "kill", "hang", "mend", "survive", "die at last", "sleep by hand"]
)
WISHES = st.builds(
    Wanted, st.sampled_from([None, *Wish]), restart_at=st.sampled_from([0.0, 1030.0, 1060.0])
)


def happen(world: World, event: str) -> None:
    match event:
        case "kill":
            world.kill()
        case "hang" | "mend":
            world.hung = event == "hang"
        case "survive" | "die at last":
            world.survives = event == "survive"
        case "sleep by hand":
            world.asleep = world.processes > 0
        case _:
            pass
    world.step(busy=event == "busy")


@given(st.lists(st.tuples(EVENTS, WISHES), max_size=120), st.booleans())
def test_whatever_happens_only_who_answered_is_routed_to_and_none_is_doubled(
    story: list[tuple[str, Wanted]], foreign: bool
) -> None:
    world = World(limits=FOREIGN if foreign else LIMITS, processes=int(foreign))
    for event, wanted in story:
        was_ready = world.life.phase is WorkerPhase.READY
        world.wanted = wanted
        happen(world, event)
        if world.life.phase is WorkerPhase.READY and not was_ready:
            assert world.answered_at == world.now
        if world.life.phase is WorkerPhase.READY:
            assert world.answered_at >= world.begun_at
        if world.life.phase is WorkerPhase.ABSENT and not foreign:
            assert world.processes == 0


@given(st.lists(st.tuples(EVENTS, WISHES), max_size=60), st.sampled_from(list(Wish)))
def test_once_a_worker_behaves_every_wish_is_reached(
    story: list[tuple[str, Wanted]], last: Wish
) -> None:
    world = World()
    for event, wanted in story:
        world.wanted = wanted
        happen(world, event)
    world.hung = world.survives = False
    assert reached(world, Wanted(pardon_at=world.now + 0.25), 300.0)
    assert reached(world, Wanted(last, pardon_at=world.now), 300.0)
    assert world.life.phase is RESTS_IN[last]


def test_who_is_drained_stays_loaded_and_is_started_again_if_it_dies() -> None:
    world = World()
    assert reached(world, AS_SET)
    assert reached(world, DRAINED)
    died = advance(world.life, DEAD, LIMITS, world.now)
    cleared = replace(died, has_remains=False)
    assert deed(cleared, LIMITS, cleared.retry_at, DRAINED) is Deed.START
    assert deed(cleared, LIMITS, cleared.retry_at, STOPPED) is Deed.NOTHING
    of_next_daemon = Life(since=world.now)
    assert deed(of_next_daemon, LIMITS, world.now, DRAINED) is Deed.START
    assert deed(of_next_daemon, LIMITS, world.now, STOPPED) is Deed.NOTHING


def test_who_comes_up_drained_is_never_ready_on_its_way() -> None:
    world = World(wanted=DRAINED)
    seen = set()
    while not is_as_wished(world.life, DRAINED, LIMITS, world.now):
        world.step()
        seen.add(world.life.phase)
    assert WorkerPhase.WARMING in seen
    assert WorkerPhase.READY not in seen
