"""What a person may ask of rolling changes: show, begin, pause, go on, give back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ds4watch.engine.rolling_files import digest_of, own_workers
from ds4watch.engine.rolling_record import Kept, profiles_of
from ds4watch.engine.rolling_run import RollingRun
from ds4watch.engine.rolling_view import FLEET, Sight
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.rolling import Change, Stage, Status, halted
from ds4watch.fleet.rolling_plan import Slot, floor_of, moves, why_impossible
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.model.errors import RefusedError


class RollingCommands:
    """Stores and follows what is asked; asking for what is so already changes nothing."""

    def __init__(self, run: RollingRun, *, surge: Callable[[Sequence[WorkerSpec]], int]) -> None:
        """Ask `surge` how many workers more than usual there is room for, 0 or 1."""
        self._run = run
        self._sight: Sight = run.sight
        self._surge = surge

    async def apply(
        self, *, file: str | None, plan: str | None, dry_run: bool, who: str, why: str
    ) -> dict[str, Any]:
        """Return the plan that makes the fleet what the files say, and begin it unless dry.

        plan: begin it only if it is still that one. Raises ConfigError if the files are at fault,
        RefusedError if it cannot be begun, StoreError.
        """
        async with self._run.turn:
            return await self._apply(file, plan, dry_run=dry_run, who=who, why=why)

    async def _apply(
        self, file: str | None, plan: str | None, *, dry_run: bool, who: str, why: str
    ) -> dict[str, Any]:
        wanted = await asyncio.to_thread(self._sight.files.read, Path(file) if file else None)
        after = self._slots(wanted)
        run = self._run
        if run.is_running and run.kept is not None:
            if run.kept.change.after == after and run.kept.change.status is Status.RUNNING:
                return _shown(run.kept.change, self._sight.rules.min_hot) | {"begun": True}
            message = "a rolling change is under way: let it end, or `ds4watch fleet abort`"
            raise RefusedError(message)
        change = self._change(after, wanted)
        shown = _shown(change, self._sight.rules.min_hot)
        if plan is not None and plan != change.id:
            message = "the plan is another one by now: the files or the fleet have changed since"
            raise RefusedError(message)
        if dry_run or not change.moves:
            return shown | {"begun": False}
        await run.keep(await self._kept(change, wanted, who, why), self._entry(change, who, why))
        return shown | {"begun": True}

    async def steer(self, verb: str, *, who: str, why: str, dry_run: bool = False) -> str:
        """Pause, go on with or give back the change; return what follows.

        Raises RefusedError without a change that it could be said of, StoreError.
        """
        async with self._run.turn:
            return await self._steer(verb, who, why, dry_run=dry_run)

    async def _steer(self, verb: str, who: str, why: str, *, dry_run: bool) -> str:
        run = self._run
        kept = run.kept
        if kept is None or not run.is_running:
            message = "no rolling change is under way"
            raise RefusedError(message)
        change, told = _steered(kept.change, verb, f"{who}: {why}", self._sight.clock.now())
        if dry_run:
            return f"dry run: {told}; nothing is done"
        if change != kept.change:
            now = self._sight.clock.now()
            entry = AuditEntry(now, AuditKind.FLEET, FLEET, f"{verb}: {why}", who=who)
            await run.keep(replace(kept, change=change), entry)
        return told

    def shown(self) -> dict[str, Any] | None:
        """Return the change under way, or the last; None if there was none."""
        kept = self._run.kept
        if kept is None:
            return None
        change = kept.change
        return _shown(change, self._sight.rules.min_hot) | {
            "number": kept.number,
            "status": change.status.value,
            "paused": change.paused,
            "at": min(change.at + 1, len(change.moves)),
            "stage": change.stage.value if self._run.is_running else "",
            "waiting": self._run.waiting,
            "reason": change.reason,
            "begun_at": change.begun_at,
            "since": change.since,
            "who": kept.who,
            "why": kept.why,
        }

    def _change(self, after: tuple[Slot, ...], wanted: Sequence[WorkerSpec]) -> Change:
        before = self._slots(self._run.own)
        surge = self._surge(own_workers(wanted))
        found = moves(before, after, surge=surge)
        why_not = why_impossible(before, after, surge=surge, min_hot=self._sight.rules.min_hot)
        if why_not:
            raise RefusedError(why_not)
        now = self._sight.clock.now()
        plan = digest_of([*before, *(replace(it, worker=f"{it.worker} new") for it in after)])
        return Change(plan, now, before, after, found, since=now)

    async def _kept(self, change: Change, wanted: Sequence[WorkerSpec], who: str, why: str) -> Kept:
        files = self._sight.files
        own = await asyncio.to_thread(files.read)
        specs = (*self._run.own, *own_workers(wanted))
        return Kept(
            number=self._run.last_number + 1,
            change=change,
            profiles=profiles_of((files.slot(spec), spec) for spec in specs),
            own=digest_of(self._slots(own)),
            who=who,
            why=why,
            externals=tuple(spec for spec in wanted if spec.url is not None),
        )

    def _slots(self, specs: Sequence[WorkerSpec]) -> tuple[Slot, ...]:
        return tuple(self._sight.files.slot(spec) for spec in own_workers(specs))

    def _entry(self, change: Change, who: str, why: str) -> AuditEntry:
        detail = {"steps": [move.sentence() for move in change.moves]}
        told = f"rolling change begun, {len(change.moves)} steps: {why}"
        return AuditEntry(change.begun_at, AuditKind.FLEET, FLEET, told, detail, who=who)


def _steered(change: Change, verb: str, told: str, now: float) -> tuple[Change, str]:
    match verb:
        case "abort" if change.status is Status.RETURNING:
            return change, "it is on its way back already"
        case "abort":
            return halted(change, told, now), "what was changed is given back, step by step"
        case "pause" if change.status is Status.RETURNING:
            message = "it is on its way back, which is not paused; a hold on fleet stops all"
            raise RefusedError(message)
        case "pause":
            return replace(change, paused=True), "the running step ends, no other is begun"
        case _:
            return replace(change, paused=False), "it goes on"


def _shown(change: Change, min_hot: int) -> dict[str, Any]:
    return {
        "plan": change.id,
        "ready_at_least": floor_of(change.before, change.after, min_hot),
        "steps": [
            {
                "number": number + 1,
                "do": move.kind.value,
                "worker": move.worker,
                "profile": move.profile,
                "told": move.sentence(),
                "state": _state(change, number),
            }
            for number, move in enumerate(change.moves)
        ],
        "unchanged": sorted(
            {it.worker for it in change.before} - {move.worker for move in change.moves}
        ),
    }


def _state(change: Change, number: int) -> str:
    if number in change.undone:
        return "given back"
    if change.status is Status.RUNNING and number == change.at:
        return change.stage.value
    is_begun = number < change.at or (number == change.at and change.stage is not Stage.WAITING)
    if is_begun:
        return "done"
    return "to come" if change.status is Status.RUNNING else "not done"
