"""What actions of the policy make of workers: wishes, told to the supervisor (actions.Hands)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Protocol

from ds4watch.fleet.wish import By, Wanted, Wish
from ds4watch.model.action import ActionKind
from ds4watch.model.ports import UnixSeconds
from ds4watch.policy.standing import Past

_WISHES = {ActionKind.DRAIN_WORKER: Wish.DRAINED, ActionKind.WAKE_WORKER: Wish.READY}


class Tending(Protocol):
    """Who tends the workers."""

    async def wish(self, by: By, wanted: Mapping[str, Wanted]) -> None:
        """Make this all that `by` wishes."""
        ...


class PolicyWishes:
    """One wish a worker and kind; a person's, and a rolling change's, go before them."""

    def __init__(self, supervisor: Tending) -> None:
        self._supervisor = supervisor
        self._wanted: dict[tuple[str, ActionKind], Wanted] = {}
        self._started: dict[str, UnixSeconds] = {}

    def note_started(self, started: Mapping[str, UnixSeconds | None]) -> None:
        """Take in since when processes run that an earlier daemon was to start anew.

        Where none runs the start to come is the restart.
        """
        self._started = {name: math.inf if at is None else at for name, at in started.items()}

    async def restore(self, past: Iterable[Past]) -> None:
        """Go on with the actions that are in force. A restart is asked for again: by its instant.

        So one that a daemon's death came between is done, and one that was done is not done twice.
        """
        for it in past:
            if it.is_in_force and (it.plan.kind in _WISHES or it.is_to_verify):
                self._note(it.plan.target, it.plan.kind, it.plan.planned_at, it.plan.reason)
        await self._tell()

    async def take(self, worker: str, kind: ActionKind, *, at: UnixSeconds, why: str) -> None:
        """Make the worker so."""
        self._note(worker, kind, at, why)
        await self._tell()

    async def let_go(self, worker: str, kind: ActionKind) -> bool:
        """Leave the worker to the others again; False if it was no longer ours."""
        was_ours = self._wanted.pop((worker, kind), None) is not None
        await self._tell()
        return was_ours

    def has(self, worker: str, kind: ActionKind, *, since: UnixSeconds) -> bool:
        """Return whether we make the worker so, or it was started anew since then."""
        is_restart = kind is ActionKind.RESTART_WORKER
        return (worker, kind) in self._wanted or (
            is_restart and since < self._started.get(worker, 0.0)
        )

    def _note(self, worker: str, kind: ActionKind, at: UnixSeconds, why: str) -> None:
        if kind is ActionKind.RESTART_WORKER:
            self._wanted[worker, kind] = Wanted(restart_at=at, pardon_at=at, why=why)
        elif kind in _WISHES:
            self._wanted[worker, kind] = Wanted(_WISHES[kind], why=why)

    async def _tell(self) -> None:
        merged: dict[str, Wanted] = {}
        for (worker, _), wanted in sorted(self._wanted.items()):
            merged[worker] = _both(merged.get(worker, Wanted()), wanted)
        await self._supervisor.wish(By.POLICY, merged)


def _both(one: Wanted, other: Wanted) -> Wanted:
    """Return both wishes as one; who is drained stays so, whoever wakes it."""
    wishes = {one.wish, other.wish} - {None}
    wish = Wish.DRAINED if Wish.DRAINED in wishes else next(iter(wishes), None)
    return Wanted(
        wish=wish,
        restart_at=max(one.restart_at, other.restart_at),
        pardon_at=max(one.pardon_at, other.pardon_at),
        why="; ".join(it for it in (one.why, other.why) if it),
    )
