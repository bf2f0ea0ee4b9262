"""The local backend: workers as processes of this machine."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ds4watch.config.profile import Engine
from ds4watch.fleet.command import HOST
from ds4watch.fleet.devices import Holding
from ds4watch.fleet.gpu_desk import GpuDesk
from ds4watch.fleet.life import Life, adopted, ending
from ds4watch.fleet.ports import Listener, hold_free_port, listener_on
from ds4watch.fleet.process import ProcessRecord, ProcessTable, left_of, members
from ds4watch.fleet.recipe import Recipe, WorkerSpec, see_to_model, worker_environment
from ds4watch.fleet.worker_keys import WorkerKeys
from ds4watch.model.errors import EdgeReason, WorkerError
from ds4watch.model.ports import Clock, UnixSeconds

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LocalPlace:
    """What workers on this machine share.

    gpu_fault: tells why no new worker can use a GPU now; empty if it can.
    """

    state_dir: Path
    vllm_python: Path
    has_gpu: bool
    first_port: int
    stop_grace_seconds: float
    gpu_fault: Callable[[], Awaitable[str]]
    gpus: GpuDesk = field(default_factory=GpuDesk)


class LocalBackend:
    """Starts, finds again and stops workers as processes in sessions of their own."""

    def __init__(self, place: LocalPlace, table: ProcessTable, clock: Clock) -> None:
        self._place = place
        self._table = table
        self._clock = clock
        self._recipe = Recipe(place.state_dir, place.vllm_python, has_gpu=place.has_gpu)
        self._keys = WorkerKeys(place.state_dir, os.environ)
        self._records: dict[str, ProcessRecord] = {}
        self._listeners: dict[str, Listener] = {}
        """Who was found on a worker's port; once somebody is, nobody looks again."""

    async def adopt(self, specs: Sequence[WorkerSpec]) -> dict[str, Life]:
        """Take over workers that still run and are still wanted; end the others.

        Returns the life of each adopted worker by id.
        """
        wanted = {f"worker/{spec.id}": spec for spec in specs if spec.url is None}
        lives: dict[str, Life] = {}
        strangers = []
        for record in list(self._table.records()):
            if not record.unit.startswith("worker/"):
                continue
            spec = wanted.get(record.unit)
            if not record.is_alive():
                self._table.kill_leftovers(record)
                self._table.forget(record)
            elif spec is not None and record.spec == self._recipe.digest(spec):
                self._records[spec.id] = record
                self._place.gpus.adopt(spec.id, Holding.from_json(record.gpus))
                taken_on = ending if record.is_ending else adopted
                lives[spec.id] = taken_on(record.started_at, self._clock.now())
            else:
                log.info("%s: no longer wanted as it runs: stopped", record.unit)
                strangers.append(record)
        grace = self._place.stop_grace_seconds
        await asyncio.gather(*(self._table.stop(it, grace_seconds=grace) for it in strangers))
        return lives

    async def start(self, spec: WorkerSpec) -> None:
        """Start a worker. Raises WorkerError if it cannot be started."""
        if spec.url is not None:
            return
        await see_to_gpu(spec, self._place)
        await see_to_model(spec.profile)
        await self._recipe.prepare(spec)
        await self._end_latecomer(spec)
        gpu_environment = await self._place.gpus.take(spec)
        taken = [record.port for record in self._records.values()]
        try:
            with hold_free_port(self._place.first_port, taken) as held:
                command = self._recipe.command(spec, held.port)
                added = {**command.env, **gpu_environment, **self._keys.keep(spec)}
                self._listeners.pop(spec.id, None)
                self._records[spec.id] = self._table.spawn(
                    f"worker/{spec.id}",
                    command.argv,
                    env=worker_environment(os.environ, added),
                    spec=self._recipe.digest(spec),
                    port=held.port,
                    gpus=self._place.gpus.holding(spec.id).as_json(),
                    keep=(held.holder.fileno(),),
                )
        except WorkerError:
            self._place.gpus.release(spec.id)
            raise

    async def stop(self, spec: WorkerSpec) -> bool:
        """Stop a worker and all it started. Returns False if something survived SIGKILL."""
        record = self._records.get(spec.id)
        if record is None:
            return True
        gone = await self._table.stop(record, grace_seconds=self._place.stop_grace_seconds)
        if gone:
            self._records.pop(spec.id, None)
            self._place.gpus.release(spec.id)
        return gone

    def remains(self, spec: WorkerSpec) -> str:
        """Return in a line which processes of a worker run, and how to end them."""
        record = self._records.get(spec.id)
        return left_of(record) if record is not None else ""

    async def left(self) -> tuple[str, ...]:
        """Return a line for each worker of which a process runs, and how to end it."""
        units = [it for it in self._table.records() if it.unit.startswith("worker/")]
        return tuple(line for unit in units if (line := left_of(unit)))

    async def runs(self, spec: WorkerSpec) -> bool:
        """Return whether a process runs as the spec has it; also before it is adopted."""
        unit, digest = f"worker/{spec.id}", self._recipe.digest(spec)
        return any(
            it.unit == unit and it.spec == digest and it.is_alive() for it in self._table.records()
        )

    async def started_at(self, spec: WorkerSpec) -> UnixSeconds | None:
        """Return when the process of a worker was started; of one that was told to end, None."""
        unit = f"worker/{spec.id}"
        mine = [it for it in self._table.records() if it.unit == unit and not it.is_ending]
        return max((it.started_at for it in mine if it.is_alive()), default=None)

    def is_alive(self, spec: WorkerSpec) -> bool:
        """Return whether the worker's process runs, and has its port; so it is if somebody else's.

        A worker whose port a stranger has is as good as dead: the stranger gets its requests.
        """
        if spec.url is not None:
            return True
        record = self._records.get(spec.id)
        if record is None or not self._table.is_alive(record):
            return False
        return self._listener(spec.id, record) is not Listener.STRANGER

    def exit_code(self, spec: WorkerSpec) -> int | None:
        """Return how the worker's process ended, if known."""
        record = self._records.get(spec.id)
        return self._table.exit_code(record) if record is not None else None

    def pid(self, spec: WorkerSpec) -> int | None:
        """Return the worker's process id."""
        record = self._records.get(spec.id)
        return record.pid if record is not None else None

    def url(self, spec: WorkerSpec) -> str:
        """Return the worker's base address; empty until it has a port."""
        if spec.url is not None:
            return spec.url.rstrip("/")
        record = self._records.get(spec.id)
        return f"http://{HOST}:{record.port}" if record is not None else ""

    def log_path(self, spec: WorkerSpec) -> Path:
        """Return where the worker's output goes."""
        return self._table.log_path(f"worker/{spec.id}")

    def preparing(self, spec: WorkerSpec) -> str:
        """Return what has to be made before the worker can start; empty if nothing."""
        return self._recipe.preparing(spec)

    async def _end_latecomer(self, spec: WorkerSpec) -> None:
        """End what a daemon started just before it died: not yet written down when we looked."""
        unit = f"worker/{spec.id}"
        for record in [it for it in self._table.records() if it.unit == unit and it.is_alive()]:
            log.warning("%s: process %s of an earlier daemon is ended", unit, record.pid)
            grace = self._place.stop_grace_seconds
            if not await self._table.stop(record, grace_seconds=grace):
                message = f"not started: process {record.pid} of an earlier daemon does not end"
                raise WorkerError(message, reason=EdgeReason.OTHER)

    def _listener(self, worker_id: str, record: ProcessRecord) -> Listener:
        known = self._listeners.get(worker_id, Listener.NOBODY)
        if known is not Listener.NOBODY:
            return known
        found = listener_on(record.port, members(record))
        self._listeners[worker_id] = found
        if found is Listener.STRANGER:
            log.warning(
                "%s: another process took its port %s; it goes to another", worker_id, record.port
            )
        return found


async def see_to_gpu(spec: WorkerSpec, place: LocalPlace) -> None:
    """Raise WorkerError if the worker needs a GPU, and no new process can use one."""
    on_gpu = place.has_gpu and spec.profile.engine is Engine.VLLM
    if on_gpu and (why := await place.gpu_fault()):
        raise WorkerError(f"not started: {why}", reason=EdgeReason.OTHER)
