"""The memory ladders of all workers: down a step at each death for want of memory, up in time."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from ds4watch.fleet.memory_ladder import (
    Ladder,
    Step,
    all_stepped,
    eased,
    gone_down,
    is_step_back_due,
    next_step,
)
from ds4watch.fleet.oom import Oom, OomKind
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.model.ports import Clock

log = logging.getLogger(__name__)

GOOD_SECONDS = 86_400.0


class LadderJournal(Protocol):
    """Where ladders are kept, and told; must not raise."""

    async def ladder_changed(
        self, worker_id: str, told: str, ladders: Mapping[str, Ladder]
    ) -> None:
        """Keep all ladders that have steps, and tell what changed for one worker."""
        ...


class NoJournal:
    """Keeps nothing."""

    async def ladder_changed(
        self, worker_id: str, told: str, ladders: Mapping[str, Ladder]
    ) -> None:
        """Log it."""
        log.info("%s: %s (%d ladders in all)", worker_id, told, len(ladders))


@dataclass(frozen=True, slots=True)
class OomCount:
    """How often a worker died for want of memory since the daemon's start."""

    worker: str
    kind: OomKind
    deaths: int


class Ladders:
    """The steps each worker has gone down. What is to be started is `lowered` by them."""

    def __init__(
        self,
        known: Mapping[str, Ladder],
        journal: LadderJournal,
        clock: Clock,
        *,
        good_seconds: float = GOOD_SECONDS,
    ) -> None:
        """Go on from `known`, by worker id. A step is taken back after `good_seconds` without."""
        self._ladders = dict(known)
        self._journal = journal
        self._clock = clock
        self._good_seconds = good_seconds
        self._deaths: Counter[tuple[str, OomKind]] = Counter()

    def of(self, worker_id: str) -> Ladder:
        """Return a worker's ladder."""
        return self._ladders.get(worker_id, Ladder())

    def deaths(self) -> tuple[OomCount, ...]:
        """Return how often workers died for want of memory."""
        return tuple(OomCount(name, kind, n) for (name, kind), n in sorted(self._deaths.items()))

    def lowered(self, spec: WorkerSpec) -> WorkerSpec:
        """Return what is to be run for a spec."""
        steps = self.of(spec.id).steps
        return replace(spec, profile=all_stepped(spec.profile, steps)) if steps else spec

    def is_step_back_due(self, worker_id: str) -> bool:
        """Return whether the next start will try with one step less."""
        return is_step_back_due(self.of(worker_id), self._clock.now(), self._good_seconds)

    async def before_start(self, spec: WorkerSpec) -> WorkerSpec:
        """Take a step back that has held for long, and return what is to be run."""
        if self.is_step_back_due(spec.id):
            ladder = self.of(spec.id)
            told = f"memory held for long: started without the step to {ladder.steps[-1]}"
            await self._set(spec.id, eased(ladder, self._clock.now()), told)
        return self.lowered(spec)

    async def died(self, spec: WorkerSpec, oom: Oom) -> Step | None:
        """Go a step down after a death; None, and nothing changes, at the ladder's end."""
        self._deaths[spec.id, oom.kind] += 1
        ladder = self.of(spec.id)
        step = next_step(spec.profile, oom, ladder.steps)
        if step is None:
            return None
        told = f"out of memory ({oom.kind}): from now on started with {step}"
        below = gone_down(ladder, step, self._clock.now(), self._good_seconds)
        await self._set(spec.id, below, told)
        return step

    async def forget(self, worker_id: str, told: str) -> None:
        """Let a worker be started as its profile says again."""
        if worker_id in self._ladders:
            await self._set(worker_id, None, told)

    async def _set(self, worker_id: str, ladder: Ladder | None, told: str) -> None:
        if ladder is None:
            self._ladders.pop(worker_id, None)
        else:
            self._ladders[worker_id] = ladder
        await self._journal.ladder_changed(worker_id, told, dict(self._ladders))
