"""Carries out rolling changes: a step is stored before it is done, so a crash costs none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ds4watch.config.profile import Profile
from ds4watch.engine.rolling_files import digest_of, own_workers
from ds4watch.engine.rolling_record import Kept, from_row, to_row
from ds4watch.engine.rolling_view import FLEET, Measure, Sight
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.rolling import (
    ENDED,
    Aim,
    Change,
    Do,
    Stage,
    Status,
    Step,
    aims,
    started,
    taken,
)
from ds4watch.fleet.rolling_plan import Slot
from ds4watch.fleet.rolling_steps import next_step
from ds4watch.fleet.rolling_watch import Quality
from ds4watch.fleet.wish import By, Wanted, Wish
from ds4watch.history.asked_values import RollingChange
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.history.state import StateStore
from ds4watch.model.errors import StoreError

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_HAPPENS_OFTEN = (Do.LOOKED,)


class RollingRun:
    """The rolling change of a daemon: the one under way, or the last.

    profiles: those of all workers that we run, by name; changed as the fleet is.
    """

    def __init__(self, sight: Sight, state: StateStore, *, wake: asyncio.Event) -> None:
        self.sight = sight
        self.kept: Kept | None = None
        self.waiting = ""
        self.profiles: dict[str, Profile] = {}
        self.measure: Measure | None = None
        self.turn = asyncio.Lock()
        """Held while the change is read and stored anew: steps and persons take turns."""
        self._state = state
        self._wake = wake
        self._measuring: asyncio.Task[Quality | None] | None = None
        self._own: tuple[WorkerSpec, ...] = ()
        self._externals: tuple[WorkerSpec, ...] = ()
        self._stored = True

    @property
    def is_running(self) -> bool:
        """Whether a change is under way."""
        return self.kept is not None and self.kept.change.status not in ENDED

    @property
    def own(self) -> tuple[WorkerSpec, ...]:
        """The workers that we run while no change is under way."""
        return self._own

    @property
    def last_number(self) -> int:
        """The number of the last change; they count up."""
        return self.kept.number if self.kept is not None else 0

    async def restore(self, from_file: Sequence[WorkerSpec]) -> tuple[WorkerSpec, ...]:
        """Go on from what is stored, and return what the workers are to start, or go on, as.

        Once a change has ended, its end holds until the daemon's own file says something new.
        """
        self._externals = tuple(spec for spec in from_file if spec.url is not None)
        self._own = own_workers(from_file)
        self.kept = _read(await self._state.last_rolling())
        files, kept = self.sight.files, self.kept
        self._note_profiles()
        if kept is None:
            return tuple(from_file)
        if kept.change.status not in ENDED:
            log.info("a rolling change goes on, at step %d", kept.change.at + 1)
            return (*await _as_they_run(kept, self.sight), *self._externals)
        is_as_then = digest_of([files.slot(spec) for spec in self._own]) == kept.own
        if is_as_then:
            self._own = kept.specs(_end_of(kept.change))
            if kept.change.status is Status.RETURNED and _differs(self._own, from_file):
                log.warning(
                    "the fleet of the file was tried and given back: %s", kept.change.reason
                )
            self._note_profiles()
        return (*self._own, *self._externals)

    async def foretell(self) -> None:
        """Tell the supervisor, before it looks at anybody, what is wished of whom."""
        if self.kept is not None and self.is_running:
            found = aims(self.kept.change, self.sight.rules)
            await self.sight.supervisor.wish(By.ROLLING, _wishes(self.kept.change, found))

    async def tell(self) -> None:
        """Tell the supervisor what each worker is to be."""
        kept, supervisor = self.kept, self.sight.supervisor
        if kept is None or not self.is_running:
            return
        found = aims(kept.change, self.sight.rules)
        specs = [kept.spec(aim.slot) for aim in found.values() if aim.slot is not None]
        await supervisor.manage((*specs, *self._externals))
        await supervisor.wish(By.ROLLING, _wishes(kept.change, found))
        self._note_profiles()
        self._wake.set()

    async def run(self) -> None:
        """Take steps until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if not self.is_running:
                continue
            try:
                async with self.turn:
                    await self.look()
            except StoreError as error:
                if self._stored:
                    log.warning("the rolling change stands still: %s", error)
                self._stored = False

    async def look(self) -> None:
        """Take the next step, if it is time for it. Raises StoreError: then it was not taken."""
        kept = self.kept
        if kept is None or not self.is_running:
            return
        world = self.sight.world(kept.change, self._measuring)
        now = self.sight.clock.now()
        step = next_step(kept.change, world, self.sight.rules, now)
        self.waiting = step.why
        if step.do is Do.WAIT:
            return
        change = taken(kept.change, step, now)
        if step.do is Do.WATCH:
            change = replace(change, baselines=self.sight.baselines(change))
        entries = () if step.do in _HAPPENS_OFTEN else (_entry(step, change, now),)
        await self.keep(replace(kept, change=change), *entries)
        self._measure(change)

    async def keep(self, kept: Kept, *entries: AuditEntry) -> None:
        """Store a change as it is now, then follow it. Raises StoreError."""
        await self._state.save_rolling(to_row(kept, self.sight.clock.now()), *entries)
        self._stored = True
        for entry in entries:
            log.info("rolling change %d: %s", kept.number, entry.summary)
        self.kept = kept
        if self.is_running:
            await self.tell()
        else:
            await self._settle(kept)

    async def _settle(self, kept: Kept) -> None:
        """Leave the fleet as the change left it."""
        self._own, self.waiting = kept.specs(_end_of(kept.change)), ""
        if kept.change.status is Status.DONE and kept.externals:
            self._externals = kept.externals
        supervisor = self.sight.supervisor
        await supervisor.manage((*self._own, *self._externals))
        await supervisor.wish(By.ROLLING, {})
        self.sight.tallies.forget_all_but(spec.id for spec in (*self._own, *self._externals))
        self._note_profiles()
        self._wake.set()

    def _measure(self, change: Change) -> None:
        if change.status is not Status.RUNNING or change.stage is not Stage.WATCHING:
            if self._measuring is not None:
                self._measuring.cancel()
            self._measuring = None
        elif self._measuring is None and self.measure is not None:
            trio = self.sight.trio(change)
            if trio is not None:
                self._measuring = asyncio.ensure_future(self.measure(trio))

    def _note_profiles(self) -> None:
        kept = self.kept
        if kept is not None and self.is_running:
            found = aims(kept.change, self.sight.rules).values()
            profiles = [kept.spec(aim.slot).profile for aim in found if aim.slot is not None]
        else:
            profiles = [spec.profile for spec in self._own]
        self.profiles.clear()
        self.profiles.update({profile.name: profile for profile in profiles})


