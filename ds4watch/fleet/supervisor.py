"""Tends the workers: one task a worker, looking at it twice a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ds4watch.fleet.backends import Backend
from ds4watch.fleet.deeds import Deeds
from ds4watch.fleet.kernel_kills import kernel_kills
from ds4watch.fleet.ladders import Ladders, NoJournal
from ds4watch.fleet.life import Deed, Life, LifeLimits, awaited, came_up, could_not_start, started
from ds4watch.fleet.lifecycle import advance, deed, is_as_wished, served, wished
from ds4watch.fleet.log_room import LogRoom
from ds4watch.fleet.pool import Facts
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.ring_log import trim
from ds4watch.fleet.start_times import StartTimes
from ds4watch.fleet.stillness import still_seconds
from ds4watch.fleet.tended import Stay, Tended, has_left, limits_for, resumed
from ds4watch.fleet.wish import By, Wanted, Wish, merged, taken
from ds4watch.model.errors import WorkerError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.worker import FleetSnapshot, WorkerLoad, WorkerPhase, WorkerView

if TYPE_CHECKING:
    from ds4watch.fleet.client import WorkerClient

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_TRIM_SECONDS = 10.0
_DISMISSED = Wanted(Wish.STOPPED, why="no longer in the fleet")


class Journal(Protocol):
    """Who is told what becomes of workers; must not raise."""

    async def worker_changed(self, view: WorkerView, old: WorkerPhase) -> None:
        """Note a change of phase."""
        ...

    async def worker_came_up(self, view: WorkerView, took_seconds: float) -> None:
        """Note how long it took from process start to the first answered canary."""
        ...


class Supervisor:
    """Keeps each worker what it is wished to be: starts, asks, drains, puts to sleep, stops."""

    def __init__(
        self,
        backend: Backend,
        client_of: Callable[[str], WorkerClient],
        *,
        limits: LifeLimits,
        journal: Journal,
        clock: Clock,
        start_times: StartTimes | None = None,
        ladders: Ladders | None = None,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        self._look_seconds = look_seconds
        self._backend = backend
        self.ladders = ladders or Ladders({}, NoJournal(), clock)
        self.deeds = Deeds(backend, client_of, clock, self.ladders)
        self._limits = limits
        self._journal = journal
        self._clock = clock
        self.start_times = start_times or StartTimes()
        self._workers: dict[str, Tended] = {}
        self._wishes: dict[By, Mapping[str, Wanted]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._broken: asyncio.Queue[asyncio.Task[None]] = asyncio.Queue()
        """Tasks that ended by a fault of ours."""
        self._begun = False
        self._log_room = LogRoom()

    async def start(self, specs: Sequence[WorkerSpec], before: FleetSnapshot) -> None:
        """Adopt what still runs, end what is no longer wanted, begin to tend the rest.

        before: the fleet as the last daemon saw it; who was ready goes on serving, and who was
        quarantined is not started.
        """
        adopted = await self._backend.adopt([self.ladders.lowered(spec) for spec in specs])
        self.deeds.keys.keep_only({spec.id for spec in specs})
        last = {view.id: view for view in before.workers}
        for spec in specs:
            if spec.id in adopted:
                log.info("%s: adopted, process %s", spec.id, self._backend.pid(spec))
            life = adopted.get(spec.id, Life(since=self._clock.now()))
            view = last.get(spec.id)
            self._take_on(spec, life if view is None else resumed(life, spec, view, self._backend))
        self._begun = True

    async def manage(self, specs: Sequence[WorkerSpec]) -> None:
        """Make `specs` the fleet: new ones are started, missing ones drained, stopped, forgotten.

        One whose spec differs goes on as it is; the new spec is what its next start runs.
        """
        wanted = {spec.id: spec for spec in specs}
        for name, worker in self._workers.items():
            worker.leaves = name not in wanted
            spec = wanted.get(name, worker.spec)
            worker.next_spec = spec if spec != worker.spec else None
        for name, spec in wanted.items():
            if name not in self._workers:
                self._take_on(spec, Life(since=self._clock.now()))
        await self._follow()

    async def wish(self, by: By, wanted: Mapping[str, Wanted]) -> None:
        """Make this all that `by` wishes, by worker id; who is to leave leaves the routing now."""
        self._wishes[by] = dict(wanted)
        await self._follow()

    def wanted(self, worker_id: str) -> Wanted:
        """Return what a worker is to be when all are heard."""
        worker = self._workers.get(worker_id)
        leaves = worker is not None and worker.leaves
        return _DISMISSED if leaves else merged(self._wishes, worker_id)

    def stopped(self) -> frozenset[str]:
        """Return the workers that are to be stopped, by whose wish ever."""
        return frozenset(it for it in self._workers if self.wanted(it).wish is Wish.STOPPED)

    def wishes_of(self, by: By) -> Mapping[str, Wanted]:
        """Return what one of those who wish does, by worker id."""
        return self._wishes.get(by, {})

    def limits_of(self, worker_id: str) -> LifeLimits:
        """Return what the machine goes by for a worker."""
        worker = self._workers[worker_id]
        return limits_for(self._limits, worker, self.start_times)

    def views(self) -> tuple[WorkerView, ...]:
        """Return every worker as it stands, in a stable order."""
        return tuple(
            replace(worker.view(self._backend), share=self.wanted(name).share)
            for name, worker in self._workers.items()
        )

    def spec_of(self, worker_id: str) -> WorkerSpec:
        """Return what a worker runs, or ran last."""
        return self._workers[worker_id].spec

    async def runs(self, spec: WorkerSpec) -> bool:
        """Return whether a process runs as that very spec has it; also before it is adopted."""
        return await self._backend.runs(self.ladders.lowered(spec))

    async def started_at(self, spec: WorkerSpec) -> UnixSeconds | None:
        """Return when the process of a worker was started; None if none runs. As `runs`."""
        return await self._backend.started_at(spec)

    def facts(self, above: By = By.WARM_POOL) -> dict[str, Facts]:
        """Return what the warm pool, or who is above it, goes by: taken is whom others decide."""
        others = taken(self._wishes, above)
        return {name: it.facts(is_taken=name in others) for name, it in self._workers.items()}

    def warm(self, worker_id: str) -> None:
        """Have a ready worker warmed up again, beside what it does."""
        self._workers[worker_id].is_to_warm = True

    def stays(self) -> tuple[Stay, ...]:
        """Return how the time of every worker went."""
        now = self._clock.now()
        return tuple(worker.stay(now) for worker in self._workers.values())

    def waiting_for(self) -> tuple[str, ...]:
        """Return a line for each worker that is not as wished: what is awaited, for how long."""
        if not self._begun:
            return ("the gateway; no worker is looked at before it listens",)
        now = self._clock.now()
        return tuple(
            f"{awaited(name, worker.life)} "
            f"({now - worker.life.since:.0f} s; log: {self._backend.log_path(worker.spec)})"
            for name, worker in self._workers.items()
            if not is_as_wished(worker.life, self.wanted(name), self.limits_of(name), now)
        )

    def log_path(self, worker_id: str) -> Path:
        """Return where a worker's output goes."""
        return self._backend.log_path(self._workers[worker_id].spec)

    def note(
        self,
        loads: Mapping[str, WorkerLoad],
        progress: Mapping[str, float],
        scraped_at: Mapping[str, UnixSeconds],
    ) -> None:
        """Take in what the last scrapes showed: load, and counters that prove progress.

        scraped_at: of those that were scraped anew.
        """
        now = self._clock.now()
        for name, worker in self._workers.items():
            load = loads.get(name, WorkerLoad())
            worker.note(load, progress.get(name), scraped_at.get(name), now)

    def note_prefill(self, rates: Mapping[str, float | None]) -> None:
        """Take in measured prefill rates, in tokens a second."""
        for name, worker in self._workers.items():
            worker.prefill_rate = rates.get(name)

    def note_devices(self, used_ratio: float | None) -> None:
        """Take in how full the fullest device of this host is; None if that is not known."""
        self.deeds.note_devices(used_ratio)

    def note_served(self, answers: Iterable[tuple[str, UnixSeconds]]) -> None:
        """Take in who answered a request to its end, and when: proof also where scrapes fail."""
        for name, at in answers:
            worker = self._workers.get(name)
            if worker is not None:
                worker.life = served(worker.life, min(at, self._clock.now()))
                worker.idle_since = None

    def in_doubt(self) -> frozenset[str]:
        """Return the ready workers that left their last canary unanswered."""
        return frozenset(
            name
            for name, worker in self._workers.items()
            if worker.life.phase is WorkerPhase.READY and worker.life.canary_failures
        )

    def standstills(self) -> dict[str, float]:
        """Return for ready workers whose load is known how long their requests stand still."""
        now = self._clock.now()
        return {
            name: still_seconds(worker.still, now)
            for name, worker in self._workers.items()
            if worker.life.phase is WorkerPhase.READY and worker.load != WorkerLoad()
        }

    async def watch(self) -> None:
        """Wait until the care of a worker breaks, and raise what broke it.

        The daemon is to end by it: workers and gateways go on for the next one, and nobody is left
        unwatched in silence.
        """
        task = await self._broken.get()
        log.error("%s broke", task.get_name())
        task.result()

    async def leave(self) -> None:
        """Stop tending; the workers go on, for the next daemon to adopt."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self) -> bool:
        """Stop tending and stop the workers. Returns False if something could not be killed."""
        await self.leave()
        workers = list(self._workers.values())
        running = [it for it in workers if it.life.phase is not WorkerPhase.QUARANTINED]
        for worker in running:
            await self._move(worker, replace(worker.life, phase=WorkerPhase.STOPPING))
        gone = await asyncio.gather(*(self._backend.stop(worker.spec) for worker in workers))
        for worker in running:
            stopped = replace(worker.life, phase=WorkerPhase.ABSENT, reason="stopped")
            await self._move(worker, stopped)
        return all(gone)

    def _take_on(self, spec: WorkerSpec, life: Life) -> None:
        now = self._clock.now()
        worker = self._workers[spec.id] = Tended(spec, life, now)
        worker.running = self.ladders.lowered(spec)
        worker.api_key_file = self.deeds.keys.join(spec)
        worker.had_served = life.phase is WorkerPhase.READY
        worker.kernel_kills = kernel_kills()
        worker.life = wished(life, self.wanted(spec.id), self.limits_of(spec.id), now)
        task = asyncio.create_task(self._tend(worker), name=f"tend {spec.id}")
        task.add_done_callback(self._note_end)
        self._tasks[spec.id] = task

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._broken.put_nowait(task)

    async def _follow(self) -> None:
        """Take the steps that wishes ask for at once; what has to be done is left to the tasks."""
        for worker in list(self._workers.values()):
            await self._move(worker, self._wished(worker, worker.life))

    def _wished(self, worker: Tended, life: Life) -> Life:
        name = worker.spec.id
        limits, now = self.limits_of(name), self._clock.now()
        return wished(life, self.wanted(name), limits, now, worker.work)

    async def _tend(self, worker: Tended) -> None:
        trimmed_at = self._clock.monotonic()
        while not (worker.leaves and has_left(worker)):
            try:
                await self._look(worker)
            except WorkerError as error:
                if str(error) != worker.life.reason:
                    log.warning("%s: %s", worker.spec.id, error)
                now = self._clock.now()
                failed = could_not_start(worker.life, str(error), self._limits, now)
                await self._move(worker, failed)
            if self._clock.monotonic() - trimmed_at >= _TRIM_SECONDS:
                trimmed_at = self._clock.monotonic()
                worker.kernel_kills = kernel_kills()
                await self._trim(worker)
            await asyncio.sleep(self._look_seconds)
        del self._workers[worker.spec.id], self._tasks[worker.spec.id]

    async def _look(self, worker: Tended) -> None:
        name = worker.spec.id
        await self._move(worker, self._wished(worker, worker.life))
        limits = self.limits_of(name)
        todo = deed(worker.life, limits, self._clock.now(), self.wanted(name), worker.work)
        todo = worker.next_deed(todo)
        if todo is Deed.START:
            await self._start(worker)
            return
        failures = worker.life.canary_failures
        seen = await self.deeds.do(worker, todo, limits)
        life = advance(worker.life, seen, limits, self._clock.now(), worker.work)
        if life.canary_failures > failures:
            log.warning("%s: a canary was not answered: %s", name, seen.detail)
        await self._move(worker, self._wished(worker, life))

    async def _start(self, worker: Tended) -> None:
        preparing = self._backend.preparing(worker.spec)
        if preparing:
            worker.life = replace(worker.life, reason=preparing)
            log.info("%s: %s", worker.spec.id, preparing)
        await self._log_room.look(self._backend.log_path(worker.spec).parent)
        await self.deeds.start(worker)
        await self._move(worker, started(worker.life, self._clock.now()))

    async def _trim(self, worker: Tended) -> None:
        path = self._backend.log_path(worker.spec)
        if await asyncio.to_thread(trim, path):
            worker.log_begins_at = 0
        await self._log_room.look(path.parent)

    async def _move(self, worker: Tended, life: Life) -> None:
        old, now = worker.life, self._clock.now()
        if life.phase is not old.phase:
            worker.count_stay(now)
        worker.life = life
        worker.had_served |= life.phase is WorkerPhase.READY
        if life.phase is old.phase:
            return
        view = worker.view(self._backend)
        await self._journal.worker_changed(view, old.phase)
        if came_up(old, life):
            took = now - life.started_at
            self.start_times.note(view.profile, took)
            await self._journal.worker_came_up(view, took)
