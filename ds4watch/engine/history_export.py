"""Exports of the history, written by a process of its own so that no tick waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from ds4watch.model.errors import EdgeReason, StoreError

MOST_AT_ONCE = 2
_CHUNK_BYTES = 64 << 10
_NICENESS = 10
_MOST_WORDS = 500


class HistoryExport:
    """Runs `ds4watch history export` on the daemon's own store."""

    def __init__(self, *, config: Path | None, state_dir: Path) -> None:
        where = ["--config", str(config)] if config is not None else []
        self._where = [*where, "--state", str(state_dir)]
        self._running = 0

    async def texts(
        self,
        *,
        form: str,
        start_at: float,
        end_at: float,
        targets: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> AsyncIterator[bytes]:
        """Yield the export as it is written; the process ends with who reads it.

        Raises StoreError if it cannot be had: before anything was yielded, as far as that can be
        told by then.
        """
        if self._running >= MOST_AT_ONCE:
            message = f"{self._running} exports are under way: ask again later"
            raise StoreError(message, reason=EdgeReason.REFUSED, retryable=True)
        self._running += 1
        try:
            async for chunk in _written(
                [*self._where, *_choice(form, start_at, end_at)], targets, names
            ):
                yield chunk
        finally:
            self._running -= 1


def _choice(form: str, start_at: float, end_at: float) -> list[str]:
    return ["--format", form, "--start", repr(start_at), "--end", repr(end_at)]


async def _written(
    options: Sequence[str], targets: Sequence[str], names: Sequence[str]
) -> AsyncIterator[bytes]:
    chosen = [*(f"--target={it}" for it in targets), *(f"--name={it}" for it in names)]
    process = await asyncio.create_subprocess_exec(
        *("nice", "-n", str(_NICENESS), sys.executable, "-m", "ds4watch", "history", "export"),
        *options,
        *chosen,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    words = asyncio.create_task(process.stderr.read())
    try:
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            yield chunk
        if await process.wait():
            told = (await words).decode(errors="replace").strip()[-_MOST_WORDS:]
            raise StoreError(told or "the export failed", reason=EdgeReason.OTHER)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        words.cancel()
