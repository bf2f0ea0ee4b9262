"""Requests that begin alike, grouped behind the first of them or not, at simulated workers.

python -m benchmarks.bench_batching [groups [workers]]; the last line is `ratio=` tokens computed
in prefill with windows ÷ without. The workers model vLLM's prefix cache: full blocks are reused as
soon as a step has computed them, so without windows too a part of a burst hits. Tokens are bytes.
The middle line has windows of 1 ms: what it gains comes from going to the leader's worker alone.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.support.corpora import documents
from benchmarks.support.sim_workers import sim_workers, total_of
from ds4watch.config.batching import BatchingSettings
from ds4watch.config.settings import GatewaySettings
from ds4watch.gateway.clock import SystemClock
from ds4watch.gateway.server import GatewayOptions, Serving, serving
from ds4watch.model.service_policy import Board
from ds4watch.model.worker import FleetSnapshot, WorkerView

PREFIX_CHARS = 6000
BURST = 8
"""Requests of a group, which come within BURST_SECONDS; groups come every GROUP_SECONDS."""
BURST_SECONDS = 0.03
GROUP_SECONDS = 0.25
PREFILL_PER_SECOND = 100_000
"""A prefix takes 60 ms: inside the windows."""


@dataclass(frozen=True)
class Seen:
    queried: float
    computed: float
    first_token_seconds: Sequence[float]
    waited_seconds: float
    followers: int
    timed_out: int

    @property
    def hit_ratio(self) -> float:
        return 1.0 - self.computed / self.queried


def bursts(groups: int) -> list[tuple[float, dict[str, Any]]]:
    """Return (second, body) pairs; half of the groups ask for short answers, half for long ones."""
    dice = random.Random(7)
    prefixes = documents("python reference", chars=PREFIX_CHARS + 500, count=groups, seed=7)
    found = []
    for number, prefix in enumerate(prefixes):
        for at in range(BURST):
            turns = [
                {"role": "system", "content": prefix[:PREFIX_CHARS]},
                {"role": "user", "content": f"Question {at}: {dice.random()}"},
            ]
            body = {"model": "sim", "messages": turns, "stream": True, "ignore_eos": True}
            body["max_tokens"] = 20 if number % 2 else 300
            found.append((number * GROUP_SECONDS + dice.uniform(0, BURST_SECONDS), body))
    return sorted(found, key=lambda it: it[0])


async def first_token(http: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> float:
    begun = time.perf_counter()
    async with http.post(url + "/v1/chat/completions", json=body) as response:
        assert response.status == 200, await response.text()
        await response.content.readany()
        taken = time.perf_counter() - begun
        await response.content.read()
    return taken


async def traffic(url: str, load: Sequence[tuple[float, dict[str, Any]]]) -> list[float]:
    begun = time.perf_counter()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as http, asyncio.TaskGroup() as group:
        tasks = []
        for at, body in load:
            await asyncio.sleep(max(0.0, at - (time.perf_counter() - begun)))
            tasks.append(group.create_task(first_token(http, url, body)))
    return [task.result() for task in tasks]


async def run(batching: BatchingSettings, groups: int, count: int) -> Seen:
    rates = ("--prefill-tokens-per-second", str(PREFILL_PER_SECOND))
    more = ("--max-num-seqs", "64", "--kv-blocks", "65536", "--decode-tokens-per-second", "100")
    with tempfile.TemporaryDirectory() as folder:
        async with sim_workers(count, *rates, *more) as workers:
            write_board(Path(folder), workers)
            settings = GatewaySettings(batching=batching)
            options = GatewayOptions("g0", Path(folder), "127.0.0.1", 0, settings)
            async with serving(options, SystemClock()) as front:
                return await measured(front, workers, groups)


def write_board(folder: Path, workers: Sequence[WorkerView]) -> None:
    board = Board(1, FleetSnapshot(time.time(), tuple(workers)))
    (folder / "board.json").write_text(json.dumps(board.as_json()))


async def measured(front: Serving, workers: Sequence[WorkerView], groups: int) -> Seen:
    taken = await traffic(f"http://127.0.0.1:{front.port}", bursts(groups))
    async with aiohttp.ClientSession() as http:
        queried = await total_of("vllm:prefix_cache_queries_total", workers, http)
        hits = await total_of("vllm:prefix_cache_hits_total", workers, http)
    counts = front.windows
    return Seen(
        queried=queried,
        computed=queried - hits,
        first_token_seconds=taken,
        waited_seconds=counts.waited_seconds,
        followers=counts.followed,
        timed_out=counts.timed_out,
    )


def told(name: str, seen: Seen) -> None:
    ordered = sorted(seen.first_token_seconds)
    print(
        f"{name:8} hit ratio {seen.hit_ratio:.3f}, {seen.computed:9,.0f} tokens computed, first "
        f"token p50 {statistics.median(ordered) * 1e3:4.0f} ms, "
        f"p95 {ordered[int(0.95 * len(ordered))] * 1e3:4.0f} ms; "
        f"{seen.followers} waited {seen.waited_seconds / max(1, seen.followers) * 1e3:.0f} ms "
        f"on the mean, {seen.timed_out} up to the window's end"
    )


async def main() -> None:
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    best = 1 - 1 / BURST
    print(
        f"{groups} groups of {BURST} requests with {PREFIX_CHARS} tokens in common, {count} workers"
        f" of {PREFILL_PER_SECOND:,} tokens a second; at best {best:.3f} of a prefix is reused"
    )
    off = await run(BatchingSettings(), groups, count)
    told("without", off)
    at_once = BatchingSettings(always=True, answering_seconds=0.001, generation_seconds=0.001)
    told("1 ms", await run(at_once, groups, count))
    on = await run(BatchingSettings(always=True), groups, count)
    told("windows", on)
    print(f"prefill tokens saved: {off.computed - on.computed:,.0f}")
    print(f"ratio={on.computed / off.computed:.4f}")


if __name__ == "__main__":
    asyncio.run(main())
