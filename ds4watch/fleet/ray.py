"""The Ray backend: workers as jobs of an existing Ray cluster, through its Jobs API.

The daemon needs no Ray of its own, whose version would have to be the cluster's. A job outlives
the daemon; its name and metadata are all that the next one needs to know it again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ds4watch.config.profile import Engine, Profile
from ds4watch.config.settings import RaySettings
from ds4watch.fleet.devices import Need, need_of
from ds4watch.fleet.life import Life, adopted
from ds4watch.fleet.ray_jobs import Job, RayJobs
from ds4watch.fleet.ray_worker import RayWorker
from ds4watch.fleet.recipe import Recipe, WorkerSpec
from ds4watch.fleet.shutdown import grace_seconds
from ds4watch.model.errors import EdgeReason, WorkerError
from ds4watch.model.ports import Clock, UnixSeconds

log = logging.getLogger(__name__)

_PORTS = 1000
_ADDRESS_SECONDS = 5.0
_KILL_SECONDS = 30.0
_POLL_SECONDS = 0.2
_WAITS = "PENDING"
_WAIT_SECONDS = 3.0
_LOG_SECONDS = 2.0
_SOURCE = "DS4WATCH_ENTER"
_RUN = f"import os, sys; exec(os.environ.pop('{_SOURCE}'))"
"""The nodes need nothing of ds4watch: what holds the port there travels with the job."""
_GCS = "${RAY_ADDRESS%:*}"
"""The host that Ray tells a job as its cluster's: the way to it says which address is ours."""


@dataclass(frozen=True, slots=True)
class RayPlace:
    """What workers on the cluster share."""

    state_dir: Path
    settings: RaySettings
    stop_grace_seconds: float


