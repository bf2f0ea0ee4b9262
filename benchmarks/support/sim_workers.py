"""Simulated workers as a process, and their counters."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp

from ds4watch.model.worker import WorkerPhase, WorkerView


@asynccontextmanager
async def sim_workers(count: int, *arguments: str) -> AsyncIterator[tuple[WorkerView, ...]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ds4watch", "sim", "--port", "0", "--count", str(count)),
        *("--served-model-name", "sim", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            lines = [(await process.stdout.readline()).decode() for _ in range(count)]
        yield tuple(
            WorkerView(f"w{at}", "sim", ("sim",), line.split()[-1], WorkerPhase.READY, since=1.0)
            for at, line in enumerate(lines)
        )
    finally:
        process.kill()
        await process.communicate()


async def total_of(name: str, workers: Sequence[WorkerView], http: aiohttp.ClientSession) -> float:
    """Return the sum of a counter over all workers."""
    total = 0.0
    for worker in workers:
        async with http.get(worker.url + "/metrics") as response:
            page = await response.text()
        lines = [line for line in page.splitlines() if line.startswith(name + "{")]
        total += sum(float(line.rsplit(" ", 1)[1]) for line in lines)
    return total
