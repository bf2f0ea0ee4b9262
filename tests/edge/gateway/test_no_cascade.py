"""Twenty workers that run out of memory over six sequences, ten times their load, one kill -9."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.sim.faults import parse_fault
from ds4watch.sim.server import RunningWorker
from ds4watch.sim.settings import SimSettings
from tests.edge.gateway.support import board_of, front_of

WORKERS, HOLDS = 20, 6
CLIENTS = 10 * WORKERS * HOLDS
ASK = {"model": "sim", "prompt": "x", "max_tokens": 50, "ignore_eos": True}
FAULT = f"oom_over={HOLDS}"
SHED_SECONDS = 3.0


def view(name: str, url: str) -> WorkerView:
    ready = WorkerPhase.READY
    return WorkerView(name, "p", ("sim",), url, ready, since=1.0, max_inflight=HOLDS)


@pytest.fixture
def victim() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Return a worker that is a process of its own, and its address."""
    command = [sys.executable, "-m", "ds4watch", "sim", "--port", "0", "--fault", FAULT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().split()[-1]
        process.kill()


async def ask(
    http: aiohttp.ClientSession, url: str, told: Counter[int], over: asyncio.Event
) -> None:
    """Ask again and again; whoever is shed comes back later."""
    while not over.is_set():
        async with http.post(f"{url}/v1/completions", json=ASK) as response:
            await response.read()
        told[response.status] += 1
        if response.status != 200:
            await asyncio.sleep(SHED_SECONDS)


async def until(told: Counter[int], served: int) -> None:
    while told[200] < served:
        await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_the_others_take_what_they_can_and_none_falls_because_one_fell(
    tmp_path: Path, victim: tuple[subprocess.Popen[str], str]
) -> None:
    process, url = victim
    fell: list[str] = []
    told, over = Counter[int](), asyncio.Event()
    async with AsyncExitStack() as stack:
        views = [view("victim", url)]
        for number in range(WORKERS - 1):
            running = RunningWorker(
                SimSettings(max_num_seqs=32, decode_tokens_per_second=25),
                faults=(parse_fault(FAULT),),
                die=partial(fell.append),
            )
            await stack.enter_async_context(running)
            views.append(view(f"w{number:02}", running.url))
        front = await stack.enter_async_context(
            front_of(tmp_path, board_of(*views), max_inflight=100_000, request_timeout_seconds=60)
        )
        http = await stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        )
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(ask(http, front.url, told, over))
            await until(told, 50)
            process.kill()
            await until(told, 50 + 2 * WORKERS * HOLDS)
            over.set()
    assert fell == []
    assert told[503] > CLIENTS / 2