def _read(row: RollingChange | None) -> Kept | None:
    if row is None:
        return None
    try:
        return from_row(row)
    except (KeyError, TypeError, ValueError) as error:
        log.error("rolling change %d cannot be read and is left: %s", row.number, error)  # noqa: TRY400 - one line says it
        return None


def _entry(step: Step, change: Change, now: float) -> AuditEntry:
    worker = change.moves[step.move].worker if step.move >= 0 else FLEET
    told = {
        Do.HALT: f"halted, going back: {step.why}",
        Do.DONE: f"done: {step.why}",
        Do.RETURNED: f"returned: {step.why}",
    }.get(step.do, step.why)
    detail = {"step": step.do.value, "at": change.at + 1, "of": len(change.moves)}
    return AuditEntry(now, AuditKind.FLEET, worker, told, detail)


def _end_of(change: Change) -> tuple[Slot, ...]:
    return change.after if change.status is Status.DONE else change.before


def _differs(ours: Sequence[WorkerSpec], theirs: Sequence[WorkerSpec]) -> bool:
    return list(ours) != list(own_workers(theirs))


def _wishes(change: Change, found: Mapping[str, Aim]) -> dict[str, Wanted]:
    at = change.moves[change.at].worker if change.at < len(change.moves) else ""
    is_brought = change.stage in (Stage.BRINGING, Stage.WATCHING)
    return {
        name: Wanted(
            # What is to be watched has to serve; all else is left to the others.
            wish=Wish.READY if is_brought and name == at else None,
            restart_at=aim.acted_at,
            pardon_at=aim.acted_at,
            why="rolling change",
            share=aim.share,
        )
        for name, aim in found.items()
        if aim.is_ours
    }


async def _as_they_run(kept: Kept, sight: Sight) -> list[WorkerSpec]:
    """Return each worker as its process runs, the old or the new; else as it is to be.

    Those on their way out are among them: they are to be drained, not killed.
    """
    change = kept.change
    found = aims(change, sight.rules)
    slots = {name: [aim.slot] for name, aim in found.items()}
    for _, move in started(change):
        slots[move.worker] += [move.old, move.new]
    specs = []
    for candidates in slots.values():
        possible = [kept.spec(slot) for slot in candidates if slot is not None]
        running = [spec for spec in possible if await sight.supervisor.runs(spec)]
        if running:
            specs.append(running[0])
        elif candidates[0] is not None:
            specs.append(kept.spec(candidates[0]))
    return specs
