"""Reload: the daemon checks its files as `ds4watch check` does, and then executes itself anew.

Everything is read again that way, as at a start: settings, profiles, rules, policy, keys of TLS.
Workers and gateways serve on and are adopted; states of alerts come back from the database.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

log = logging.getLogger(__name__)

_CHECK_SECONDS = 120.0
_TOLD_LINES = 20


async def faults_of(config_file: Path | None, *, sim: bool) -> tuple[str, ...]:
    """Return what is wrong with the files as they are now, a line each; empty: they may be taken.

    In a process of its own: nothing of it is loaded into, or can disturb, the one that runs.
    """
    named = ("--config", str(config_file)) if config_file is not None else ()
    argv = (sys.executable, "-m", "ds4watch", "check", *named, *(("--sim",) if sim else ()))
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            _, said = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return (f"`ds4watch check` did not end within {_CHECK_SECONDS:g} s",)
    if not process.returncode:
        return ()
    lines = said.decode(errors="replace").strip().splitlines()
    return tuple(lines[:_TOLD_LINES]) or (f"`ds4watch check` ended with {process.returncode}",)


class Reload:
    """Takes wishes for a reload one at a time; files with a fault change nothing."""

    def __init__(
        self,
        look: Callable[[], Awaitable[tuple[str, ...]]],
        audit: Callable[[str], Awaitable[None]],
        go: Callable[[], None],
    ) -> None:
        """`look` returns the faults of the files, `go` begins the reload."""
        self._look = look
        self._audit = audit
        self._go = go
        self._task: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """Begin a reload, unless one is under way."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="reload")

    async def _run(self) -> None:
        log.info("reload: checking the files")
        faults = await self._look()
        for line in faults:
            log.error("reload refused, all stays as it was: %s", line)
        if faults:
            await self._audit(f"reload refused, all stays as it was: {faults[0]}")
            return
        await self._audit("reload: the files are good; settings, rules and policy are read anew")
        self._go()


def execute_anew(argv: Sequence[str]) -> None:
    """Become the program of `argv` (sys.orig_argv), with the same process id.

    A SIGHUP before the new one listens for it must not end it.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *argv[1:]])  # noqa: S606 - our own program, no shell
