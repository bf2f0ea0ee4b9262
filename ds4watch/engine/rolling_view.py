"""What a rolling change sees of the fleet: how workers stand, holds, what was measured."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ds4watch.config.profile import Engine
from ds4watch.config.settings import FleetSettings
from ds4watch.engine.parts import Known
from ds4watch.engine.rolling_files import FleetFiles
from ds4watch.engine.tallies import Tallies
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.rolling import Change, Rules, Stage, Standing, World, peers
from ds4watch.fleet.rolling_watch import Baseline, Evidence, Quality, Tolerance, baseline, tally
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.fleet.wish import By, Wish
from ds4watch.model.action import Hold
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.scrape.gpu import GpuReport
from ds4watch.telemetry.own_lag import OwnLag

_EMPTY_RATIO = 0.1
_STARVED_RATIO = 0.1
FLEET = "fleet"
"""What a hold on rolling changes is placed on; one on `*` holds them too."""


class Trio(NamedTuple):
    """A worker on the new, one on the old, one of the reference; None where there is none."""

    new: WorkerView
    old: WorkerView | None
    reference: WorkerView | None


Measure = Callable[[Trio], Awaitable[Quality | None]]


@dataclass(frozen=True, slots=True)
class Sight:
    """Where to look."""

    supervisor: Supervisor
    known: Known
    tallies: Tallies
    files: FleetFiles
    rules: Rules
    clock: Clock
    lag: OwnLag = field(default_factory=OwnLag)

    def world(self, change: Change, measuring: asyncio.Task[Quality | None] | None) -> World:
        """Return what is seen now."""
        is_measured = measuring is not None and measuring.done() and not measuring.cancelled()
        quality = measuring.result() if measuring is not None and is_measured else None
        return World(
            workers={view.id: self._standing(view) for view in self.supervisor.views()},
            held=held(self.known.holds, change, self.clock.now()),
            is_measuring=measuring is not None and not measuring.done(),
            steered=frozenset(
                name
                for name, wanted in self.supervisor.wishes_of(By.PERSON).items()
                if wanted.wish not in (None, Wish.READY)
            ),
            evidence=self._evidence(change, quality),
        )

    def baselines(self, change: Change) -> Mapping[str, Baseline]:
        """Return what the move about to be watched is compared with once no old one is left."""
        _, old = peers(change)
        seen = baseline(tally(self.tallies.since(old, change.begun_at)))
        profile = change.moves[change.at].profile
        return {**change.baselines, profile: seen} if seen.total else change.baselines

    def trio(self, change: Change) -> Trio | None:
        """Return who is to be asked for the quality of a new version; None if it is known."""
        move = change.moves[change.at]
        is_known = any(it.revision == getattr(move.new, "revision", "") for it in change.before)
        views = {view.id: view for view in self.supervisor.views()}
        if is_known or move.profile in change.trusted or move.worker not in views:
            return None
        profile = self.supervisor.spec_of(move.worker).profile
        ready = [view for view in views.values() if view.phase is WorkerPhase.READY]
        _, old = peers(change)
        return Trio(
            new=views[move.worker],
            old=next((it for it in ready if it.id in old and it.profile == move.profile), None),
            reference=next((it for it in ready if it.profile == profile.reference), None),
        )

    def _standing(self, view: WorkerView) -> Standing:
        spec = self.supervisor.spec_of(view.id)
        limits = self.supervisor.limits_of(view.id)
        return Standing(
            phase=view.phase,
            revision="" if spec.url is not None else self.files.revision(spec),
            reason=view.reason,
            patience_seconds=limits.start_timeout_seconds + limits.drain_seconds,
        )

    def _evidence(self, change: Change, quality: Quality | None) -> Evidence | None:
        if change.stage is not Stage.WATCHING or change.at >= len(change.moves):
            return None
        new, old = peers(change)
        start = change.since + self.rules.settle_seconds
        beside = tally(self.tallies.since(old, start))
        if beside.total < self.rules.min_requests:
            beside = tally(self.tallies.since(old, change.begun_at))
        compared = baseline(beside)
        if not compared.total:
            compared = change.baselines.get(change.moves[change.at].profile, compared)
        answers = self.tallies.since(new, start)
        return Evidence(
            tally(answers),
            compared,
            quality,
            new_times=tuple(answers),
            old_times=tuple(self.tallies.since(old, start)),
            was_starved=self._was_starved(start),
        )

    def _was_starved(self, start: UnixSeconds) -> bool:
        """Return whether this process did not get to run for a good part of the time since."""
        seconds = self.clock.now() - start
        since = self.clock.monotonic() - seconds
        return self.lag.lost_seconds(since) > _STARVED_RATIO * seconds > 0


def rolling_rules(fleet: FleetSettings) -> Rules:
    """Return what rolling changes go by, from the settings."""
    own = fleet.rolling
    return Rules(
        min_hot=fleet.min_hot,
        canary_ratio=own.canary_ratio,
        settle_seconds=own.settle_seconds,
        watch_seconds=own.watch_seconds,
        watch_max_seconds=own.watch_max_seconds,
        min_requests=own.min_requests,
        tolerance=Tolerance(
            error_margin_ratio=own.error_margin_ratio,
            latency_margin_ratio=own.latency_margin_ratio,
            quality_margin_nats=own.quality_margin_nats,
        ),
    )


def room(report: GpuReport, specs: Sequence[WorkerSpec], *, most: int) -> int:
    """Return how many workers more than usual there is room for, `most` at most.

    A worker of vLLM takes a GPU that is empty; without a reading, none is known to be.
    """
    if not report.has_gpu or all(spec.profile.engine is not Engine.VLLM for spec in specs):
        return most
    empty = sum(
        it.memory_used_bytes is not None
        and it.memory_total_bytes is not None
        and it.memory_used_bytes < _EMPTY_RATIO * it.memory_total_bytes
        for it in report.readings
    )
    return min(most, empty)


def held(holds: Sequence[Hold], change: Change, now: UnixSeconds) -> str:
    """Return whose hold stands in the way, in words; empty if nobody's does."""
    at = change.moves[change.at].worker if change.at < len(change.moves) else ""
    found = next((it for it in holds if it.until_at > now and it.target in ("*", FLEET, at)), None)
    return "" if found is None else f"{found.who} holds {found.target}: {found.why}"
