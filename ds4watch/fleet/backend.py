"""The local backend: workers as processes of this machine."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ds4watch.config.profile import Engine, Profile
from ds4watch.config.shipped import shipped
from ds4watch.fleet.command import HOST, Command, maker_command, model_path, worker_command
from ds4watch.fleet.life import Life, adopted
from ds4watch.fleet.process import ProcessRecord, ProcessTable
from ds4watch.model.alert import fingerprint_of
from ds4watch.model.errors import EdgeReason, WorkerError
from ds4watch.model.ports import Clock
from ds4watch.model.series import labels_of

log = logging.getLogger(__name__)

_SECRET_WORDS = ("TOKEN", "SECRET", "PASSWORD", "API_KEY", "WEBHOOK")
_KEPT_SECRETS = ("HF_TOKEN",)


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """A worker that is wanted. With `url` it is somebody else's: watched, never started.

    is_spare: it is started only when others are too few or too busy.
    """

    id: str
    profile: Profile
    url: str | None = None
    is_spare: bool = False


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


class LocalBackend:
    """Starts, finds again and stops workers as processes in sessions of their own."""

    def __init__(self, place: LocalPlace, table: ProcessTable, clock: Clock) -> None:
        self._place = place
        self._table = table
        self._clock = clock
        self._records: dict[str, ProcessRecord] = {}
        self._making = asyncio.Lock()

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
            elif spec is not None and record.spec == self._digest(spec):
                self._records[spec.id] = record
                lives[spec.id] = adopted(record.started_at, self._clock.now())
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
        await self._see_to_gpu(spec)
        await self._prepare(spec)
        port = free_port(self._place.first_port, (it.port for it in self._records.values()))
        command = self._command(spec, port)
        self._records[spec.id] = self._table.spawn(
            f"worker/{spec.id}",
            command.argv,
            env=worker_environment(os.environ, command.env),
            spec=self._digest(spec),
            port=port,
        )

    async def stop(self, spec: WorkerSpec) -> bool:
        """Stop a worker and all it started. Returns False if something survived SIGKILL."""
        record = self._records.get(spec.id)
        if record is None:
            return True
        gone = await self._table.stop(record, grace_seconds=self._place.stop_grace_seconds)
        if gone:
            self._records.pop(spec.id, None)
        return gone

    def runs(self, spec: WorkerSpec) -> bool:
        """Return whether a process runs as the spec has it; also before it is adopted."""
        unit, digest = f"worker/{spec.id}", self._digest(spec)
        return any(
            it.unit == unit and it.spec == digest and it.is_alive() for it in self._table.records()
        )

    def is_alive(self, spec: WorkerSpec) -> bool:
        """Return whether the worker's process runs; always so for somebody else's."""
        if spec.url is not None:
            return True
        record = self._records.get(spec.id)
        return record is not None and self._table.is_alive(record)

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
        if spec.url is not None or spec.profile.prepare is None:
            return ""
        folder = model_path(spec.profile, self._place.state_dir)
        return "" if Path(folder).exists() else f"making the model folder {folder}"

    async def _see_to_gpu(self, spec: WorkerSpec) -> None:
        on_gpu = self._place.has_gpu and spec.profile.engine is Engine.VLLM
        if on_gpu and (why := await self._place.gpu_fault()):
            raise WorkerError(f"not started: {why}", reason=EdgeReason.OTHER)

    async def _prepare(self, spec: WorkerSpec) -> None:
        if not self.preparing(spec):
            return
        command = maker_command(
            spec.profile,
            script=shipped("serving/tiny-model/make_tiny_model.py"),
            python=self._place.vllm_python,
            state_dir=self._place.state_dir,
        )
        async with self._making:
            process = await asyncio.create_subprocess_exec(
                *command.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=worker_environment(os.environ, command.env),
            )
            output, _ = await process.communicate()
        if process.returncode:
            last = output.decode(errors="replace").strip().splitlines()[-1:] or ["no output"]
            message = f"the model of {spec.profile.name} could not be made: {last[0]}"
            raise WorkerError(message, reason=EdgeReason.OTHER)

    def _command(self, spec: WorkerSpec, port: int) -> Command:
        return worker_command(
            spec.profile,
            port=port,
            python=self._place.vllm_python,
            state_dir=self._place.state_dir,
            has_gpu=self._place.has_gpu,
        )

    def _digest(self, spec: WorkerSpec) -> str:
        command = self._command(spec, 1)
        engine = Engine(spec.profile.engine).value
        return fingerprint_of(
            labels_of({"engine": engine, "argv": repr(command.argv), "env": repr(command.env)})
        )


def free_port(first: int, taken: Iterable[int]) -> int:
    """Return the first port from `first` on that nobody listens on. Raises WorkerError."""
    used = set(taken)
    for port in range(first, min(first + 1000, 65536)):
        if port in used:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    message = f"no free port from {first} on"
    raise WorkerError(message, reason=EdgeReason.REFUSED)


def worker_environment(environ: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a worker: ours without our secrets, and the profile's."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in _KEPT_SECRETS or not any(word in name.upper() for word in _SECRET_WORDS)
    }
    return kept | dict(extra)
