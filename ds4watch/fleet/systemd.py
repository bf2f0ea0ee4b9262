"""The systemd backend: workers as transient units, which outlive the daemon and its service."""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ds4watch.config.settings import SystemdSettings
from ds4watch.fleet.backend import LocalPlace, see_to_gpu
from ds4watch.fleet.command import HOST
from ds4watch.fleet.devices import Holding
from ds4watch.fleet.launch import start_ticks_of
from ds4watch.fleet.life import Life, adopted, ending
from ds4watch.fleet.ports import Listener, hold_free_port, listener_on
from ds4watch.fleet.process import members
from ds4watch.fleet.recipe import Recipe, WorkerSpec, see_to_model, worker_environment
from ds4watch.fleet.shutdown import grace_seconds
from ds4watch.fleet.systemd_bus import Manager, UnitState
from ds4watch.fleet.systemd_unit import UnitPlan, properties_of, write_secrets
from ds4watch.fleet.unit_record import UnitRecord, UnitRecords
from ds4watch.fleet.worker_keys import WorkerKeys
from ds4watch.model.errors import EdgeReason, WorkerError
from ds4watch.model.ports import Clock, UnixSeconds

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_START_SECONDS = 10.0
_KILL_SECONDS = 10.0


@dataclass(slots=True)
class _Running:
    record: UnitRecord
    listener: Listener = Listener.NOBODY
    ended: UnitState | None = None
    asking: asyncio.Task[None] | None = None


