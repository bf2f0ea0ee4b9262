"""What the supervisor needs of whoever runs the workers: this machine, systemd, a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ds4watch.fleet.life import Life
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.model.ports import UnixSeconds


class Backend(Protocol):
    """Starts, finds again and stops workers.

    Somebody else's worker (a spec with `url`) is alive always, and neither started nor stopped.
    What is not awaited answers from what is known, at once: it is asked twice a second.
    """

    async def adopt(self, specs: Sequence[WorkerSpec]) -> dict[str, Life]:
        """Take over workers that still run and are still wanted; end all others of this fleet.

        Returns the life of each adopted worker by id. Raises WorkerError if nobody can be asked.
        """
        ...

    async def start(self, spec: WorkerSpec) -> None:
        """Start a worker. Raises WorkerError if it cannot be started."""
        ...

    async def stop(self, spec: WorkerSpec) -> bool:
        """Stop a worker and all it started. Returns False if something of it is left."""
        ...

    def remains(self, spec: WorkerSpec) -> str:
        """Return in a line what of a worker withstood a stop, and how to end it."""
        ...

    async def left(self) -> tuple[str, ...]:
        """Return a line for each worker of this fleet that runs: what it is, how to end it.

        Raises WorkerError if nobody can be asked.
        """
        ...

    async def runs(self, spec: WorkerSpec) -> bool:
        """Return whether a worker runs as the spec has it; also before it is adopted.

        Raises WorkerError if nobody can be asked.
        """
        ...

    async def started_at(self, spec: WorkerSpec) -> UnixSeconds | None:
        """Return when what runs of a worker was started; as `runs`.

        None if nothing runs, or only what was told to end.
        """
        ...

    def is_alive(self, spec: WorkerSpec) -> bool:
        """Return whether the worker runs, on the port that is its own."""
        ...

    def exit_code(self, spec: WorkerSpec) -> int | None:
        """Return how a dead worker ended (negative: by that signal); None if not known."""
        ...

    def pid(self, spec: WorkerSpec) -> int | None:
        """Return the worker's process id; None if it is not of this machine."""
        ...

    def url(self, spec: WorkerSpec) -> str:
        """Return the worker's base address; empty until it has one."""
        ...

    def log_path(self, spec: WorkerSpec) -> Path:
        """Return where the worker's output goes, or is copied to."""
        ...

    def preparing(self, spec: WorkerSpec) -> str:
        """Return what has to be made before the worker can start; empty if nothing."""
        ...
