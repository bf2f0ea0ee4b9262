"""Replaying the shipped rules and policy over a stored day.

python -m benchmarks.bench_replay [workers] [hours] [folder]

A day of 100 workers (a vLLM 0.32 page every 15 s, with the signals that ds4watch derives from it,
and what the daemon says of itself) is in a store; now and then a worker is silent, and the queue
grows. The replay is a process of its own, started anew; nothing is read beforehand. There is no
peer: `promtool test rules` knows only what is written in its test files. With a folder, the day is
kept there, and taken as it is if it is there already. The last line is `ratio=` seconds ÷ 60.
"""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.bench_storage import Clock, copy_to_all, target_of
from benchmarks.support.growing_page import GrowingPage
from ds4watch.engine.collect import Reader
from ds4watch.engine.observe import SELF
from ds4watch.engine.signals import RequestTotals, policy_samples, worker_state_samples
from ds4watch.history.samples import SampleStore
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import ScrapeFailure, ScrapeResult
from ds4watch.model.series import SeriesKey
from ds4watch.model.service_policy import ServicePolicy
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.scrape.exposition import PageReader

BUDGET_SECONDS = 60.0
SPACING_SECONDS = 15
START = 1_700_006_400
QUEUE, CACHE = "num_requests_waiting", "kv_cache_usage_perc"
STILL = ("vllm:num_preemptions", "process_", "vllm:time_to_first_token")
_TYPE = "text/plain; version=0.0.4"
_SILENT = ScrapeFailure(EdgeReason.TIMEOUT, "no answer")
_SILENT_EVERY, _SILENT_FOR = 1000, 8
_BUSY_EVERY, _BUSY_FOR = 500, 40
_FOLDED_AT_ONCE = 600


async def fill(path: Path, results: Callable[[SampleStore], Iterator[ScrapeResult]]) -> None:
    """Store scrapes and fold them."""
    store = SampleStore.open(path, Clock())
    waiting: list[ScrapeResult] = []
    for result in results(store):
        waiting.append(result)
        if len(waiting) == _FOLDED_AT_ONCE:
            await store.append(waiting)
            await store.fold(result.at)
            waiting = []
    await store.append(waiting)
    await store.fold(result.at + SPACING_SECONDS)
    await store.close()


def of_a_worker(store: SampleStore, scrapes: int) -> Iterator[ScrapeResult]:
    """Yield pages with their signals; now and then a queue grows, or there is no answer."""
    page, pages, reader = GrowingPage(), PageReader(store), Reader(store)
    target = target_of(0, 1)
    first = pages.read(page.render(), _TYPE, target.name)
    schema, values_at_first = first.schema, first.values.copy()
    names = [key.name for key in schema.series]
    waiting, used = names.index(f"vllm:{QUEUE}"), names.index(f"vllm:{CACHE}")
    # What a sound worker's page does not count up by chance.
    still = [place for place, name in enumerate(names) if name.startswith(STILL)]
    steady = values_at_first[still]
    for number in range(scrapes):
        at = float(START + SPACING_SECONDS * number)
        values = pages.read(page.render(), _TYPE, target.name).values
        values[waiting] = 3.0 if number % _BUSY_EVERY < _BUSY_FOR else 0.0
        values[still] = steady
        values[used] = 0.6 + 0.35 * math.sin(number / 400)
        result = ScrapeResult(target, at, schema.id, values, None, 0.01)
        if number > _SILENT_FOR and number % _SILENT_EVERY < _SILENT_FOR:
            result = ScrapeResult(target, at, 0, np.empty(0), _SILENT, 5.0)
        yield from reader.read([result]).results
        page.step()


def of_the_daemon(store: SampleStore, workers: int, scrapes: int) -> Iterator[ScrapeResult]:
    """Yield what the daemon says of itself."""
    views = [
        WorkerView(f"w{each:04}", "bench", ("m",), "", WorkerPhase.READY, START)
        for each in range(workers)
    ]
    samples = [
        *worker_state_samples(views),
        *RequestTotals().samples(),
        *policy_samples(ServicePolicy(), {}),
    ]
    schema = store.intern(tuple(SeriesKey(it.name, it.labels) for it in samples))
    values = np.array([it.value for it in samples], dtype=np.float64)
    for number in range(scrapes):
        yield ScrapeResult(SELF, START + 0.5 + SPACING_SECONDS * number, schema.id, values)


def made(folder: Path, workers: int, hours: float) -> Path:
    """Return a store with the past of so many workers."""
    path = folder / "state" / "samples.db"
    scrapes = int(hours * 3600 / SPACING_SECONDS)
    if not path.exists():
        asyncio.run(fill(path, lambda store: of_a_worker(store, scrapes)))
        copy_to_all(path, workers, 1)
        asyncio.run(fill(path, lambda store: of_the_daemon(store, workers, scrapes)))
    return path


def replayed(path: Path, hours: float) -> tuple[float, str]:
    """Return the seconds that a replay takes, start and all, and what it prints."""
    end = START + 3600 * hours - SPACING_SECONDS
    command: Sequence[object] = (
        *(sys.executable, "-m", "ds4watch", "rules", "replay", "--store", path),
        *("--from", START, "--to", int(end), "--step", "15s"),
    )
    begun = time.perf_counter()
    done = subprocess.run([*map(str, command)], check=True, stdout=subprocess.PIPE, text=True)
    return time.perf_counter() - begun, done.stdout


def main() -> None:
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    hours = float(sys.argv[2]) if len(sys.argv) > 2 else 24.0
    with tempfile.TemporaryDirectory() as name:
        path = made(Path(sys.argv[3] if len(sys.argv) > 3 else name), workers, hours)
        print(f"{hours:g} hours of {workers} workers are stored", flush=True)
        took, said = replayed(path, hours)
    print(said)
    print(f"replayed in {took:.1f} s (budget {BUDGET_SECONDS:g} s)")
    print(f"ratio={took / BUDGET_SECONDS:.2f}")


if __name__ == "__main__":
    main()