class SystemdBackend:
    """Starts, finds again and stops workers as transient units."""

    def __init__(
        self, place: LocalPlace, settings: SystemdSettings, manager: Manager, clock: Clock
    ) -> None:
        self._place = place
        self._settings = settings
        self._manager = manager
        self._clock = clock
        self._recipe = Recipe(place.state_dir, place.vllm_python, has_gpu=place.has_gpu)
        self._keys = WorkerKeys(place.state_dir, os.environ)
        self._records = UnitRecords(place.state_dir)
        self._running: dict[str, _Running] = {}
        self._promised: dict[str, int] = {}
        """Ports of units that are being started."""

    async def adopt(self, specs: Sequence[WorkerSpec]) -> dict[str, Life]:
        """Take over units that are still wanted as they run; stop the others of this fleet."""
        wanted = {self._records.unit(spec.id): spec for spec in specs if spec.url is None}
        lives: dict[str, Life] = {}
        strangers = []
        for unit in await self._manager.units(self._records.pattern):
            spec, record = wanted.get(unit), self._records.read(unit)
            state = await self._manager.state(unit)
            is_ours = record is not None and record.invocation == state.invocation
            if spec and record and is_ours and self._is_as_wanted(spec, record, state):
                await self._manager.keep_unit(unit)
                self._running[spec.id] = _Running(record)
                self._place.gpus.adopt(spec.id, Holding.from_json(record.gpus))
                taken_on = ending if state.is_ending else adopted
                lives[spec.id] = taken_on(record.started_at, self._clock.now())
            else:
                log.info("%s: no longer wanted as it runs: stopped", unit)
                strangers.append(unit)
        await asyncio.gather(*(self._end(unit) for unit in strangers))
        return lives

    async def start(self, spec: WorkerSpec) -> None:
        """Start a worker. Raises WorkerError if it cannot be started."""
        if spec.url is not None:
            return
        await see_to_gpu(spec, self._place)
        await see_to_model(spec.profile)
        await self._recipe.prepare(spec)
        gpu_environment = await self._place.gpus.take(spec)
        try:
            await self._start(spec, gpu_environment)
        except WorkerError:
            self._place.gpus.release(spec.id)
            raise
        finally:
            self._promised.pop(spec.id, None)

    async def stop(self, spec: WorkerSpec) -> bool:
        """Stop a unit and all its processes. Returns False if something of it is left."""
        if spec.url is not None:
            return True
        running = self._running.get(spec.id)
        if running is None:
            return True
        gone = await self._end(running.record.unit)
        if gone:
            self._running.pop(spec.id, None)
            self._place.gpus.release(spec.id)
        return gone

    def remains(self, spec: WorkerSpec) -> str:
        """Return in a line what withstood a stop, and how to end it."""
        line = self._left(self._records.unit(spec.id))
        return f"{line}, and where that does not help by a restart of the machine"

    def _left(self, unit: str) -> str:
        bus = "" if self._manager.is_system else " --user"
        return f"{unit}: still runs; end it with `systemctl{bus} kill --signal=KILL {unit}`"

    async def left(self) -> tuple[str, ...]:
        """Return a line for each unit of this fleet that runs, and how to end it."""
        units = await self._manager.units(self._records.pattern)
        running = [unit for unit in units if (await self._manager.state(unit)).is_running]
        return tuple(self._left(unit) for unit in running)

    async def runs(self, spec: WorkerSpec) -> bool:
        """Return whether a unit runs as the spec has it; also before it is adopted."""
        unit = self._records.unit(spec.id)
        record = self._records.read(unit)
        if record is None:
            return False
        state = await self._manager.state(unit)
        return record.invocation == state.invocation and self._is_as_wanted(spec, record, state)

    async def started_at(self, spec: WorkerSpec) -> UnixSeconds | None:
        """Return when a unit that runs was started; also before it is adopted."""
        unit = self._records.unit(spec.id)
        record, state = self._records.read(unit), await self._manager.state(unit)
        if record is None or record.invocation != state.invocation or state.is_ending:
            return None
        return record.started_at if record.process().is_alive() else None

    def is_alive(self, spec: WorkerSpec) -> bool:
        """Return whether the unit's main process runs, and has its port.

        Of one that is gone systemd is asked how it ended, and it is dead once that is known.
        """
        if spec.url is not None:
            return True
        running = self._running.get(spec.id)
        if running is None or running.ended is not None:
            return False
        if running.record.process().is_alive():
            return self._listener(spec.id, running) is not Listener.STRANGER
        if running.asking is None:
            running.asking = asyncio.create_task(self._ask_how_it_ended(running))
        return True

    def exit_code(self, spec: WorkerSpec) -> int | None:
        """Return how the unit's main process ended, if known."""
        running = self._running.get(spec.id)
        return running.ended.exit_code if running is not None and running.ended else None

    def pid(self, spec: WorkerSpec) -> int | None:
        """Return the process id of the unit's main process."""
        running = self._running.get(spec.id)
        return running.record.pid if running is not None else None

    def url(self, spec: WorkerSpec) -> str:
        """Return the worker's base address; empty until it has a port."""
        if spec.url is not None:
            return spec.url.rstrip("/")
        running = self._running.get(spec.id)
        return f"http://{HOST}:{running.record.port}" if running is not None else ""

    def log_path(self, spec: WorkerSpec) -> Path:
        """Return where the worker's output goes."""
        return self._place.state_dir / "logs" / f"worker-{spec.id}.log"

    def preparing(self, spec: WorkerSpec) -> str:
        """Return what has to be made before the worker can start; empty if nothing."""
        return self._recipe.preparing(spec)

    async def _start(self, spec: WorkerSpec, gpu_environment: Mapping[str, str]) -> None:
        unit, now = self._records.unit(spec.id), self._clock.now()
        self.log_path(spec).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.log_path(spec).touch(mode=0o600)
        port = self._promised[spec.id] = self._free_port()
        plan = self._plan(spec, port, gpu_environment)
        await self._end(unit)
        write_secrets(plan)
        await self._manager.start_unit(unit, properties_of(plan))
        state = await self._until_begun(unit)
        record = UnitRecord(
            unit=unit,
            invocation=state.invocation,
            spec=self._recipe.digest(spec),
            port=port,
            started_at=now,
            pid=state.main_pid,
            start_ticks=_ticks(state.main_pid),
            end_seconds=plan.stop_grace_seconds,
            gpus=self._place.gpus.holding(spec.id).as_json(),
        )
        self._records.write(record)
        self._running[spec.id] = _Running(record)

    def _free_port(self) -> int:
        """Return a port that is free now; the unit holds it for itself, or ends with status 76.

        Nobody hands descriptors to systemd.
        """
        taken = [running.record.port for running in self._running.values()]
        with hold_free_port(self._place.first_port, [*taken, *self._promised.values()]) as held:
            return held.port

    def _plan(self, spec: WorkerSpec, port: int, gpu_environment: Mapping[str, str]) -> UnitPlan:
        command = self._recipe.command(spec, port)
        own = {**command.env, **gpu_environment, **self._keys.keep(spec)}
        needs_user = self._manager.is_system and os.geteuid() != 0
        return UnitPlan(
            description=f"ds4watch worker {spec.id}",
            argv=command.argv,
            environment=worker_environment(os.environ, own),
            secrets=self._records.secrets(self._records.unit(spec.id)),
            port=port,
            log=self.log_path(spec),
            stop_grace_seconds=grace_seconds(command.argv, self._place.stop_grace_seconds),
            memory_max_bytes=self._settings.memory_max_bytes,
            slice_name=self._settings.slice,
            user=pwd.getpwuid(os.geteuid()).pw_name if needs_user else None,
        )

    async def _until_begun(self, unit: str) -> UnitState:
        """Wait for the unit's main process. Raises WorkerError if it cannot be executed."""
        deadline = self._clock.monotonic() + _START_SECONDS
        while True:
            state = await self._manager.state(unit)
            if state.main_pid or not state.is_running:
                break
            if self._clock.monotonic() >= deadline:
                break
            await asyncio.sleep(_POLL_SECONDS)
        if state.main_pid:
            return state
        await self._end(unit)
        why = state.result or "the unit is gone"
        ended = "" if state.exit_code is None else f", exit status {state.exit_code}"
        raise WorkerError(f"{unit} did not start: {why}{ended}", reason=EdgeReason.OTHER)

    async def _end(self, unit: str) -> bool:
        """Stop a unit, kill what withstands, and forget it. Returns whether it is gone."""
        try:
            gone = await self._stopped(unit)
            if gone:
                await self._manager.forget_unit(unit)
        except WorkerError as error:
            log.warning("%s is not stopped: %s", unit, error)
            return False
        if gone:
            self._records.forget(unit)
        else:
            log.error("%s survives SIGKILL", unit)
        return gone

    async def _stopped(self, unit: str) -> bool:
        if not (await self._manager.state(unit)).is_running:
            return True
        await self._manager.stop_unit(unit)
        if await self._is_down(unit, self._grace_of(unit) + _KILL_SECONDS):
            return True
        await self._manager.kill_unit(unit, signal.SIGKILL)
        return await self._is_down(unit, _KILL_SECONDS)

    def _grace_of(self, unit: str) -> float:
        record = self._records.read(unit)
        own = record.end_seconds if record is not None else 0.0
        return max(self._place.stop_grace_seconds, own)

    async def _is_down(self, unit: str, seconds: float) -> bool:
        deadline = self._clock.monotonic() + seconds
        while (await self._manager.state(unit)).is_running:
            if self._clock.monotonic() >= deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    async def _ask_how_it_ended(self, running: _Running) -> None:
        unit = running.record.unit
        try:
            await self._is_down(unit, self._grace_of(unit))
            running.ended = await self._manager.state(unit)
        except WorkerError as error:
            log.warning("%s has ended, it is not known how: %s", unit, error)
            running.ended = UnitState()

    def _listener(self, worker_id: str, running: _Running) -> Listener:
        if running.listener is Listener.NOBODY:
            record = running.record
            running.listener = listener_on(record.port, members(record.process()))
            if running.listener is Listener.STRANGER:
                log.warning("%s: another process took its port %s", worker_id, record.port)
        return running.listener

    def _is_as_wanted(self, spec: WorkerSpec, record: UnitRecord, state: UnitState) -> bool:
        return state.is_running and record.spec == self._recipe.digest(spec)


def _ticks(pid: int) -> int:
    """Return when the process was started; 0 if it is gone already."""
    try:
        return start_ticks_of(pid)
    except OSError:
        return 0
