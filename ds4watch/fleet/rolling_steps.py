"""The next step of a rolling change. Pure: the world comes in, a step goes out."""

from __future__ import annotations

from dataclasses import replace

from ds4watch.fleet.rolling import (
    Change,
    Do,
    Rules,
    Stage,
    Standing,
    Status,
    Step,
    World,
    is_same,
    slot_of,
    started,
)
from ds4watch.fleet.rolling_plan import BRINGS, Kind, Move, floor_of
from ds4watch.fleet.rolling_watch import Evidence, why_failing, why_worse
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerPhase

_BROKEN = (WorkerPhase.FAILED, WorkerPhase.QUARANTINED)
_FEW = 0.02
_FIRST_LOOK = 5
"""Requests after which failures are looked at: who fails is soon given no more."""
_RESTS = (WorkerPhase.READY, WorkerPhase.ASLEEP, *_BROKEN)


def next_step(change: Change, world: World, rules: Rules, now: UnixSeconds) -> Step:
    """Return what is to be done next."""
    if world.held:
        return Step(Do.WAIT, world.held)
    if change.status is Status.RETURNING:
        return _back(change, world, rules)
    if why := _new_is_broken(change, world):
        return Step(Do.HALT, why, change.at)
    if change.at >= len(change.moves):
        return Step(Do.DONE, "all runs as it is to be")
    match change.stage:
        case Stage.BRINGING:
            return _bringing(change, world, now)
        case Stage.WATCHING:
            return _watching(change, world, rules, now)
        case Stage.TAKING:
            return _taking(change, world)
        case _:
            return _begin(change, world, rules)


def _new_is_broken(change: Change, world: World) -> str:
    for _, move in started(change):
        seen = world.workers.get(move.worker)
        runs_new = seen is not None and move.new is not None and seen.revision == move.new.revision
        is_brought = move.kind in BRINGS and runs_new
        if seen is not None and is_brought and seen.phase in _BROKEN:
            return f"{move.worker}, on the new, {seen.phase.value}: {seen.reason}"
    return ""


def _begin(change: Change, world: World, rules: Rules) -> Step:
    move = change.moves[change.at]
    if change.paused:
        return Step(Do.WAIT, f"paused before: {move.sentence()}")
    seen = world.workers.get(move.worker)
    stands_aside = seen is not None and seen.phase is WorkerPhase.ABSENT
    if move.worker in world.steered and move.kind is not Kind.UNSURGE and not stands_aside:
        return Step(Do.WAIT, f"a person wants {move.worker} otherwise: start it, or abort")
    if why := _guarded(change, move, world, rules):
        return Step(Do.WAIT, why)
    return Step(Do.BEGIN, move.sentence(), change.at, replaces=move.kind is Kind.REPLACE)


def _bringing(change: Change, world: World, now: UnixSeconds) -> Step:
    move = change.moves[change.at]
    seen = world.workers.get(move.worker)
    assert move.new is not None
    if seen is None:
        return Step(Do.WAIT, f"{move.worker} is to be started")
    if seen.phase is WorkerPhase.READY and seen.revision == move.new.revision:
        return Step(Do.WATCH, f"{move.worker} is ready, on the new", change.at)
    if seen.phase is WorkerPhase.ABSENT and move.worker in world.steered:
        return Step(Do.NEXT, f"{move.worker} is stopped; its next start is the new", change.at)
    if now - change.since > seen.patience_seconds:
        waited = f"{move.worker} was not ready within {seen.patience_seconds:.0f} s"
        return Step(Do.HALT, f"{waited}: {seen.phase.value}, {seen.reason}", change.at)
    return Step(Do.WAIT, f"{move.worker} is {seen.phase.value}: {seen.reason}")


def _watching(change: Change, world: World, rules: Rules, now: UnixSeconds) -> Step:
    move = change.moves[change.at]
    if any(is_same(slot, move.new) for slot in change.before):
        return Step(Do.NEXT, f"{move.worker} runs what others did", change.at)
    watched = now - change.since
    if watched < rules.settle_seconds:
        return Step(Do.WAIT, f"{move.worker} settles")
    found = world.evidence or Evidence()
    count = found.new.total
    is_long_enough = watched >= rules.watch_seconds and count >= rules.min_requests
    is_over = is_long_enough and not world.is_measuring
    is_late = watched >= rules.watch_max_seconds
    # A look for each doubling: with many looks, one would find by chance what is not there.
    first = min(_FIRST_LOOK, rules.min_requests)
    if not (is_over or is_late or count >= max(first, 2 * change.looked)):
        return Step(Do.WAIT, _told(move, count, watched, rules))
    is_early = count < rules.min_requests and not is_late
    why = why_failing if is_early else why_worse
    worse = why(found, rules.tolerance)
    if is_late and count < rules.min_requests:
        # Who fails is given few: on those few the way on is the riskier one.
        worse = worse or why_failing(found, replace(rules.tolerance, significance=_FEW))
    if worse:
        return Step(Do.HALT, f"{move.worker}, on the new, is worse: {worse}", change.at)
    if is_over:
        return Step(Do.NEXT, f"{move.worker} is no worse in {count} requests", change.at)
    if is_late:
        few = f"no worse in {count} requests, and no more came in {watched:.0f} s"
        return Step(Do.NEXT, f"{move.worker} is {few}", change.at)
    return Step(Do.LOOKED, _told(move, count, watched, rules), change.at, count=count)


