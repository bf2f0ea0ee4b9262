"""From the fleet that runs and the one that is wanted to the moves between them, in order. Pure.

A worker keeps its id: one that is to run something else is replaced in its place, while one more of
its profile, the surge worker, stands in. It runs the new first, so it is the canary, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

SURGE_SUFFIX = "-surge"


@dataclass(frozen=True, slots=True)
class Slot:
    """A worker and what it runs. revision: differs where the command or its environment does."""

    worker: str
    profile: str
    revision: str
    models: tuple[str, ...] = ()


class Kind(StrEnum):
    """What a move does."""

    SURGE = "surge"
    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"
    UNSURGE = "unsurge"


BRINGS = (Kind.SURGE, Kind.ADD, Kind.REPLACE)


@dataclass(frozen=True, slots=True)
class Move:
    """One worker's part. `old`, `new`: what it ran and is to run; of a surge, what its mates do."""

    kind: Kind
    worker: str
    profile: str
    old: Slot | None = None
    new: Slot | None = None

    def sentence(self) -> str:
        """Return what it does, for people."""
        match self.kind:
            case Kind.SURGE:
                return f"start {self.worker}, one more, as {self.profile} is to be"
            case Kind.ADD:
                return f"start {self.worker}"
            case Kind.REPLACE:
                return f"replace {self.worker}: drain it, stop it, start it as it is to be"
            case Kind.REMOVE:
                return f"drain and stop {self.worker}"
            case Kind.UNSURGE:
                return f"drain and stop {self.worker}, which is no longer needed"


def moves(before: Sequence[Slot], after: Sequence[Slot], *, surge: int) -> tuple[Move, ...]:
    """Return the moves from one fleet to the other; none if they are the same.

    At no time do more workers run than in the larger of both, and `surge` (0 or 1).
    """
    old = {slot.worker: slot for slot in before}
    new = {slot.worker: slot for slot in after}
    adds = {
        name: Move(Kind.ADD, name, it.profile, None, it)
        for name, it in new.items()
        if name not in old
    }
    removes = {
        name: Move(Kind.REMOVE, name, it.profile, it, None)
        for name, it in old.items()
        if name not in new
    }
    together = groups([*before, *after])
    # Who can stand in for each other first, then whoever makes room for another.
    traded = [
        move
        for group in (*together, frozenset({*old, *new}))
        for move in _traded(adds, removes, group, surge=surge)
    ]
    replaced = [move for group in together for move in _replaced(old, new, group, surge=surge)]
    return (*traded, *adds.values(), *replaced, *removes.values())


def groups(slots: Sequence[Slot]) -> list[frozenset[str]]:
    """Return the workers that can stand in for each other: they share a profile or a model."""
    found: list[tuple[set[str], set[str]]] = []
    for slot in slots:
        names, words = {slot.worker}, {f"/{slot.profile}", f"@{slot.worker}", *slot.models}
        apart = []
        for members, known in found:
            if words & known:
                names, words = members | names, known | words
            else:
                apart.append((members, known))
        found = [*apart, (names, words)]
    return [frozenset(members) for members, _ in sorted(found, key=lambda it: min(it[0]))]


def _traded(
    adds: dict[str, Move], removes: dict[str, Move], group: frozenset[str], *, surge: int
) -> Iterator[Move]:
    """Take pairs of one that comes and one that goes out of `adds` and `removes`."""
    coming = [name for name in adds if name in group]
    going = [name for name in removes if name in group]
    for comes, goes in zip(coming, going, strict=False):
        pair = (adds.pop(comes), removes.pop(goes))
        yield from pair if surge else reversed(pair)


def _replaced(
    old: Mapping[str, Slot], new: Mapping[str, Slot], group: frozenset[str], *, surge: int
) -> Iterator[Move]:
    by_profile: dict[str, list[Move]] = {}
    for name, slot in new.items():
        if name in group and name in old and old[name].revision != slot.revision:
            move = Move(Kind.REPLACE, name, slot.profile, old[name], slot)
            by_profile.setdefault(slot.profile, []).append(move)
    for profile, replaced in by_profile.items():
        if not surge:
            yield from replaced
            continue
        worker = profile + SURGE_SUFFIX
        was, is_to_be = (_named(slot, worker) for slot in (replaced[0].old, replaced[0].new))
        yield Move(Kind.SURGE, worker, profile, was, is_to_be)
        yield from replaced
        yield Move(Kind.UNSURGE, worker, profile, was, is_to_be)


def _named(slot: Slot | None, worker: str) -> Slot | None:
    return slot and Slot(worker, slot.profile, slot.revision, slot.models)


def floor_of(before: Sequence[Slot], after: Sequence[Slot], min_hot: int) -> int:
    """Return how many workers are to be ready at all times; no more than either fleet has."""
    return min(min_hot, len(before), len(after))


def why_impossible(
    before: Sequence[Slot], after: Sequence[Slot], *, surge: int, min_hot: int
) -> str:
    """Return why no worker could be taken away for its successor; empty if one can."""
    floor = floor_of(before, after, min_hot)
    takes = any(move.kind is not Kind.ADD for move in moves(before, after, surge=surge))
    if surge or not takes or len(before) > floor:
        return ""
    return (
        f"{floor} workers have to be ready at all times (fleet.min_hot), the fleet has "
        f"{len(before)}, and there is no room for one more: free a GPU, set fleet.rolling.surge "
        "to 1, or lower fleet.min_hot"
    )
