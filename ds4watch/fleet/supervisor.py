"""Tends the workers: one task a worker, looking at it twice a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ds4watch.fleet.backend import LocalBackend, WorkerSpec
from ds4watch.fleet.last_words import last_words, size_of
from ds4watch.fleet.life import (
    Deed,
    Life,
    LifeLimits,
    Seen,
    could_not_start,
    started,
    still_ready,
)
from ds4watch.fleet.lifecycle import advance, deed, progressed, served
from ds4watch.fleet.stillness import Stillness, canary_ended, canary_sent, looked, still_seconds
from ds4watch.model.errors import WorkerError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.worker import FleetSnapshot, WorkerLoad, WorkerPhase, WorkerView

if TYPE_CHECKING:
    from ds4watch.fleet.client import WorkerClient

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5


class Journal(Protocol):
    """Who is told when a worker changes its phase."""

    async def worker_changed(self, view: WorkerView, old: WorkerPhase) -> None:
        """Note the change; must not raise."""
        ...


class _Tended:
    """A worker and what is known of it; changed by its own task only."""

    def __init__(self, spec: WorkerSpec, life: Life) -> None:
        self.spec = spec
        self.life = life
        self.load = WorkerLoad()
        self.last_load = WorkerLoad()
        """As last reported, however long ago; for the story of its end."""
        self.progress: float | None = None
        self.still = Stillness()
        self.log_begins_at = 0

    def moved(self, load: WorkerLoad, progress: float | None) -> bool:
        """Return whether the engine did something since the last look.

        A prefill in chunks moves the KV cache's gauge, and no counter before its first token.
        """
        pairs = ((progress, self.progress), (load.kv_usage_ratio, self.load.kv_usage_ratio))
        return any(new is not None and old is not None and new != old for new, old in pairs)

    def view(self, backend: LocalBackend) -> WorkerView:
        life = self.life
        return WorkerView(
            id=self.spec.id,
            profile=self.spec.profile.name,
            models=self.spec.profile.served_names,
            url=backend.url(self.spec),
            phase=life.phase,
            since=life.since,
            load=self.load,
            reason=life.reason,
            pid=backend.pid(self.spec),
        )


class Supervisor:
    """Keeps the fleet running: start, canary, restart with back-off, stop."""

    def __init__(
        self,
        backend: LocalBackend,
        client_of: Callable[[str], WorkerClient],
        *,
        limits: LifeLimits,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._backend = backend
        self._client_of = client_of
        self._limits = limits
        self._journal = journal
        self._clock = clock
        self._workers: dict[str, _Tended] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._begun = False

    async def start(self, specs: Sequence[WorkerSpec], before: FleetSnapshot) -> None:
        """Adopt what still runs, end what is no longer wanted, begin to tend the rest.

        before: the fleet as the last daemon saw it; who was ready goes on serving.
        """
        adopted = await self._backend.adopt(specs)
        now = self._clock.now()
        for spec in specs:
            life = adopted.get(spec.id, Life(since=now))
            for view in before.workers:
                if view.phase is WorkerPhase.READY and self._is_same(spec, view):
                    life = still_ready(life, view.since)
            self._workers[spec.id] = _Tended(spec, life)
            if spec.id in adopted:
                log.info("%s: adopted, process %s", spec.id, self._backend.pid(spec))
        self._tasks = [
            asyncio.create_task(self._tend(worker), name=f"tend {worker.spec.id}")
            for worker in self._workers.values()
        ]
        self._begun = True

    def views(self) -> tuple[WorkerView, ...]:
        """Return every worker as it stands, in a stable order."""
        return tuple(worker.view(self._backend) for worker in self._workers.values())

    def waiting_for(self) -> tuple[str, ...]:
        """Return a line for each worker that is not ready: what is awaited, for how long."""
        if not self._begun:
            return ("the gateway; no worker is looked at before it listens",)
        now = self._clock.now()
        return tuple(
            f"{worker.spec.id}: {worker.life.reason or worker.life.phase.value} "
            f"({now - worker.life.since:.0f} s; log: {self._backend.log_path(worker.spec)})"
            for worker in self._workers.values()
            if worker.life.phase is not WorkerPhase.READY
        )

    def log_path(self, worker_id: str) -> Path:
        """Return where a worker's output goes."""
        return self._backend.log_path(self._workers[worker_id].spec)

    def note(self, loads: Mapping[str, WorkerLoad], progress: Mapping[str, float]) -> None:
        """Take in what the last scrapes showed: load, and counters that prove progress."""
        now = self._clock.now()
        for worker in self._workers.values():
            load = loads.get(worker.spec.id, WorkerLoad())
            counter = progress.get(worker.spec.id)
            moved = worker.moved(load, counter)
            if moved:
                worker.life = progressed(worker.life, now)
            worker.still = looked(worker.still, load, now, moved=moved)
            worker.load, worker.progress = load, counter
            if load != WorkerLoad():
                worker.last_load = load

    def note_served(self, answers: Iterable[tuple[str, UnixSeconds]]) -> None:
        """Take in who answered a request to its end, and when: proof also where scrapes fail."""
        for name, at in answers:
            worker = self._workers.get(name)
            if worker is not None:
                worker.life = served(worker.life, min(at, self._clock.now()))

    def in_doubt(self) -> frozenset[str]:
        """Return the ready workers that left their last canary unanswered."""
        return frozenset(
            worker.spec.id
            for worker in self._workers.values()
            if worker.life.phase is WorkerPhase.READY and worker.life.canary_failures
        )

    def standstills(self) -> dict[str, float]:
        """Return for ready workers whose load is known how long their requests stand still."""
        now = self._clock.now()
        return {
            worker.spec.id: still_seconds(worker.still, now)
            for worker in self._workers.values()
            if worker.life.phase is WorkerPhase.READY and worker.load != WorkerLoad()
        }

    async def leave(self) -> None:
        """Stop tending; the workers go on, for the next daemon to adopt."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def stop(self) -> bool:
        """Stop tending and stop the workers. Returns False if something could not be killed."""
        await self.leave()
        for worker in self._workers.values():
            await self._move(worker, replace(worker.life, phase=WorkerPhase.STOPPING))
        gone = await asyncio.gather(
            *(self._backend.stop(worker.spec) for worker in self._workers.values())
        )
        for worker in self._workers.values():
            stopped = replace(worker.life, phase=WorkerPhase.ABSENT, reason="stopped")
            await self._move(worker, stopped)
        return all(gone)

    def _is_same(self, spec: WorkerSpec, view: WorkerView) -> bool:
        own = (spec.id, self._backend.url(spec), self._backend.pid(spec))
        return own == (view.id, view.url, view.pid)

    async def _tend(self, worker: _Tended) -> None:
        while True:
            try:
                await self._look(worker)
            except WorkerError as error:
                log.warning("%s: %s", worker.spec.id, error)
                now = self._clock.now()
                failed = could_not_start(worker.life, str(error), self._limits, now)
                await self._move(worker, failed)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self, worker: _Tended) -> None:
        todo = deed(worker.life, self._limits, self._clock.now())
        if todo is Deed.START:
            await self._start(worker)
            return
        before = worker.life
        seen = await self._see(worker, todo)
        life = advance(worker.life, seen, self._limits, self._clock.now())
        if life.canary_failures > before.canary_failures:
            log.warning("%s: a canary was not answered: %s", worker.spec.id, seen.detail)
        await self._move(worker, life)

    async def _start(self, worker: _Tended) -> None:
        preparing = self._backend.preparing(worker.spec)
        if preparing:
            worker.life = replace(worker.life, reason=preparing)
            log.info("%s: %s", worker.spec.id, preparing)
        worker.log_begins_at = size_of(self._backend.log_path(worker.spec))
        worker.last_load, worker.still = WorkerLoad(), Stillness()
        await self._backend.start(worker.spec)
        await self._move(worker, started(worker.life, self._clock.now()))

    async def _see(self, worker: _Tended, todo: Deed) -> Seen:
        spec = worker.spec
        alive = self._backend.is_alive(spec)
        if todo is Deed.STOP:
            return Seen(alive=alive, gone=await self._backend.stop(spec))
        if worker.life.phase is WorkerPhase.FAILED:
            return Seen(alive=alive)
        if not alive:
            return self._death_of(worker)
        if todo is Deed.NOTHING:
            return Seen(alive=True)
        client = self._client_of(self._backend.url(spec))
        if todo is Deed.PROBE:
            return Seen(alive=True, healthy=await client.health())
        return await self._ask(worker, client)

    async def _ask(self, worker: _Tended, client: WorkerClient) -> Seen:
        asked_at = self._clock.now()
        worker.still = canary_sent(worker.still)
        answered = False
        try:
            await client.canary(worker.spec.profile.served_names[0])
            answered = True
        except WorkerError as error:
            if not self._backend.is_alive(worker.spec):
                return self._death_of(worker)
            return Seen(alive=True, asked_at=asked_at, canary_ok=False, detail=str(error))
        finally:
            worker.still = canary_ended(worker.still, answered=answered)
        return Seen(alive=True, asked_at=asked_at, canary_ok=True)

    def _death_of(self, worker: _Tended) -> Seen:
        words = last_words(
            self._backend.log_path(worker.spec), worker.log_begins_at, worker.last_load
        )
        return Seen(alive=False, exit_code=self._backend.exit_code(worker.spec), detail=words)

    async def _move(self, worker: _Tended, life: Life) -> None:
        old = worker.life.phase
        worker.life = life
        if life.phase is not old:
            await self._journal.worker_changed(worker.view(self._backend), old)
