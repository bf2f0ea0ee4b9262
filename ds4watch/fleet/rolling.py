"""A rolling change as a value: where it stands, and what each worker is to be. Pure.

    waiting → bringing → watching → (next move)         what starts or replaces a worker
    waiting → taking → (next move)                      what takes one away

    running → done                  all moves are made
       └────→ returning → returned  the new failed or is worse, or a person said so

What each worker is to be follows from the change alone (`aims`). So nothing has to be done again
after a crash, and the end is all new or all old. A worker that is ready is taken away only if
enough others are. To return, moves are undone from the last to the first; workers of the new that
are not ready anyway are given back at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ds4watch.fleet.rolling_plan import BRINGS, Kind, Move, Slot
from ds4watch.fleet.rolling_watch import Baseline, Evidence, Tolerance
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerPhase


class Status(StrEnum):
    """How far a change is."""

    RUNNING = "running"
    RETURNING = "returning"
    DONE = "done"
    RETURNED = "returned"


ENDED = (Status.DONE, Status.RETURNED)


class Stage(StrEnum):
    """How far a move is."""

    WAITING = "waiting"
    BRINGING = "bringing"
    WATCHING = "watching"
    TAKING = "taking"


class Do(StrEnum):
    """What a step does."""

    WAIT = "wait"
    BEGIN = "begin"
    WATCH = "watch"
    LOOKED = "looked"
    NEXT = "next"
    HALT = "halt"
    UNDO = "undo"
    STAND_IN = "stand in"
    DONE = "done"
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next and why; of a move, by its number in the change.

    replaces: the process that runs is not the one that is to run.
    """

    do: Do
    why: str
    move: int = -1
    replaces: bool = False
    count: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """A rolling change. `acted_at`: when a process was last to be replaced, by worker.

    trusted: profiles whose new revision was watched and found no worse.
    stands_in: moves whose surge worker runs the old, so that the new can be given back.
    looked: requests that the last comparison saw.
    """

    id: str
    begun_at: UnixSeconds
    before: tuple[Slot, ...]
    after: tuple[Slot, ...]
    moves: tuple[Move, ...]
    status: Status = Status.RUNNING
    at: int = 0
    stage: Stage = Stage.WAITING
    since: UnixSeconds = 0.0
    paused: bool = False
    reason: str = ""
    acted_at: Mapping[str, UnixSeconds] = field(default_factory=dict)
    undone: frozenset[int] = frozenset()
    stands_in: frozenset[int] = frozenset()
    trusted: frozenset[str] = frozenset()
    looked: int = 0
    baselines: Mapping[str, Baseline] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a worker stands. revision: of its process, or of its last one."""

    phase: WorkerPhase
    revision: str
    reason: str = ""
    patience_seconds: float = 600.0
    """How long it may take to become ready."""


@dataclass(frozen=True, slots=True)
class World:
    """What is seen. held: a person's hold on the fleet, in words.

    steered: workers that a person wants otherwise than ready. evidence: of the move under watch.
    """

    workers: Mapping[str, Standing]
    held: str = ""
    is_measuring: bool = False
    steered: frozenset[str] = frozenset()
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """What a change goes by."""

    min_hot: int = 2
    canary_ratio: float = 0.1
    settle_seconds: float = 10.0
    watch_seconds: float = 60.0
    watch_max_seconds: float = 600.0
    min_requests: int = 30
    tolerance: Tolerance = field(default_factory=Tolerance)


@dataclass(frozen=True, slots=True)
class Aim:
    """What a worker is to be: `slot` None, not in the fleet. A process older than `acted_at` goes.

    share: of its models' requests, at most; 1 is no limit.
    """

    slot: Slot | None
    acted_at: UnixSeconds = 0.0
    share: float = 1.0
    is_ours: bool = False
    """This change has begun to make it so."""


def aims(change: Change, rules: Rules) -> dict[str, Aim]:
    """Return what each worker of the fleet is to be now."""
    found = {slot.worker: Aim(slot) for slot in change.before}
    for number, move in started(change):
        slot = slot_of(change, number, move)
        is_new = slot is not None and slot == move.new and slot != move.old
        found[move.worker] = Aim(
            slot,
            acted_at=change.acted_at.get(move.worker, 0.0),
            share=_share(change, move, rules) if is_new else 1.0,
            is_ours=True,
        )
    return found


def started(change: Change) -> Iterator[tuple[int, Move]]:
    """Yield the moves that are made or under way, by number."""
    for number, move in enumerate(change.moves[: change.at + 1]):
        if number < change.at or change.stage is not Stage.WAITING:
            yield number, move


def peers(change: Change) -> tuple[frozenset[str], frozenset[str]]:
    """Return the workers that run the new and the old of the move under watch."""
    move = change.moves[change.at]
    mates = [it for _, it in started(change) if it.profile == move.profile and it.kind in BRINGS]
    new = frozenset(it.worker for it in mates)
    touched = {it.worker for _, it in started(change)}
    left = [slot for slot in change.before if slot.worker not in touched]
    same = frozenset(slot.worker for slot in left if slot.profile == move.profile)
    models = set(move.new.models) if move.new else set()
    return new, same or frozenset(it.worker for it in left if models & set(it.models))


def taken(change: Change, step: Step, now: UnixSeconds) -> Change:
    """Return the change after a step."""
    match step.do:
        case Do.BEGIN | Do.WATCH | Do.NEXT | Do.LOOKED:
            return _ahead(change, step, now)
        case Do.HALT:
            return halted(change, step.why, now)
        case Do.UNDO | Do.STAND_IN:
            return _undone(change, step, now)
        case Do.DONE:
            return replace(change, status=Status.DONE, since=now)
        case Do.RETURNED:
            return replace(change, status=Status.RETURNED, since=now)
        case _:
            return change


def halted(change: Change, why: str, now: UnixSeconds) -> Change:
    """Return the change on its way back, for good; one that is, or that has ended, stays so."""
    if change.status is not Status.RUNNING:
        return change
    return replace(change, status=Status.RETURNING, reason=why, since=now, paused=False)


def _ahead(change: Change, step: Step, now: UnixSeconds) -> Change:
    move = change.moves[step.move]
    match step.do:
        case Do.BEGIN:
            stage = Stage.BRINGING if move.kind in BRINGS else Stage.TAKING
            return replace(change, stage=stage, since=now, acted_at=_acted(change, step, now))
        case Do.WATCH:
            return replace(change, stage=Stage.WATCHING, since=now, looked=0)
        case Do.LOOKED:
            return replace(change, looked=step.count)
        case _:
            was_watched = change.stage is Stage.WATCHING
            trusted = change.trusted | ({move.profile} if was_watched else frozenset())
            ahead = replace(change, at=change.at + 1, stage=Stage.WAITING, since=now)
            return replace(ahead, trusted=trusted)


def _undone(change: Change, step: Step, now: UnixSeconds) -> Change:
    change = replace(change, acted_at=_acted(change, step, now))
    if step.do is Do.STAND_IN:
        return replace(change, stands_in=change.stands_in | {step.move})
    return replace(change, undone=change.undone | {step.move}, since=now)


def _acted(change: Change, step: Step, now: UnixSeconds) -> dict[str, UnixSeconds]:
    return {**change.acted_at, change.moves[step.move].worker: now if step.replaces else 0.0}


def slot_of(change: Change, number: int, move: Move) -> Slot | None:
    """Return what a started move makes of its worker; None: it is not in the fleet."""
    is_undone = number in change.undone
    match move.kind:
        case Kind.SURGE if not is_undone:
            return move.old if number in change.stands_in else move.new
        case Kind.ADD | Kind.REPLACE if not is_undone:
            return move.new
        case Kind.REPLACE | Kind.REMOVE if is_undone:
            return move.old
        case Kind.UNSURGE if is_undone and _surge_is_left(change, move):
            return move.old
        case _:
            return None


def _share(change: Change, move: Move, rules: Rules) -> float:
    if change.status is Status.RETURNING:
        return 0.0
    is_known = any(is_same(slot, move.new) for slot in change.before)
    return 1.0 if is_known or move.profile in change.trusted else rules.canary_ratio


def is_same(slot: Slot, new: Slot | None) -> bool:
    """Return whether two slots run the same."""
    return new is not None and (slot.profile, slot.revision) == (new.profile, new.revision)


def _surge_is_left(change: Change, unsurge: Move) -> bool:
    """Return whether the surge that a move takes away has not been undone."""
    return any(
        move.kind is Kind.SURGE and move.worker == unsurge.worker and number not in change.undone
        for number, move in started(change)
    )