def _told(move: Move, count: int, watched: float, rules: Rules) -> str:
    return (
        f"{move.worker} is watched: {count} of {rules.min_requests} requests, "
        f"{watched:.0f} of {rules.watch_seconds:.0f} s"
    )


def _taking(change: Change, world: World) -> Step:
    move = change.moves[change.at]
    seen = world.workers.get(move.worker)
    if seen is None:
        return Step(Do.NEXT, f"{move.worker} is gone", change.at)
    return Step(Do.WAIT, f"{move.worker} is {seen.phase.value}: {seen.reason}")


def _guarded(change: Change, move: Move, world: World, rules: Rules) -> str:
    """Return why a worker may not be taken away now; empty if it may."""
    seen = world.workers.get(move.worker)
    if seen is None or seen.phase is not WorkerPhase.READY:
        return ""
    floor = floor_of(change.before, change.after, rules.min_hot)
    others = sum(
        it.phase is WorkerPhase.READY for name, it in world.workers.items() if name != move.worker
    )
    if others >= floor:
        return ""
    return f"{others} others are ready, {floor} have to be before {move.worker} is taken away"


def _back(change: Change, world: World, rules: Rules) -> Step:
    left = [(number, move) for number, move in started(change) if number not in change.undone]
    left.reverse()
    at_once = (step for it in left if (step := _undone_at_once(change, it, world)) is not None)
    if (step := next(at_once, None)) is not None:
        return step
    for number, move in started(change):
        if number in change.undone and (why := _unsettled(change, number, move, world)):
            return Step(Do.WAIT, why)
    if not left:
        return Step(Do.RETURNED, "all runs as it did before")
    number, move = left[0]
    if why := _guarded(change, move, world, rules):
        return Step(Do.WAIT, why)
    return _undo(number, move, world.workers.get(move.worker))


def _undo(number: int, move: Move, seen: Standing | None) -> Step:
    runs_old = move.old is not None and seen is not None and seen.revision == move.old.revision
    is_there = seen is not None and move.kind in (Kind.REPLACE, Kind.UNSURGE)
    told = f"give back: {move.worker}"
    return Step(Do.UNDO, told, number, replaces=is_there and not runs_old)


def _undone_at_once(change: Change, it: tuple[int, Move], world: World) -> Step | None:
    """Return the step for a worker nobody will miss; None if it has to wait its turn."""
    number, move = it
    seen = world.workers.get(move.worker)
    if move.kind not in BRINGS or (seen is not None and seen.phase is WorkerPhase.READY):
        return None
    if move.kind is Kind.SURGE and _has_mates_left(change, move):
        if number in change.stands_in or _is_unsurged(change, move):
            return None
        return Step(Do.STAND_IN, f"{move.worker} stands in with the old", number, replaces=True)
    return _undo(number, move, seen)


def _has_mates_left(change: Change, surge: Move) -> bool:
    """Return whether workers of the surge's profile have yet to come back to the old."""
    return any(
        move.kind is Kind.REPLACE and move.profile == surge.profile and number not in change.undone
        for number, move in started(change)
    )


def _unsettled(change: Change, number: int, move: Move, world: World) -> str:
    """Return what is still awaited of a move that was undone; empty if nothing."""
    slot = slot_of(change, number, move)
    seen = world.workers.get(move.worker)
    if slot is None:
        return "" if seen is None else f"{move.worker} is {seen.phase.value}, on its way out"
    if seen is None:
        return f"{move.worker} is to be started"
    is_absent = seen.phase is WorkerPhase.ABSENT and move.worker in world.steered
    if is_absent or (seen.phase in _RESTS and seen.revision == slot.revision):
        return ""
    return f"{move.worker} is {seen.phase.value}: {seen.reason}"


def _is_unsurged(change: Change, surge: Move) -> bool:
    return any(it.kind is Kind.UNSURGE and it.worker == surge.worker for _, it in started(change))