class RayBackend:
    """Starts, finds again and stops workers as jobs."""

    def __init__(self, place: RayPlace, jobs: RayJobs, clock: Clock) -> None:
        settings = place.settings
        self._place = place
        self._settings = settings
        self._jobs = jobs
        self._clock = clock
        self._recipe = Recipe(place.state_dir, Path(settings.python), has_gpu=settings.has_gpu)
        self._prefix = f"ds4watch-{hashlib.sha256(os.fsencode(place.state_dir)).hexdigest()[:8]}-"
        self._workers: dict[str, RayWorker] = {}

    async def adopt(self, specs: Sequence[WorkerSpec]) -> dict[str, Life]:
        """Take over jobs that are still wanted as they run; stop the others of this fleet."""
        wanted = {spec.id: spec for spec in specs if spec.url is None}
        lives: dict[str, Life] = {}
        strangers = []
        for job in await self._jobs.jobs():
            if not job.id.startswith(self._prefix):
                continue
            told = job.metadata or {}
            spec = wanted.get(told.get("worker", ""))
            if not job.is_running:
                await self._jobs.delete(job.id)
            elif spec and spec.id not in lives and told.get("spec") == self._recipe.digest(spec):
                self._workers[spec.id] = RayWorker(self._jobs, job.id, self.log_path(spec))
                lives[spec.id] = adopted(float(told["started_at"]), self._clock.now())
            else:
                log.info("%s: no longer wanted as it runs: stopped", job.id)
                strangers.append(job.id)
        await asyncio.gather(
            *(self._end(job_id) for job_id in strangers),
            *(self._until_announced(worker) for worker in self._workers.values()),
        )
        return lives

    async def start(self, spec: WorkerSpec) -> None:
        """Start a worker: submit its job. Raises WorkerError if the cluster does not take it."""
        if spec.url is not None:
            return
        if _opens_endpoints(spec.profile):
            message = (
                "not started: VLLM_SERVER_DEV_MODE, which `sleep` adds, opens endpoints that are "
                "for loopback only, and workers on Ray listen on the cluster's network"
            )
            raise WorkerError(message, reason=EdgeReason.REFUSED)
        await self._recipe.prepare(spec)
        job_id = f"{self._prefix}{spec.id}-{int(self._clock.now() * 1000):x}"
        await self._jobs.submit(self._job(spec, job_id))
        self._workers[spec.id] = RayWorker(self._jobs, job_id, self.log_path(spec))

    async def stop(self, spec: WorkerSpec) -> bool:
        """Stop a job and all its processes. Returns False if it still runs."""
        worker = self._workers.get(spec.id)
        if worker is None:
            return True
        gone = await self._end(worker.id, worker)
        if gone:
            self._workers.pop(spec.id, None)
        return gone

    def remains(self, spec: WorkerSpec) -> str:
        """Return in a line which job withstood a stop, and how to end it."""
        worker = self._workers.get(spec.id)
        return self._left(worker.id) if worker is not None else ""

    def _left(self, job: str) -> str:
        address = self._settings.url
        return f"{job}: still runs; end it with `ray job stop --address {address} {job}`"

    async def left(self) -> tuple[str, ...]:
        """Return a line for each job of this fleet that runs, and how to end it.

        One that waits for room and was told to stop ends as soon as it begins.
        """
        return tuple(
            self._left(job.id)
            for job in await self._jobs.jobs()
            if job.id.startswith(self._prefix) and job.is_running and job.status != _WAITS
        )

    async def runs(self, spec: WorkerSpec) -> bool:
        """Return whether a job runs as the spec has it; also before it is adopted."""
        wanted = (spec.id, self._recipe.digest(spec))
        return any(
            job.is_running
            and job.id.startswith(self._prefix)
            and ((job.metadata or {}).get("worker"), (job.metadata or {}).get("spec")) == wanted
            for job in await self._jobs.jobs()
        )

    async def started_at(self, spec: WorkerSpec) -> UnixSeconds | None:
        """Return when a worker's job that runs was submitted; also before it is adopted."""
        told = [
            job.metadata or {}
            for job in await self._jobs.jobs()
            if job.is_running and job.id.startswith(self._prefix)
        ]
        mine = [float(it["started_at"]) for it in told if it.get("worker") == spec.id]
        return max(mine, default=None)

    def is_alive(self, spec: WorkerSpec) -> bool:
        """Return whether the job runs or waits for room, as Ray told it last."""
        if spec.url is not None:
            return True
        worker = self._workers.get(spec.id)
        return worker is not None and worker.ended is None

    def exit_code(self, spec: WorkerSpec) -> int | None:
        """Return how the job's process ended, if known."""
        worker = self._workers.get(spec.id)
        return worker.ended.exit_code if worker is not None and worker.ended else None

    def pid(self, spec: WorkerSpec) -> int | None:  # noqa: ARG002 - as all backends have it
        """Return None: a process of another machine has no number here."""
        return None

    def url(self, spec: WorkerSpec) -> str:
        """Return the worker's base address; empty until its node has told it."""
        if spec.url is not None:
            return spec.url.rstrip("/")
        worker = self._workers.get(spec.id)
        return worker.url if worker is not None else ""

    def log_path(self, spec: WorkerSpec) -> Path:
        """Return where the worker's output is copied to."""
        return self._place.state_dir / "logs" / f"worker-{spec.id}.log"

    def preparing(self, spec: WorkerSpec) -> str:
        """Return what has to be made before the worker can start; empty if nothing."""
        return self._recipe.preparing(spec)

    async def close(self) -> None:
        """Follow no job any more; they go on."""
        await asyncio.gather(*(worker.close() for worker in self._workers.values()))
        self._workers.clear()

    def _job(self, spec: WorkerSpec, job_id: str) -> dict[str, Any]:
        source = Path(__file__).with_name("enter.py").read_text(encoding="utf-8")
        command = self._recipe.command(spec, 1)
        argv = shlex.join(_put_elsewhere(command.argv))
        first = self._settings.first_port
        enter = f"exec python3 -I -S -c {shlex.quote(_RUN)} towards:{_GCS} {first} {_PORTS}"
        grace = max(1, round(grace_seconds(command.argv, self._place.stop_grace_seconds)))
        environment = {**command.env, _SOURCE: source, "RAY_JOB_STOP_WAIT_TIME_S": str(grace)}
        job = {
            "submission_id": job_id,
            "entrypoint": f"{enter} -- {argv}",
            "runtime_env": {"env_vars": environment},
            "metadata": {
                "worker": spec.id,
                "spec": self._recipe.digest(spec),
                "started_at": str(self._clock.now()),
                "grace_seconds": str(grace),
            },
            "entrypoint_num_cpus": self._settings.cpus,
        }
        need = need_of(spec.profile, has_gpu=self._settings.has_gpu)
        return job | {"entrypoint_num_gpus": _gpus(need)} if need is not None else job

    async def _until_announced(self, worker: RayWorker) -> None:
        """Wait for the address of a worker that had one: who was ready is ready still."""
        try:
            async with asyncio.timeout(_ADDRESS_SECONDS):
                await worker.announced.wait()
        except TimeoutError:
            log.info("%s has not told its address yet", worker.id)

    async def _end(self, job_id: str, worker: RayWorker | None = None) -> bool:
        """Stop a job and have Ray forget it. Returns whether it is gone.

        One that waits for room cannot be stopped yet; Ray will, as soon as it begins.
        """
        try:
            job = await self._stopped(job_id)
            if job is None or job.status == _WAITS:
                return await self._closed(worker)
            if job.is_running:
                log.error("%s still runs, though Ray was told to stop it", job_id)
                return False
            await self._closed(worker)
            await self._jobs.delete(job_id)
        except WorkerError as error:
            log.warning("%s is not stopped: %s", job_id, error)
            return False
        return True

    async def _stopped(self, job_id: str) -> Job | None:
        """Have a job stopped, wait, and return how it stands."""
        job: Job | None = await self._jobs.job(job_id)
        if job is None or not job.is_running:
            return job
        await self._jobs.stop(job_id)
        begun = self._clock.monotonic()
        while job is not None and job.is_running:
            waited = self._clock.monotonic() - begun
            patience = self._grace_of(job) + _KILL_SECONDS
            if waited >= (_WAIT_SECONDS if job.status == _WAITS else patience):
                break
            await asyncio.sleep(_POLL_SECONDS)
            job = await self._jobs.job(job_id)
        return job

    def _grace_of(self, job: Job) -> float:
        own = (job.metadata or {}).get("grace_seconds", "0")
        return max(self._place.stop_grace_seconds, float(own))

    async def _closed(self, worker: RayWorker | None) -> bool:
        if worker is not None:
            await worker.close(log_seconds=_LOG_SECONDS if worker.url else 0.0)
        return True


def _opens_endpoints(profile: Profile) -> bool:
    """Return whether a vLLM would have its development endpoints: sleep adds them as well."""
    is_told = profile.environment.get("VLLM_SERVER_DEV_MODE", "0") not in ("", "0")
    return is_told or (profile.sleep and profile.engine is Engine.VLLM)


def _gpus(need: Need) -> float:
    """Return what Ray reserves: whole GPUs, or a share of one."""
    return need.share if need.count == 1 else need.count


def _put_elsewhere(argv: Sequence[str]) -> list[str]:
    """Return a worker's arguments with host and port left open."""
    opened = list(argv)
    for flag, place in (("--host", "{host}"), ("--port", "{port}")):
        opened[opened.index(flag) + 1] = place
    return opened
