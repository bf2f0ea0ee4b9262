"""A fleet in virtual time: slots, a queue in front, workers that take minutes to start.

Second by second, as a fluid: who runs leaves at the mean rate of the trace's answers, who waits
takes the free slots in order of arrival, who would wait for over a minute goes away. A request is
late if its first token comes after 1.2 s (its wait and its prefill), or never. GPU-hours count
from the command to start until the stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from benchmarks.support.provision_load import Floats, Load

LATE_SECONDS = 1.2
PREFILL_SECONDS = 0.3
PATIENCE_SECONDS = 60.0
SLOTS = 8
MOST_WORKERS = 24
LOOK_SECONDS = 15
_COLD_MEDIAN_SECONDS = 300.0
_COLD_SPREAD = 0.2
_PRICE_HOURS = 3600.0


class Starts:
    """Start-up times of one run, drawn by chance."""

    def __init__(self, seed: int, median_seconds: float = _COLD_MEDIAN_SECONDS) -> None:
        chance = np.random.default_rng(seed)
        self._drawn = median_seconds * chance.lognormal(0, _COLD_SPREAD, 20_000)
        self._next = 0

    def draw(self) -> float:
        """Return the next."""
        self._next += 1
        return float(self._drawn[self._next % len(self._drawn)])


@dataclass(slots=True)
class Fleet:
    """Workers by number: those that are ready, and when others will be."""

    starts: Starts
    ready: list[int] = field(default_factory=list)
    coming: dict[int, float] = field(default_factory=dict)
    took: list[float] = field(default_factory=list)
    """Start-up times as they became known."""
    _ask: dict[int, float] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Workers that are paid for."""
        return len(self.ready) + len(self.coming)

    def start(self, worker: int, now: float) -> None:
        """Begin to start a worker."""
        seconds = self.starts.draw()
        self.coming[worker], self._ask[worker] = now + seconds, seconds

    def stop(self, worker: int) -> None:
        """Stop a worker."""
        if worker in self.ready:
            self.ready.remove(worker)
        else:
            del self.coming[worker]

    def come_up(self, now: float) -> None:
        """Make ready whoever's time has come."""
        for worker in [it for it, at in self.coming.items() if at <= now]:
            del self.coming[worker]
            self.took.append(self._ask[worker])
            self.ready.append(worker)

    def scale(self, wanted: int, now: float) -> None:
        """Start or stop as many as it takes; who is not ready yet is stopped first."""
        while self.count > wanted:
            self.stop(next(iter(self.coming), self.ready[-1] if self.ready else 0))
        free = (it for it in range(MOST_WORKERS) if it not in self.ready and it not in self.coming)
        while self.count < min(wanted, MOST_WORKERS):
            self.start(next(free), now)


class Scaler(Protocol):
    """Who decides, every `LOOK_SECONDS`."""

    def look(self, fleet: Fleet, now: float, running: float, waiting: float) -> None:
        """Start and stop workers."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    requests: float
    late: float
    gpu_hours: float
    changes: int

    @property
    def late_ratio(self) -> float:
        """Share of requests whose first token came late."""
        return self.late / self.requests


def total(outcomes: Sequence[Outcome]) -> Outcome:
    """Return several runs as one."""
    return Outcome(
        sum(it.requests for it in outcomes),
        sum(it.late for it in outcomes),
        sum(it.gpu_hours for it in outcomes),
        sum(it.changes for it in outcomes),
    )


class Lane:
    """The arrivals of a load as the simulation wants them; made once for all runs over it."""

    def __init__(self, load: Load, first_second: int) -> None:
        self.leaves = 1 / load.service_seconds
        self.per_second = load.per_second[first_second:].tolist()
        running = _unlimited(load.per_second, self.leaves)[first_second:]
        self.running: list[float] = running.tolist()
        self.peaks: list[float] = running.reshape(-1, LOOK_SECONDS).max(axis=1).tolist()
        self.first_second = first_second


def run(lane: Lane, scaler: Scaler, fleet: Fleet) -> Outcome:
    """Run a fleet under a scaler over a lane."""
    waiting, late, paid, changes = 0.0, 0.0, 0.0, 0
    running, is_free = lane.running[0], True
    for look, peak in enumerate(lane.peaks):
        second = look * LOOK_SECONDS
        now = float(lane.first_second + second)
        before = fleet.count
        fleet.come_up(now)
        scaler.look(fleet, now, running, waiting)
        changes += abs(fleet.count - before)
        paid += fleet.count * LOOK_SECONDS
        room = len(fleet.ready) * SLOTS
        until = second + LOOK_SECONDS
        if is_free and peak <= room:
            running = lane.running[until - 1]
            continue
        running, waiting, more = _crowded(lane, second, running, waiting, room)
        late += more
        is_free = waiting <= 0 and abs(running - lane.running[until - 1]) < 0.5
    requests = sum(lane.per_second)
    return Outcome(requests, late, paid / _PRICE_HOURS, changes)


def _crowded(
    lane: Lane, second: int, running: float, waiting: float, room: int
) -> tuple[float, float, float]:
    """Return who runs, who waits and who is late after a time in which slots may be short."""
    late = 0.0
    pace = max(room * lane.leaves, 1e-9)
    bearable = (LATE_SECONDS - PREFILL_SECONDS) * pace
    most = PATIENCE_SECONDS * pace
    for arrived in lane.per_second[second : second + LOOK_SECONDS]:
        running -= running * lane.leaves
        waiting += arrived
        begin = min(waiting, max(0.0, room - running))
        running += begin
        waiting -= begin
        if waiting > bearable:
            late += arrived
            waiting = min(waiting, most)
    return running, waiting, late


def _unlimited(per_second: Floats, leaves: float) -> Floats:
    """Return who would run if slots were never short."""
    stays, now, found = 1 - leaves, 0.0, []
    for arrived in per_second.tolist():
        now = now * stays + arrived
        found.append(now)
    return np.array(found)
