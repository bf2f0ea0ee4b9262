"""How a worker is started, whoever starts it: command, environment, what has to be made before."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ds4watch.config.profile import Engine, Profile
from ds4watch.config.shipped import shipped
from ds4watch.fleet.command import Command, key_label, maker_command, model_path, worker_command
from ds4watch.model.alert import fingerprint_of
from ds4watch.model.errors import EdgeReason, WorkerError
from ds4watch.model.series import labels_of

_SECRET_WORDS = ("TOKEN", "SECRET", "PASSWORD", "API_KEY", "WEBHOOK")
_KEPT_SECRETS = ("HF_TOKEN",)
_NOT_INHERITED = (
    *("VLLM_SERVER_DEV_MODE", "PROMETHEUS_MULTIPROC_DIR"),
    *("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"),
)
"""A profile says who has development endpoints; workers of one such folder add up their metrics.
What systemd wants to hear, it wants to hear from us."""
_MAKE_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """A worker that is wanted. With `url` it is somebody else's: watched, never started.

    is_spare: it is started only when others are too few or too busy.
    """

    id: str
    profile: Profile
    url: str | None = None
    is_spare: bool = False


class Recipe:
    """What a worker of this fleet is made of."""

    def __init__(self, state_dir: Path, vllm_python: Path, *, has_gpu: bool) -> None:
        self._state_dir = state_dir
        self._vllm_python = vllm_python
        self._has_gpu = has_gpu
        self._making = asyncio.Lock()

    def command(self, spec: WorkerSpec, port: int) -> Command:
        """Return what to execute for a worker on loopback `port`."""
        return worker_command(
            spec.profile,
            port=port,
            python=self._vllm_python,
            state_dir=self._state_dir,
            has_gpu=self._has_gpu,
        )

    def digest(self, spec: WorkerSpec) -> str:
        """Return what tells whether a running worker is still what is wanted."""
        command = self.command(spec, 1)
        engine = Engine(spec.profile.engine).value
        labels = {"engine": engine, "argv": repr(command.argv), "env": repr(command.env)}
        return fingerprint_of(labels_of(labels | key_label(spec.profile)))

    def preparing(self, spec: WorkerSpec) -> str:
        """Return what has to be made before the worker can start; empty if nothing."""
        if spec.url is not None or spec.profile.prepare is None:
            return ""
        folder = model_path(spec.profile, self._state_dir)
        return "" if Path(folder).exists() else f"making the model folder {folder}"

    async def prepare(self, spec: WorkerSpec) -> None:
        """Make what is missing, one thing at a time. Raises WorkerError."""
        if not self.preparing(spec):
            return
        command = maker_command(
            spec.profile,
            script=shipped("serving/tiny-model/make_tiny_model.py"),
            python=self._vllm_python,
            state_dir=self._state_dir,
        )
        async with self._making:
            process = await asyncio.create_subprocess_exec(
                *command.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=worker_environment(os.environ, command.env),
            )
            output = await _output_of(process, spec.profile.name)
        if process.returncode:
            last = output.decode(errors="replace").strip().splitlines()[-1:] or ["no output"]
            message = f"the model of {spec.profile.name} could not be made: {last[0]}"
            raise WorkerError(message, reason=EdgeReason.OTHER)


async def _output_of(process: asyncio.subprocess.Process, name: str) -> bytes:
    """Return what the maker of a model says to its end. Raises WorkerError if that never comes."""
    try:
        async with asyncio.timeout(_MAKE_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError as error:
        process.kill()
        await process.wait()
        message = f"the model of {name} was not made within {_MAKE_SECONDS:g} s"
        raise WorkerError(message, reason=EdgeReason.TIMEOUT) from error
    return output


async def see_to_model(profile: Profile) -> None:
    """Raise WorkerError if the model is a folder of this host that is not there.

    The engine would say so too, after a minute, and its deaths count towards quarantine.
    """
    folder = Path(profile.model or "")
    if profile.prepare is not None or not folder.is_absolute():
        return
    if not await asyncio.to_thread(os.access, folder, os.F_OK):
        message = f"not started: there is no model folder {folder}"
        raise WorkerError(message, reason=EdgeReason.OTHER)


def worker_environment(environ: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a worker: ours without our secrets, and the profile's."""
    kept = {
        name: value
        for name, value in environ.items()
        if name not in _NOT_INHERITED and (name in _KEPT_SECRETS or not is_secret(name))
    }
    return kept | dict(extra)


def is_secret(name: str) -> bool:
    """Return whether an environment variable's name says that its value is nobody's business."""
    return any(word in name.upper() for word in _SECRET_WORDS)
